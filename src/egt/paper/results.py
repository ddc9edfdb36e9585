"""How a run differs from the paper's, and from other runs: a reduced budget, other settings, other data.

Runs beside the paper: the mean over seeds, its deviation, and a plain mark where a run is not the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, stdev
from textwrap import shorten
from typing import Any

from egt.config.run import RunConfig, settings_that_affect
from egt.errors import ConfigError, counted
from egt.pages import Sheet
from egt.paper.presets import preset, starts_from
from egt.paper.record import RunRecord, config_of
from egt.paper.tables import TABLES, Measure, PaperRow, Score, Table, find_row

SettingPath = tuple[str, ...]
"""Of a setting: its section and its name."""

_TECHNICAL = settings_that_affect("speed", "chance")
"""Settings that do not change what is measured, or only by chance."""

_TOLD = {
    ("name",),
    ("start",),
    ("plugins",),
    ("data", "options"),
    ("data", "train_share"),
    ("task", "names"),
    ("task", "class_names"),
    ("trainer", "max_epochs"),
    ("trainer", "max_steps"),
}
"""Settings of a run of the paper that are told in words of their own."""

_SCALED = {("schedule", "patience"), ("schedule", "warmup_steps"), ("schedule", "total_steps")}
"""Settings that only follow the length of a run."""

_FOLD = ("data", "custom", "split", "fold", "number")
"""What the runs of a cross-validation differ in."""


def marks(record: RunRecord) -> list[str]:
    """Return why a run is not the paper's: a reduced budget, other settings, other data; each in plain words."""
    return [*_budget_marks(record), *_setting_marks(record), *_data_marks(record)]


def short_mark(record: RunRecord) -> str:
    """Return the same in a few words; "" for a run as the paper's."""
    words = {
        "reduced budget": _budget_marks(record),
        "other settings": _setting_marks(record),
        "substitute data": _data_marks(record),
    }
    return ", ".join(word for word, found in words.items() if found)


def recipe(record: RunRecord) -> dict[SettingPath, Any]:
    """Return the settings that all seeds and folds of a run share."""
    return {path: value for path, value in _flat(record.config).items() if path not in _TECHNICAL | {_FOLD}}


def _whole(record: RunRecord) -> RunConfig | None:
    """Return the preset that a run follows; None if there is none, or nothing to learn."""
    try:
        return preset(record.preset) if record.preset and record.parameters else None
    except ConfigError:
        return None


def _budget_marks(record: RunRecord) -> list[str]:
    whole, trainer = _whole(record), record.config.get("trainer", {})
    if whole is None:
        return []
    found = []
    for name, words in (("max_epochs", "epochs"), ("max_steps", "steps")):
        full, own = getattr(whole.trainer, name), trainer.get(name)
        if own is not None and full is not None and own != full:
            found.append(f"{own:,} of {full:,} {words}")
        elif own is not None and full is None:
            found.append(f"stopped after {own:,} {words}")
    share = _train_share(record)
    return found + ([f"{share:.3g} of the training graphs"] if share < 1 else [])


def _setting_marks(record: RunRecord) -> list[str]:
    whole = _whole(record)
    if whole is None:
        return []
    own, paper = (_flat(config.model_dump(mode="json")) for config in (config_of(record), whole))
    ignored = _TECHNICAL | _TOLD | (_SCALED if any("of" in mark for mark in _budget_marks(record)) else set())
    changed = [path for path in {**own, **paper} if own.get(path) != paper.get(path) and path not in ignored]
    found = [f"{'.'.join(path)}={own.get(path)}" for path in changed if path[:2] != ("data", "custom")]
    return found + _start_marks(record)


def _start_marks(record: RunRecord) -> list[str]:
    start, paper = record.config.get("start"), starts_from(record.preset)
    if start is None:
        return [f"from random weights, not those of {paper}"] if paper else []
    return [] if start["name"] == paper else [f"starts from {start['name']}"]


def _data_marks(record: RunRecord) -> list[str]:
    from egt.data.benchmark import BENCHMARKS

    found = ["generated graphs, not the published files"] if "Generated with seed" in record.data_notes else []
    if "Superpixels made" in record.data_notes:
        found.append("superpixels made here, not the published files")
    if "JPEG" in record.data_notes:
        found.append("images from JPEG files, not the original ones")
    source = record.config.get("data", {}).get("source", "")
    if record.preset and source in BENCHMARKS:
        sizes = BENCHMARKS.get(source).card.split_sizes
        for split, size in record.split_sizes.items():
            expected = sizes.get(split, size)
            if size < 0.98 * expected * (_train_share(record) if split == "train" else 1):
                found.append(f"{size:,} of {expected:,} {split} graphs")
    return found


def _train_share(record: RunRecord) -> float:
    return float(record.config.get("data", {}).get("train_share", 1.0))


