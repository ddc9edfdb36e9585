"""`make run`: train a small EGT on PATTERN graphs that are generated here, beside its baseline, and report.

Run with `python -m egt.cli.quickstart`; it takes about three minutes on two cores.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from egt.charts import bar_chart, graph_drawing, line_chart, spring_positions
from egt.cli.output import Bars, print_table, say
from egt.config.load import override
from egt.config.run import RunConfig
from egt.config.run_data import open_source
from egt.errors import counted
from egt.explain.analysis import analyze
from egt.explain.analysis_page import ANALYSIS, write_analysis
from egt.explain.figures import choose
from egt.graph import Graph
from egt.inference.artifact import versions
from egt.inference.backends import execution
from egt.inference.predictions import Prediction
from egt.inference.predictor import Predictor
from egt.pages import figure, page, table, write_page
from egt.paper.presets import preset
from egt.processors import num_processors
from egt.training.memory import measure_seconds
from egt.training.run import Run, train

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
    """Train, evaluate, compare, report; as many epochs as fit into about three minutes if none are given.

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
        outcome = train(config, folder, source=source, watch=bars)
    readings = (source.read(record) for record in source.records("test"))
    graphs = [reading.graph for reading in readings if reading.graph is not None]
    baseline = outcome.artifact.data["baseline"]
    metrics = {baseline["name"]: baseline["metrics"], "EGT": outcome.artifact.metrics}
    scores = {name: splits["test"]["weighted_accuracy"] for name, splits in metrics.items()}
    shown = min(graphs, key=lambda graph: graph.num_nodes)
    model = Predictor(outcome.artifact)
    prediction = model.predict([shown])[0]
    _analyze(model, graphs[:_ANALYZED], folder)
    report = folder / "report.html"
    _write_report(report, outcome, scores, shown, prediction, time.monotonic() - started)
    _summary(outcome, scores, report, time.monotonic() - started)


def _analyze(model: Predictor, graphs: Sequence[Graph], folder: Path) -> None:
    """Write what the model looks at in some graphs, as `egt analyze` does."""
    with Bars() as bars:
        found = analyze(model.attention(graphs, watch=bars))
    choice = choose(found.layers, model.config.model.num_heads, crop=60)
    again = f"egt analyze {folder} test --limit {_ANALYZED}"
    write_analysis(found, choice, folder / ANALYSIS.parent, "quickstart", "PATTERN, made here", again)


def _epochs_within(config: RunConfig, num_graphs: int) -> int:
    """How many epochs fit into the time there is, by a short trial on this machine."""
    sizes = [118] * 4
    per_epoch = measure_seconds(config, execution(config), sizes)[0] / len(sizes) * num_graphs
    return int(min(max(TRAINING_SECONDS / per_epoch, _EPOCHS[0]), _EPOCHS[1]))


def _write_report(
    path: Path, outcome: Run, scores: Mapping[str, float], graph: Graph, prediction: Prediction, seconds: float
) -> None:
    lines = {
        name: [row[key] for row in outcome.history]
        for name, key in (("training", "train_loss"), ("validation", "val_loss"), ("accuracy", "val_weighted_accuracy"))
    }
    accuracy = line_chart({"validation": lines.pop("accuracy")}, "epoch", "weighted accuracy")
    losses = line_chart(lines, "epoch", "loss")
    assert prediction.values is not None
    assert graph.node_targets is not None
    predicted, truth, positions = prediction.values[:, 1], graph.node_targets[:, 0], spring_positions(graph)
    wrong = (predicted >= 0.5) != (truth == 1)
    config, sizes = outcome.artifact.config, outcome.artifact.data["card"]["split_sizes"]
    facts = [
        ("model", f"{config.model.num_layers} layers, widths {config.model.node_width}/{config.model.edge_width}"),
        ("parameters", f"{outcome.artifact.model.num_parameters():,}"),
        ("graphs", ", ".join(f"{split} {size}" for split, size in sizes.items())),
        ("epochs", f"{len(outcome.history)}, the weights of epoch {outcome.epoch + 1} were best on validation"),
        ("time", f"{seconds:.0f} s in all, on {counted(num_processors(), 'processor')}"),
        ("versions", ", ".join(f"{name} {number}" for name, number in versions().items())),
    ]
    sections = [
        (
            "Accuracy on graphs it never saw",
            bar_chart(scores)
            + "<p>The mean of the recalls of both classes, on the test graphs. Guessing gives 50%. The paper's models, "
            "trained for hours on 10,000 graphs, come to about 86%.</p>",
        ),
        ("How it learned", f'<div class="row">{figure(losses, "Loss")}{figure(accuracy, "Weighted accuracy")}</div>'),
        (
            f"One test graph ({graph.num_nodes} nodes)",
            '<div class="row">'
            + figure(
                graph_drawing(graph, truth.tolist(), positions=positions), "The truth: orange nodes are the pattern."
            )
            + figure(
                graph_drawing(graph, predicted.tolist(), marked=wrong.tolist(), positions=positions),
                f"EGT's answer, from gray (surely not) to orange (surely). {int(wrong.sum())} nodes with a red ring "
                "are on the wrong side. Hover over a node for its probability.",
            )
            + "</div>",
        ),
        ("What it looks at", f'<p><a href="{ANALYSIS.as_posix()}">How far each layer and head looks</a></p>'),
        ("What was run", table(("what", "value"), facts)),
        ("What next", "<pre>" + "\n".join(_next(path.parent)) + "</pre>"),
    ]
    lead = "An Edge-augmented Graph Transformer finds the nodes of a planted pattern in random graphs."
    write_page(path, page("EGT quickstart: PATTERN", lead, sections))


def _next(folder: Path) -> list[str]:
    return [
        f"egt evaluate {folder}                # the same numbers again, from the saved model",
        f"egt explain {folder} test --of 3     # why node 3 of the first test graph is called what it is",
        f"egt predict {folder} graphs.jsonl    # your own graphs (docs/data.md)",
        "egt train molecules.csv --target y   # your own data",
        "egt presets                          # the models of the paper",
    ]


def _summary(outcome: Run, scores: Mapping[str, float], report: Path, seconds: float) -> None:
    labels = outcome.artifact.metrics["test"]["num_labels"]
    title = f"PATTERN, weighted accuracy on {labels:,.0f} nodes of the test graphs ({seconds:.0f} s)"
    print_table(title, ("what", "value"), [(name, f"{100 * score:.1f}%") for name, score in scores.items()])
    steps = "".join(f"  {line}\n" for line in _next(report.parent))
    sys.stdout.write(f"report: {report}\nanalysis: {report.parent / ANALYSIS}\nnext:\n{steps}")


if __name__ == "__main__":
    main()
