"""How commands print: tables and progress bars for people, or one JSON object as the last line of standard output."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from egt.errors import ConfigError, counted
from egt.files import strict_json

if TYPE_CHECKING:
    from egt.parts.tasks.task import TaskPart

Flag = Annotated[bool, Parameter(negative="")]
Words = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")]
Numbers = Annotated[tuple[int, ...], Parameter(consume_multiple=True, negative="")]
Settings = Annotated[tuple[str, ...], Parameter(name="--set", consume_multiple=True, negative="")]
_SIZES = {"interval": "wide", "set": "classes"}
_CLEARLY = 0.05  # a blend is suggested where it has smaller errors by this share
_MOST_TARGETS = 30  # how many rows a table of targets has
_MOST_COVERED = 6  # targets whose coverage is said one by one
_OF_ONE_CLASS = ("average_precision", "f1")  # metrics that are about one of two classes


def print_json(content: Mapping[str, Any]) -> None:
    """One JSON object on one line of standard output."""
    sys.stdout.write(json.dumps(strict_json(content)) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, to_error: bool = False) -> None:
    """Print a table for a person to read, on standard output or, beside a result, on standard error."""
    table = Table(title=Text(title), title_justify="left", header_style="bold")  # `Text`: brackets are not markup
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(stderr=to_error).print(table)


def say(message: str) -> None:
    """Print a remark beside the result, on standard error."""
    print(message, file=sys.stderr)


def metric_rows(
    metrics: Mapping[str, float], positive: str = "", others: Sequence[Mapping[str, float]] = ()
) -> list[tuple[str, ...]]:
    """Return metrics as rows of a table: name, value, those of others beside it, and the labels behind them.

    `positive` is the class that some of them are about, or "" (`TaskPart.positive_class`).
    """
    of_graphs = f"of {counted(metrics['num_graphs'], 'graph')}"
    bases = {"bounds_kept": counted(metrics.get("num_bounds", 0), "bound")}
    return [
        (
            name_metric(name, positive),
            show(value, 5),
            *(show(other.get(name, math.nan), 5) for other in others),
            f"{bases.get(name, counted(metrics['num_labels'], 'label'))} {of_graphs}"
            + (", which do not define it" * math.isnan(value)),
        )
        for name, value in metrics.items()
        if not name.startswith("num_")
    ]


def name_metric(metric: str, positive: str) -> str:
    """Return a metric with the class that it is about, if it is about one of two."""
    return f"{metric} (class {positive})" if positive and metric in _OF_ONE_CLASS else metric


def show(value: float, digits: int) -> str:
    """Return a metric as text; "-" where the labels do not define it."""
    return "-" if math.isnan(value) else f"{value:.{digits}g}"


def print_targets(title: str, by_target: Mapping[str, Mapping[str, float]], positive: str = "") -> None:
    """Print a table with a row for each target and a column for each metric; nothing where there is only one target.

    Of many targets there are only the first ones; the card of the artifact has all.
    """
    if not by_target:
        return
    every = dict.fromkeys(name for scores in by_target.values() for name in scores)  # targets may be of several kinds
    names = [name for name in every if not name.startswith("num_")]
    rows = [
        (target, *(show(scores.get(name, math.nan), 4) for name in names), f"{scores['num_labels']:.0f}")
        for target, scores in islice(by_target.items(), _MOST_TARGETS)
    ]
    if len(by_target) > len(rows):
        title += f" (the first {len(rows)} of {len(by_target)}; the others are in card.json)"
    print_table(title, ("target", *(name_metric(name, positive) for name in names), "labels"), rows)


def suggest_blend(task: TaskPart, blend: Mapping[str, Any], again: str) -> None:
    """Say so where a blend has clearly smaller errors on validation than the network, by the metric that decides.

    again: the command that makes it.
    """
    network, joint = (blend[name]["val"][task.deciding_metric] for name in ("network", "metrics"))
    errors = (1 - network, 1 - joint) if task.higher_is_better else (network, joint)
    if errors[1] < (1 - _CLEARLY) * errors[0]:
        say(
            f"val {task.deciding_metric}: averaged with the answers of the baseline this model has {show(joint, 4)} "
            f"instead of {show(network, 4)}; `{again}` keeps both, without training again"
        )


def print_members(metrics: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    """Print the mean and the deviation of each metric over the models of an ensemble; nothing for a single model."""
    rows = [
        (split, name, f"{show(value['mean'], 5)} ± {show(value['std'], 2)}")
        for split, values in metrics.items()
        for name, value in values.items()
    ]
    if rows:
        print_table("each model alone", ("split", "metric", "mean ± deviation"), rows)


def print_coverage(coverage: Mapping[str, Any] | None) -> None:
    """Say how often the intervals or sets of a model have held labels that it was not calibrated on."""
    if not coverage:
        return
    targets, where = coverage["targets"], " (of the same graph: transductive)" * coverage["transductive"]
    for name, found in islice(targets.items(), _MOST_COVERED):
        kind = found.get("kind", coverage["kind"])
        size = "infinitely" if found["size"] is None else f"{found['size']:.3g}"
        say(
            f"{name}: {coverage['asked']:.0%} {kind}s covered {found['coverage']:.1%} of "
            f"{counted(found['num_labels'], 'test label')}, {size} {_SIZES[kind]} on average{where}"
        )
    if others := [found["coverage"] for found in islice(targets.values(), _MOST_COVERED, None)]:
        say(
            f"{counted(len(others), 'other target')}: covered {sum(others) / len(others):.1%} on average, "
            f"{min(others):.1%} to {max(others):.1%}; the report has each{where}"
        )
    for doubt in coverage.get("doubts", ()):
        say(doubt)


def with_smiles(settings: Sequence[str], smiles: Sequence[str]) -> list[str]:
    """Return the settings, and the option `--smiles COLUMN ...` as one of them."""
    return [*settings, *([f"overrides.smiles={json.dumps(list(smiles))}"] if smiles else [])]


def with_epochs(settings: Sequence[str], epochs: int | None) -> list[str]:
    """Return the settings, and the option `--epochs` as one of them."""
    if epochs is None:
        return [*settings]
    wanted = f"trainer.max_epochs={epochs}"
    if other := [each for each in settings if each.startswith("trainer.max_epochs=") and each != wanted]:
        raise ConfigError(f"--epochs {epochs} and --set {other[0]} contradict each other; leave one of them out")
    return [*settings, wanted]


class Bars:
    """Progress bars on a terminal's standard error, one per stage of the work: `with Bars() as bars: ...`."""

    def __init__(self, *, shown: bool = True) -> None:
        name = TextColumn("{task.description}", markup=False)  # the name of a file may have brackets
        columns = (name, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        console = Console(stderr=True)
        disable = not (shown and console.is_terminal)
        self._bar = Progress(*columns, console=console, transient=True, disable=disable)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Show that `done` of `total` are done; None if nobody knows how many there are."""
        if stage not in self._tasks:
            self._bar.start()
            self._tasks[stage] = self._bar.add_task(stage, total=total)
        self._bar.update(self._tasks[stage], completed=done, total=total)
        if all(task.finished for task in self._bar.tasks):  # the next piece of work brings the bars back
            self._bar.stop()