def _flat(content: Mapping[str, Any], above: SettingPath = ()) -> dict[SettingPath, Any]:
    """Return the settings by their paths."""
    flat: dict[SettingPath, Any] = {}
    for name, value in content.items():
        path = (*above, name)
        flat |= _flat(value, path) if isinstance(value, Mapping) and path not in _TECHNICAL | _TOLD else {path: value}
    return flat


_MOST_LETTERS = 60
"""Of a setting in a mark."""

_COLUMNS = ("data", "model", "measure", "ours", "seeds", "paper", "parameters", "trained", "time a run", "marks")


@dataclass(frozen=True)
class Result:
    """The runs of one row, or of one name, that were made in the same way.

    Fields:
        name: of the row.
        records: its runs, one per seed.
        marks: what makes them differ from the paper's, or from other runs of their name; empty if nothing does.
    """

    name: str
    records: tuple[RunRecord, ...]
    marks: tuple[str, ...]

    @cached_property
    def place(self) -> tuple[Table, PaperRow] | None:
        """Where the paper has it."""
        return find_row(self.name) if self.records[0].preset else None

    @property
    def measure(self) -> Measure:
        """What is reported: the paper's measure, or the metric that decides for the task."""
        if self.place is not None:
            return self.place[1].measure
        metrics, task = self.records[0].metrics, config_of(self.records[0]).task
        metric = task.deciding_metric
        split = "test" if metric in metrics.get("test", {}) else "val"
        return Measure(metric, f"{split} {metric}", split, task.higher_is_better, decimals=4)

    @property
    def values(self) -> list[float]:
        """The measure of each run, in the paper's unit."""
        measure = self.measure
        found = [_metric(record, measure.split, measure.metric) for record in self.records]
        return [value * measure.factor for value in found]

    @property
    def score(self) -> Score:
        """The mean over seeds, and their deviation (of a sample: over n - 1)."""
        values = self.values
        if len(values) < 2:
            return Score(values[0])
        return Score(fmean(values), stdev(values) if all(map(math.isfinite, values)) else math.nan)

    @property
    def model(self) -> str:
        """What the row is called."""
        return self.place[1].model if self.place else self.name

    @property
    def data(self) -> str:
        """The data and the size of models."""
        if self.place is not None:
            return self.place[1].column.title
        return str(self.records[0].config["data"]["source"]).rpartition("/")[2]


def collect(records: Sequence[RunRecord]) -> list[Result]:
    """Return the results of some runs: seeds of the same row together, unless they were made in different ways."""
    groups: dict[tuple[str, str], list[dict[int, RunRecord]]] = {}
    for record in records:
        way = marks(record) if record.preset else sorted(recipe(record).items())
        same = groups.setdefault((record.name, repr(way)), [])
        for runs in same:
            if runs.setdefault(record.seed, record).metrics == record.metrics:
                break  # a new seed, or a copy of a known run
        else:
            same.append({record.seed: record})
    results = [Result(name, tuple(runs.values()), ()) for (name, _), same in groups.items() for runs in same]
    return [replace(result, marks=_marks(result, results)) for result in results]


def _marks(result: Result, results: Sequence[Result]) -> tuple[str, ...]:
    """Return how runs differ from the paper's, or, of other runs, from those of the same name."""
    if result.records[0].preset:
        return tuple(marks(result.records[0]))
    recipes = [recipe(other.records[0]) for other in results if other.name == result.name]
    own = recipe(result.records[0])
    changed = [path for path in own if any(other.get(path) != own[path] for other in recipes)]
    plain = [path for path in changed if path[:2] != ("data", "custom")] or changed  # the rest follows from the data
    return tuple(f"{'.'.join(path)}={shorten(str(own[path]), _MOST_LETTERS, placeholder=' ...')}" for path in plain)


def sheets(results: Sequence[Result]) -> list[Sheet]:
    """Return the paper's tables that have results, each with its other models, then all other runs."""
    found = []
    for table in TABLES.values():
        names = [row.name for row in table.rows]
        chosen = [
            result for result in results if result.place and result.name in names and _is_home(result, table, results)
        ]
        chosen.sort(key=lambda result: names.index(result.name))
        if chosen:
            found += [results_sheet(table.title, chosen), *_beside(chosen)]
    rest = [result for result in results if result.place is None]
    return found + ([results_sheet("Other runs", rest)] if rest else [])


def _metric(record: RunRecord, split: str, name: str) -> float:
    """Return a metric of a run; NaN where it could not be computed, as a ranking of one class."""
    value = record.metrics.get(split, {}).get(name)
    return math.nan if value is None else value


