"""Which defaults for users' own data win: one change at a time, on open data, judged on validation.

    python -m benchmarks.defaults [--data esol ...] [--arms default walks ...] [--seeds 0 1 2] [--out runs/defaults]

Reads EGT_DATA_DIR. A seed is that of the training and of the division of the rows, the same for every arm, so that arms
are compared row by row. Arms take turns within a seed. Every finished run is a line of OUT/results.jsonl, and runs that
have one are skipped. The table at the end has the mean over seeds and its difference to the default. To choose is what
validation is for; the test column only tells whether the choice held.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import egt
from egt.data.download import data_folder

Record = dict[str, Any]


@dataclass(frozen=True)
class Data:
    """A data set as a user has it.

    Fields:
        path: makes or finds its file; is given a folder to write to.
        target: its column, or None where the data says so.
        metric: what is compared.
        settings: besides those of the arm.
    """

    path: Callable[[Path], Path]
    target: str | None
    metric: str
    settings: Sequence[str] = ()

    @property
    def higher(self) -> bool:
        """Whether more is better."""
        return self.metric not in ("rmse", "mae")


def moleculenet(name: str) -> Callable[[Path], Path]:
    """Find a table of MoleculeNet."""
    return lambda folder: data_folder() / "moleculenet" / f"{name}.csv.gz"


def sampled(source: str, count: int) -> Callable[[Path], Path]:
    """Make a table of rows evenly spread over a larger one, without its split."""

    def make(folder: Path) -> Path:
        with gzip.open(data_folder() / source, "rt", newline="") as file:
            rows = [{key: cell for key, cell in row.items() if key != "split"} for row in csv.DictReader(file)]
        out = folder / f"{Path(source).name.split('.')[0]}-{count}.csv"
        with out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows[k] for k in np.linspace(0, len(rows) - 1, count).astype(int))
        return out

    return make


SCAFFOLD = ("split=scaffold",)
DATA = {
    "esol": Data(moleculenet("esol"), "logSolubility", "rmse"),
    "esol-scaffold": Data(moleculenet("esol"), "logSolubility", "rmse", SCAFFOLD),
    "bbbp": Data(moleculenet("bbbp"), "p_np", "roc_auc"),
    "bbbp-scaffold": Data(moleculenet("bbbp"), "p_np", "roc_auc", SCAFFOLD),
    "tox21": Data(moleculenet("tox21"), "*", "roc_auc"),
    "qm9": Data(sampled("qm9/qm9_g4mp2_atomization_130k.csv.gz", 3_000), "atomization_ha", "mae"),
    "molhiv": Data(sampled("molhiv/molhiv.csv.gz", 6_000), "y", "roc_auc", SCAFFOLD),
    "enzymes": Data(lambda folder: data_folder() / "tudataset" / "ENZYMES", None, "accuracy", ("split=stratified",)),
}

WALKS = (
    "model.pair_inputs+={kind: random_walk, num_steps: 16, scaled: true, bias: false}",
    "model.node_inputs+={kind: random_walk, num_steps: 16, scaled: true}",
)
FLOW = ("model.edges.kind=outer_sum", "model.edge_values=sliced")
COSINE = ("schedule={kind: cosine, warmup: 0.05, min_lr: 1e-6}", "trainer.gradient_clip=1.0")
DECAY = ("optimizer.weight_decay=0.01", "optimizer.decays=matrices")
MEAN = ("model.readout.kind=mean",)
METRIC = ("trainer.select_by=metric",)
LEAN = ("model.num_layers=3", "model.readout.kind=scaled_sum")


def dropout(probability: float) -> Sequence[str]:
    """Return the settings of one dropout everywhere on the nodes."""
    return [f"model.{part}={probability}" for part in ("attention_dropout", "node_dropout", "node_ffn_dropout")]


ARMS: Mapping[str, Sequence[str]] = {
    "default": (),
    "walks": WALKS,
    "flow": FLOW,
    "walks, flow": (*WALKS, *FLOW),
    "mean": MEAN,
    "scaled_sum": ("model.readout.kind=scaled_sum",),
    "attention": ("model.readout.kind=attention",),
    "decay": DECAY,
    "average": ("trainer.ema_decay=0.99",),
    "dropout 0.2": dropout(0.2),
    "metric": METRIC,
    "mean, dropout 0.2": (*MEAN, *dropout(0.2)),
    "mean, dropout 0.3": (*MEAN, *dropout(0.3)),
    "mean, dropout 0.2, metric": (*MEAN, *dropout(0.2), *METRIC),
    "dropout 0.2, metric": (*dropout(0.2), *METRIC),
    "neighbors": ("model.scope=neighbors", "data.layout=edge_list"),
    "cosine 60": (*COSINE, "trainer.max_epochs=60", "trainer.patience=null"),
    "cosine 100": (*COSINE, "trainer.max_epochs=100", "trainer.patience=null"),
    "1 virtual": ("model.readout.num_virtual=1",),
    "3 layers": ("model.num_layers=3",),
    "3 layers, 1 virtual": ("model.num_layers=3", "model.readout.num_virtual=1"),
    "lean": LEAN,
    "lean, cosine 60": (*LEAN, *COSINE, "trainer.max_epochs=60", "trainer.patience=null"),
    "lean, sooner": (*LEAN, "schedule.patience=6", "trainer.patience=18"),
    "lean, no svd": (*LEAN, "model.node_inputs-=svd"),
    "rate 5e-4": ("optimizer.lr=5e-4",),
    "mse": ("task.loss=mse",),
}
"""What is changed, by name."""


def main(words: Sequence[str] | None = None) -> None:
    """Run all that is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--arms", nargs="+", default=list(ARMS), help="names, or settings joined by spaces")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs/defaults"))
    asked = parser.parse_args(words)
    asked.out.mkdir(parents=True, exist_ok=True)
    results = asked.out / "results.jsonl"
    done = read(results)
    for seed in asked.seeds:
        for name in asked.data:
            for arm in asked.arms:
                if (name, arm, seed) not in done:
                    record = run(name, arm, seed, asked.out)
                    done[name, arm, seed] = record
                    with results.open("a") as file:
                        print(json.dumps(record), file=file)
                    print(json.dumps(record), flush=True)
    print("\n".join(table(done, asked.data, asked.arms)))


