"""`make run`: train a small EGT on PATTERN graphs that are generated here, beside its baseline, and report.

Run with `python examples/quickstart.py`; it takes about three minutes on two cores.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from egt.cli.output import Bars, print_table, say
from egt.config.load import override
from egt.config.run import RunConfig
from egt.config.run_data import open_source
from egt.explain.analysis_page import ANALYSIS, analyze_artifact
from egt.inference.backends import execution
from egt.paper.presets import preset
from egt.paper.report import write_run_page
from egt.training.memory import measure_seconds
from egt.training.run import train

FOLDER = Path("runs", "quickstart")
TRAINING_SECONDS = 180.0
_EPOCHS = (8, 20)
_ANALYZED = 20
"""Test graphs whose attention is looked at."""

_GRAPHS = "{train: 500, val: 60, test: 100}"
_SETTINGS = (
    "name=quickstart",
    f"data.options={{split_sizes: {_GRAPHS}}}",
    "data.batch_size=10",
    "optimizer.lr=1e-3",
    "schedule.patience=3",
    "trainer.baseline=true",
)


def main(folder: Path = FOLDER, settings: Sequence[str] = (), epochs: int | None = None) -> None:
    """Train, analyze and report; as many epochs as fit into about three minutes if none are given.

    An earlier quickstart in the folder is replaced.
    """
    started = time.monotonic()
    say("PATTERN: which nodes of a random graph belong to a planted pattern?")
    config = override(preset("pattern-100k"), [*_SETTINGS, *settings])

    if folder.exists():
        shutil.rmtree(folder)
    source = open_source(config)
    epochs = epochs or _epochs_within(config, source.card.split_sizes["train"])
    config = override(config, [f"trainer.max_epochs={epochs}"])
    say(f"training {config.model.num_layers} layers on {source.card.split_sizes['train']} graphs made on the spot")
    with Bars() as bars:
        run = train(config, folder, source=source, watch=bars)
        command = f"egt analyze {folder} test --limit {_ANALYZED}"
        analyze_artifact(str(folder), "test", None, command, limit=_ANALYZED, choice={"crop": 60}, watch=bars)
        report = write_run_page(folder, predictions=True, watch=bars)

    baseline = run.artifact.data["baseline"]
    metrics = {baseline["name"]: baseline["metrics"], "EGT": run.artifact.metrics}
    rows = [(name, f"{100 * splits['test']['weighted_accuracy']:.1f}%") for name, splits in metrics.items()]
    labels = run.artifact.metrics["test"]["num_labels"]
    title = f"PATTERN, weighted accuracy on {labels:,.0f} nodes of the test graphs ({time.monotonic() - started:.0f} s)"
    print_table(title, ("what", "value"), rows)
    sys.stdout.write(f"report: {report}\nanalysis: {folder / ANALYSIS}\nnext:\n{_NEXT.format(folder=folder)}")


def _epochs_within(config: RunConfig, num_graphs: int) -> int:
    """Return how many epochs fit into the time there is, by a short trial on this machine."""
    sizes = [118] * 4
    per_epoch = measure_seconds(config, execution(config), sizes)[0] / len(sizes) * num_graphs
    return int(min(max(TRAINING_SECONDS / per_epoch, _EPOCHS[0]), _EPOCHS[1]))


_NEXT = """\
  egt evaluate {folder}                # the same numbers again, from the saved model
  egt explain {folder} test --of 3     # why node 3 of the first test graph is called what it is
  egt predict {folder} graphs.jsonl    # your own graphs (docs/data.md)
  egt train molecules.csv --target y   # your own data
  egt presets                          # the models of the paper
"""

if __name__ == "__main__":
    main()