def runs_sheet(results: Sequence[Result]) -> Sheet:
    """Return one line for each run: nothing is averaged, nothing left out."""
    columns = (
        "row",
        "seed",
        "measure",
        "value",
        "validation",
        "epochs",
        "best epoch",
        "seconds",
        "date",
        "egt",
        "marks",
    )
    rows = []
    for result in results:
        measure = result.measure
        for record, value in zip(result.records, result.values, strict=True):
            validation = _metric(record, "val", measure.metric) * measure.factor
            rows.append(
                (
                    result.name,
                    str(record.seed),
                    measure.title,
                    f"{value:.6g}",
                    f"{validation:.6g}",
                    str(len(record.history)),
                    str(record.epoch + 1) if record.history else "-",
                    f"{record.seconds:.0f}",
                    record.date or "-",
                    record.versions.get("egt", "-"),
                    "; ".join(result.marks) or "-",
                )
            )
    return Sheet("Every run", columns, rows)


def _is_home(result: Result, table: Table, results: Sequence[Result]) -> bool:
    """Whether a row that several tables have belongs here: where variants of it were run, else where it is first."""
    assert result.place is not None
    home = result.place[0]
    if home is table:
        return True
    siblings = {row.name for row in table.rows} - {row.name for row in home.rows}
    column = result.place[1].column.title
    return any(
        other.name in siblings and other.place is not None and other.place[1].column.title == column
        for other in results
    )


def results_sheet(title: str, results: Sequence[Result]) -> Sheet:
    """Results beside the paper's, one line each; marks and known doubts about printed numbers are told below."""
    reasons = list(dict.fromkeys("; ".join(result.marks) for result in results if result.marks))
    rows = [_row(result, reasons) for result in results]
    return Sheet(
        title, _COLUMNS, rows, (*(f"[{k}] {reason}" for k, reason in enumerate(reasons, 1)), *_doubts(results))
    )


def _doubts(results: Sequence[Result]) -> Iterator[str]:
    """Yield what is known about printed numbers, each once, with the data and models that it is about."""
    about: dict[tuple[str, str], dict[str, None]] = {}  # ordered, and without repetitions
    for result in results:
        for note in result.place[1].notes if result.place else ():
            about.setdefault((result.data, note), {})[result.model] = None
    for (data, note), models in about.items():
        yield f"{data}, {', '.join(models)}: {note}"


def _row(result: Result, reasons: Sequence[str]) -> tuple[str, ...]:
    measure, record = result.measure, result.records[0]
    paper = result.place[1].paper if result.place else None
    seconds = fmean(each.seconds for each in result.records)
    return (
        result.data,
        result.model,
        f"{measure.title} {'↑' if measure.higher_is_better else '↓'}",
        measure.text(result.score),
        str(len(result.records)),
        measure.text(paper) if paper else "-",
        f"{record.parameters:,}" if record.parameters else "-",
        _length(record),
        _clock(seconds),
        f"{short_mark(record)} [{reasons.index('; '.join(result.marks)) + 1}]".strip() if result.marks else "-",
    )


def _length(record: RunRecord) -> str:
    return counted(len(record.history), "epoch") if record.history else "-"


def _clock(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _beside(results: Sequence[Result]) -> list[Sheet]:
    """For each column with results: ours, the paper's, and the other models of its table, best first."""
    by_column: dict[str, list[Result]] = {}
    for result in results:
        by_column.setdefault(result.data, []).append(result)
    return [_ranking(chosen) for chosen in by_column.values()]


def _ranking(results: Sequence[Result]) -> Sheet:
    assert results[0].place is not None
    column = results[0].place[1].column
    measure = column.measure
    rows: list[tuple[Score, str, str, str]] = []
    for result in results:
        assert result.place is not None
        rows.append((result.score, f"**{result.model}**", "ours", short_mark(result.records[0]) or "-"))
        if result.place[1].paper is not None and not result.place[1].model.endswith("(ours)"):
            rows.append((result.place[1].paper, result.model, "paper", "-"))
    rows += [(score, model, "paper", "-") for model, score in column.others.items()]
    rows = sorted(dict.fromkeys(rows), key=lambda row: row[0].value, reverse=measure.higher_is_better)
    title = f"{column.title}: beside the other models of the paper's table ({measure.title})"
    return Sheet(title, ("model", "score", "from", "marks"), [(m, measure.text(s), f, k) for s, m, f, k in rows])


def curves(result: Result) -> dict[str, Mapping[str, Sequence[float]]]:
    """Return what happened over the epochs of a row: the losses of its first seed, and the metric of all seeds."""
    first, metric = result.records[0], f"val_{result.measure.metric}"
    losses = {
        name: [row[key] for row in first.history]
        for name, key in (("training", "train_loss"), ("validation", "val_loss"))
        if first.history and key in first.history[0]
    }
    scores = {
        f"seed {record.seed}": [row[metric] for row in record.history]
        for record in result.records
        if record.history and metric in record.history[0]
    }
    return {name: series for name, series in (("loss", losses), (metric.removeprefix("val_"), scores)) if series}
