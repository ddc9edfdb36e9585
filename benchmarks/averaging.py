"""Two rows of the ablation of ZINC 100K plus from one training: with averaged weights, and without.

    python -m benchmarks.averaging [--epochs 120] [--seeds 0 1 2] [--out runs/plus]

Averaging reads the weights of a training and never changes them: a run with it takes the very steps of the one without
(`check_same_steps` compares their settings). So each epoch is validated twice, and the best weights of both kinds are
kept. What `egt reproduce plus --rows upto-decay zinc-100k-plus` would find is written to OUT, in half the time. Every
run continues if it was stopped; finished ones are not repeated.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import egt
from egt.assemble import build_task
from egt.config.run import RunConfig
from egt.config.run_data import open_source, prepare_split
from egt.data.store import Store
from egt.inference.evaluation import evaluate
from egt.inference.predictor import Predictor
from egt.paper.presets import preset
from egt.paper.reproduce import with_epochs
from egt.paper.results import RESULT, machine, write_record
from egt.parts.tasks.task import Task
from egt.training.callbacks import Callback
from egt.training.record import read_run
from egt.training.run_folder import read_tensors, write_tensors
from egt.training.state import State

AVERAGED, PLAIN = "zinc-100k-plus", "zinc-100k-upto-decay"
BEST, HISTORY = "plain.safetensors", "plain.json"


class Unaveraged(Callback):
    """Validates the weights themselves after each epoch, and keeps the best of them in the folder of the run.

    Args:
        task: of the run.
        validation: its graphs.
    """

    def __init__(self, task: Task, validation: Store) -> None:
        self.task, self.validation = task, validation

    def on_epoch(self, state: State, row: Mapping[str, float]) -> None:
        """Add a row to the history, and write the weights if they are better than all before."""
        file = state.folder / HISTORY
        rows = json.loads(file.read_text()) if file.exists() else []
        rows = [known for known in rows if known["epoch"] < row["epoch"]]  # a run may go on from before its last row
        found = evaluate(state.model, self.task, state.config, self.validation)
        if found.loss < min((known["val_loss"] for known in rows), default=float("inf")):
            write_tensors(state.folder / BEST, {"epoch": row["epoch"]}, state.model.state_dict())
        values = {"val_loss": found.loss, "val_mae": found.metrics["mae"]}
        rows.append({**{name: row[name] for name in ("epoch", "step", "lr", "train_loss", "seconds")}, **values})
        file.write_text(json.dumps(rows))


def check_same_steps(averaged: RunConfig, plain: RunConfig) -> None:
    """Stop unless two runs differ in the averaging alone."""
    trainer = averaged.trainer.model_copy(update={"ema_decay": None})
    if averaged.model_copy(update={"name": plain.name, "trainer": trainer}) != plain:
        raise SystemExit(f"{averaged.name} and {plain.name} differ in more than averaged weights")


def both_rows(seed: int, epochs: int, out: Path) -> None:
    """Train one seed and write the results of both rows."""
    averaged, plain = (
        with_epochs(preset(name), epochs).model_copy(update={"seed": seed}) for name in (AVERAGED, PLAIN)
    )
    check_same_steps(averaged, plain)
    folder, beside = (out / name / f"seed{seed}" for name in (AVERAGED, PLAIN))
    if (beside / RESULT).exists():
        return
    validation = prepare_split(averaged, open_source(averaged), "val")
    watch = Unaveraged(build_task(averaged), validation)
    run = egt.train(averaged, out=folder, resume=folder.exists(), callbacks=[watch], progress=False)
    record = replace(read_run(folder), machine=machine())
    write_record(record, folder)

    state, weights = read_tensors(folder / BEST)
    run.artifact.model.load_state_dict(weights)
    model = Predictor(run.artifact)
    metrics = {split: model.evaluate(split) for split in ("val", "test")}
    rows = json.loads((folder / HISTORY).read_text())
    beside.mkdir(parents=True, exist_ok=True)
    found = replace(record, metrics=metrics, history=rows, epoch=int(state["epoch"]), coverage={})
    write_record(replace(found, name=PLAIN, preset=PLAIN, config=plain.model_dump(mode="json")), beside)
    print(f"seed {seed}: test MAE {record.metrics['test']['mae']} averaged, {metrics['test']['mae']} plain", flush=True)


def main() -> None:
    """Train all seeds that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=120)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs/plus"))
    asked = parser.parse_args()
    for seed in asked.seeds:
        both_rows(seed, asked.epochs, asked.out)


if __name__ == "__main__":
    main()