def read(results: Path) -> dict[tuple[str, str, int], Record]:
    """Return the runs that are done."""
    if not results.exists():
        return {}
    records = [json.loads(line) for line in results.read_text().splitlines()]
    return {(record["data"], record["arm"], record["seed"]): record for record in records}


def run(name: str, arm: str, seed: int, out: Path) -> Record:
    """Train once, as `egt train` does, and return what came of it."""
    data = DATA[name]
    settings = [*data.settings, f"split.seed={seed}", f"seed={seed}", *ARMS.get(arm, arm.split())]
    if data.metric not in ("rmse", "mae"):
        settings = [each for each in settings if not each.startswith("task.loss")]
    folder = out / f"{name}-{seed}-{arm}".replace(" ", "_").replace(",", "")
    shutil.rmtree(folder, ignore_errors=True)
    start = time.process_time()
    trained = egt.train(data.path(out), data.target, set=settings, out=folder, progress=False)
    metrics = trained.artifact.metrics
    return {
        "data": name,
        "arm": arm,
        "seed": seed,
        "val": metrics["val"][data.metric],
        "test": metrics["test"][data.metric],
        "cpu_seconds": round(time.process_time() - start, 1),
        "epochs": len(trained.history),
        "best_epoch": trained.epoch + 1,
    }


def table(done: Mapping[tuple[str, str, int], Record], names: Sequence[str], arms: Sequence[str]) -> Iterator[str]:
    """Write the means as Markdown, a row for each data set and arm."""
    yield "| data | arm | seeds | validation | against default | test | against default | CPU s | epochs |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name in names:
        for arm in arms:
            seeds = sorted(seed for data, other, seed in done if (data, other) == (name, arm))
            if not seeds:
                continue
            mine = [done[name, arm, seed] for seed in seeds]
            paired = [(record, done.get((name, "default", record["seed"]))) for record in mine]
            cells = [f"{DATA[name].metric}, {name}", arm, str(len(seeds))]
            for split in ("val", "test"):
                differences = [record[split] - base[split] for record, base in paired if base is not None]
                cells += [spread([record[split] for record in mine]), spread(differences, sign="+")]
            cells += [f"{np.mean([record[key] for record in mine]):.0f}" for key in ("cpu_seconds", "epochs")]
            yield f"| {' | '.join(cells)} |"


def spread(values: Sequence[float], sign: str = "") -> str:
    """Write the mean and, of several, the deviation of a sample."""
    if not values:
        return "-"
    mean = format(np.mean(values), f"{sign}.3f")
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.3f}"


if __name__ == "__main__":
    main()
