"""Finished runs beside the paper: where results are kept, how a run differs from the paper's, and tables of them."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from textwrap import shorten
from typing import Any

from egt.config.load import parse_config
from egt.config.run import RunConfig, settings_that_affect
from egt.data.benchmark import BENCHMARKS
from egt.errors import ConfigError, DataError, counted
from egt.files import exists, write_atomically
from egt.inference.artifact import CARD
from egt.pages import Sheet
from egt.paper.presets import preset, starts_from
from egt.paper.tables import TABLES, Measure, PaperRow, Score, Table, find_row
from egt.processors import num_processors
from egt.training.record import RunRecord, read_run
from egt.training.run_folder import ARTIFACT, CHECKPOINTS, CONFIG, MEMBERS

RESULT = "result.json"
SettingPath = tuple[str, ...]  # the section and the name of a setting
_TECHNICAL = settings_that_affect("speed", "chance")  # settings that do not change what is measured, or only by chance
_REPORTED_APART = {
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
"""Settings of a run of the paper whose changes have marks of their own."""

_SCALED = {("schedule", "patience"), ("schedule", "warmup_steps"), ("schedule", "total_steps")}
"""Settings that follow the length of a run."""

_FOLD = ("data", "custom", "split", "fold", "number")  # the setting that differs between the runs of a cross-validation


def read_records(paths: Iterable[Path]) -> tuple[list[RunRecord], list[Path]]:
    """Return the finished runs below some paths, and the folders of those that have not finished.

    A path is a run folder, a folder of run folders, or a result file.
    """
    records, unfinished = [], []
    for path in paths:
        if not exists(path):
            raise DataError(f"{path}: there is no such file or folder; give the folder of a run, or of several")
        results = [path] if path.is_file() else sorted(path.rglob(RESULT))
        records += [RunRecord.from_json(file) for file in results]
        cards = [file.parent for file in sorted(path.rglob(CARD)) if not _is_member(file.parent, path)]
        runs = dict.fromkeys(card.parent if card.name == ARTIFACT else card for card in cards)
        records += [with_preset(read_run(run)) for run in runs if not (run / RESULT).is_file()]
        started = [file.parent for file in sorted(path.rglob(CONFIG)) if (file.parent / CHECKPOINTS).is_dir()]
        unfinished += [run for run in started if not (run / ARTIFACT).is_dir() and not (run / RESULT).is_file()]
    return sorted(records, key=lambda record: (record.name, record.seed)), unfinished


def _is_member(artifact: Path, path: Path) -> bool:
    """Return whether an artifact is a copy, in the artifact of an ensemble, of that of a run below the path."""
    ensemble = artifact.parent.parent
    return ensemble.is_relative_to(path) and (ensemble / MEMBERS).is_file() and artifact.parent.name == ARTIFACT


def with_preset(record: RunRecord) -> RunRecord:
    """Return the record of a run with the preset that has its name, if there is one."""
    try:
        preset(record.name)
    except ConfigError:
        return record
    return replace(record, preset=record.name)


def write_record(record: RunRecord, folder: Path) -> None:
    """Write the result of a run into its folder."""
    with write_atomically(folder / RESULT) as draft:
        draft.write_text(replace(record, folder="").to_json(), encoding="utf-8")


def keep_record(record: RunRecord, folder: Path) -> Path:
    """Write a result where results are kept, FOLDER/ROW/seedK/result.json; one that is there is never replaced."""
    place = folder / record.name / f"seed{record.seed}"
    if (place / RESULT).exists():
        if RunRecord.from_json(place / RESULT).metrics != record.metrics:
            raise DataError(f"{place}: holds another result; keep this one in another folder, results are not replaced")
        return place
    place.mkdir(parents=True, exist_ok=True)
    write_record(replace(record, machine=record.machine or machine()), place)
    return place


def machine() -> dict[str, Any]:
    """Return what a record says about the machine of its run."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = models[0] if models else platform.machine()
    except OSError:
        processor = platform.processor()
    return {"processors": num_processors(), "system": platform.platform(terse=True), "processor": processor}


def config_of(record: RunRecord) -> RunConfig:
    """Return the settings of a record."""
    return parse_config(record.config, record.name)


def find_marks(record: RunRecord) -> dict[str, list[str]]:
    """Return how a run differs from the paper's: kind of difference -> each difference, in plain words."""
    try:
        paper = preset(record.preset) if record.preset and record.parameters else None  # else nothing was trained
    except ConfigError:
        paper = None
    found = {
        "reduced budget": _budget_marks(record, paper) if paper else [],
        "other settings": _setting_marks(record, paper) if paper else [],
        "substitute data": _data_marks(record),
    }
    return {kind: marks for kind, marks in found.items() if marks}


def marks(record: RunRecord) -> list[str]:
    """Return each difference of a run from the paper's, in plain words."""
    return [mark for found in find_marks(record).values() for mark in found]


def short_mark(record: RunRecord) -> str:
    """Return the kinds of differences from the paper's run; "" for none."""
    return ", ".join(find_marks(record))


def _lengths(record: RunRecord, paper: RunConfig) -> list[tuple[str, int, int | None]]:
    """Return the limits (unit, ours, the paper's) of a run that are not the paper's."""
    trainer = record.config.get("trainer", {})
    limits = [
        (unit, trainer.get(name), getattr(paper.trainer, name))
        for name, unit in (("max_epochs", "epochs"), ("max_steps", "steps"))
    ]
    return [(unit, own, full) for unit, own, full in limits if own is not None and own != full]


def _budget_marks(record: RunRecord, paper: RunConfig) -> list[str]:
    found = [
        f"stopped after {own:,} {unit}" if full is None else f"{own:,} of {full:,} {unit}"
        for unit, own, full in _lengths(record, paper)
    ]
    share = _train_share(record)
    return found + ([f"{share:.3g} of the training graphs"] if share < 1 else [])


def _setting_marks(record: RunRecord, paper: RunConfig) -> list[str]:
    own, theirs = (_flatten(config.model_dump(mode="json")) for config in (config_of(record), paper))
    is_scaled = _train_share(record) < 1 or any(full is not None for _, _, full in _lengths(record, paper))
    ignored = _TECHNICAL | _REPORTED_APART | (_SCALED if is_scaled else set())
    changed = [path for path in {**own, **theirs} if own.get(path) != theirs.get(path) and path not in ignored]
    found = [f"{'.'.join(path)}={own.get(path)}" for path in changed if path[:2] != ("data", "custom")]
    start, wanted = record.config.get("start"), starts_from(record.preset)
    if start is None and wanted:
        found.append(f"from random weights, not those of {wanted}")
    elif start is not None and start["name"] != wanted:
        found.append(f"starts from {start['name']}")
    return found


def _data_marks(record: RunRecord) -> list[str]:
    found = [*record.departures]
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


def _flatten(content: Mapping[str, Any], above: SettingPath = ()) -> dict[SettingPath, Any]:
    """Return the settings by their paths."""
    flat: dict[SettingPath, Any] = {}
    for name, value in content.items():
        path = (*above, name)
        is_section = isinstance(value, Mapping) and path not in _TECHNICAL | _REPORTED_APART
        flat |= _flatten(value, path) if is_section else {path: value}
    return flat


def _recipe(record: RunRecord) -> dict[SettingPath, Any]:
    """Return the settings that all seeds and folds of a run share."""
    return {path: value for path, value in _flatten(record.config).items() if path not in _TECHNICAL | {_FOLD}}


@dataclass(frozen=True)
class RunGroup:
    """The runs of one row, or of one name, that were made in the same way: one for each seed.

    `marks` says how they differ from the paper's run, or from other runs of their name; it is empty if nothing does.
    """

    name: str
    records: tuple[RunRecord, ...]
    marks: tuple[str, ...]

    @cached_property
    def place(self) -> tuple[Table, PaperRow] | None:
        """The table and row of the paper; None for other runs."""
        return find_row(self.name) if self.records[0].preset else None

    @cached_property
    def measure(self) -> Measure:
        """The paper's measure, or the metric that decides for the task."""
        if self.place is not None:
            return self.place[1].measure
        metrics, task = self.records[0].metrics, config_of(self.records[0]).task
        metric = task.deciding_metric
        split = "test" if metric in metrics.get("test", {}) else "val"
        return Measure(metric, f"{split} {metric}", split, task.higher_is_better, decimals=4)

    def values(self, split: str = "") -> list[float]:
        """Return the measure of each run in the paper's unit; NaN where it could not be computed."""
        measure = self.measure
        found = [record.metrics.get(split or measure.split, {}).get(measure.metric) for record in self.records]
        return [math.nan if value is None else value * measure.factor for value in found]

    @property
    def score(self) -> Score:
        """The mean over seeds, and their deviation (of a sample: over n - 1)."""
        values = self.values()
        if len(values) < 2:
            return Score(values[0])
        return Score(fmean(values), stdev(values) if all(map(math.isfinite, values)) else math.nan)

    @property
    def model(self) -> str:
        """The model's name in the tables."""
        return self.place[1].model if self.place else self.name

    @property
    def data(self) -> str:
        """The data and the size of models."""
        if self.place is not None:
            return self.place[1].column.title
        return str(self.records[0].config["data"]["source"]).rpartition("/")[2]


def collect(records: Sequence[RunRecord]) -> list[RunGroup]:
    """Return runs in groups: seeds of the same row together, unless they were made in different ways."""
    found: dict[tuple[str, str], list[dict[int, RunRecord]]] = {}
    for record in records:
        way = marks(record) if record.preset else sorted(_recipe(record).items())
        same = found.setdefault((record.name, repr(way)), [])
        for runs in same:
            if runs.setdefault(record.seed, record).metrics == record.metrics:
                break  # a new seed, or a copy of a known run
        else:
            same.append({record.seed: record})
    groups = [RunGroup(name, tuple(runs.values()), ()) for (name, _), same in found.items() for runs in same]
    return [replace(group, marks=_marks_of(group, groups)) for group in groups]


def _marks_of(group: RunGroup, groups: Sequence[RunGroup]) -> tuple[str, ...]:
    """Return how runs differ from the paper's, or, of other runs, from those of the same name."""
    if group.records[0].preset:
        return tuple(marks(group.records[0]))
    own = _recipe(group.records[0])
    others = [_recipe(other.records[0]) for other in groups if other.name == group.name]
    changed = [path for path in own if any(other.get(path) != own[path] for other in others)]
    plain = [path for path in changed if path[:2] != ("data", "custom")] or changed  # the rest follows from the data
    return tuple(f"{'.'.join(path)}={shorten(str(own[path]), 60, placeholder=' ...')}" for path in plain)


def sheets(groups: Sequence[RunGroup]) -> list[Sheet]:
    """Return the paper's tables that have results, each with its other models, then all other runs."""
    found = []
    for table in TABLES.values():
        names = [row.name for row in table.rows]
        chosen = [group for group in groups if group.name in names and _is_home(group, table, groups)]
        chosen.sort(key=lambda group: names.index(group.name))
        if chosen:
            found.append(results_sheet(table.title, chosen))
            for data in dict.fromkeys(group.data for group in chosen):
                found.append(_ranking([group for group in chosen if group.data == data]))
    rest = [group for group in groups if group.place is None]
    return found + ([results_sheet("Other runs", rest)] if rest else [])


def _is_home(group: RunGroup, table: Table, groups: Sequence[RunGroup]) -> bool:
    """Whether a row that several tables have belongs here: where variants of it were run, else where it is first."""
    if group.place is None or group.place[0] is table:
        return group.place is not None
    siblings = {row.name for row in table.rows} - {row.name for row in group.place[0].rows}
    return any(other.place and other.name in siblings and other.data == group.data for other in groups)


def results_sheet(title: str, groups: Sequence[RunGroup]) -> Sheet:
    """Return one line for each group beside the paper, with marks and doubts about printed numbers below."""
    named = ("data", "model", "measure", "result", "seeds", "paper", "baseline")
    columns = (*named, "parameters", "trained", "time a run", "marks")
    reasons = list(dict.fromkeys("; ".join(group.marks) for group in groups if group.marks))
    rows = []
    for group in groups:
        measure, record = group.measure, group.records[0]
        paper = group.place[1].paper if group.place else None
        rows.append(
            (
                group.data,
                group.model,
                f"{measure.title} {'↑' if measure.higher_is_better else '↓'}",
                measure.text(group.score),
                str(len(group.records)),
                measure.text(paper) if paper else "-",
                _baseline_text(group),
                f"{record.parameters:,}" if record.parameters else "-",
                counted(len(record.history), "epoch") if record.history else "-",
                _duration(fmean(each.seconds for each in group.records)),
                f"{short_mark(record)} [{reasons.index('; '.join(group.marks)) + 1}]".strip() if group.marks else "-",
            )
        )
    notes = (*(f"[{k}] {reason}" for k, reason in enumerate(reasons, 1)), *_doubts(groups))
    return Sheet(title, columns, rows, notes)


def _baseline_text(group: RunGroup) -> str:
    """Return the mean of the baselines that were measured beside some runs, with their name; "-" without any."""
    measure = group.measure
    found = [each.baseline.get("metrics", {}).get(measure.split, {}).get(measure.metric) for each in group.records]
    known = [value * measure.factor for value in found if value is not None]
    return f"{measure.text(Score(fmean(known)))} ({group.records[0].baseline['name']})" if known else "-"


def _doubts(groups: Sequence[RunGroup]) -> Iterator[str]:
    """Yield what is known about printed numbers, each once, with the data and models that it is about."""
    about: dict[tuple[str, str], dict[str, None]] = {}  # ordered, and without repetitions
    for group in groups:
        for note in group.place[1].notes if group.place else ():
            about.setdefault((group.data, note), {})[group.model] = None
    for (data, note), models in about.items():
        yield f"{data}, {', '.join(models)}: {note}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _ranking(groups: Sequence[RunGroup]) -> Sheet:
    """Return all models of a column, best first: ours, the paper's EGTs, and the others of its table."""
    assert groups[0].place is not None
    column = groups[0].place[1].column
    measure = column.measure
    rows: list[tuple[Score, str, str, str]] = []
    for group in groups:
        rows.append((group.score, group.model, "ours", short_mark(group.records[0]) or "-"))
        if group.place and group.place[1].paper is not None and not group.place[1].is_baseline:
            rows.append((group.place[1].paper, group.model, "paper", "-"))
    rows += [(score, model, "paper", "-") for model, score in column.others.items()]
    rows = sorted(dict.fromkeys(rows), key=lambda row: row[0].value, reverse=measure.higher_is_better)
    title = f"{column.title}: beside the other models of the paper's table ({measure.title})"
    return Sheet(title, ("model", "score", "from", "marks"), [(m, measure.text(s), f, k) for s, m, f, k in rows])


def runs_sheet(groups: Sequence[RunGroup]) -> Sheet:
    """Return one line for each run: nothing is averaged, nothing left out."""
    facts = ("value", "validation", "epochs", "best epoch", "seconds", "date", "egt")
    rows = []
    for group in groups:
        for record, value, validation in zip(group.records, group.values(), group.values("val"), strict=True):
            rows.append(
                (
                    group.name,
                    str(record.seed),
                    group.measure.title,
                    f"{value:.6g}",
                    f"{validation:.6g}",
                    str(len(record.history)),
                    str(record.epoch + 1) if record.history else "-",
                    f"{record.seconds:.0f}",
                    record.date or "-",
                    record.versions.get("egt", "-"),
                    "; ".join(group.marks) or "-",
                )
            )
    return Sheet("Every run", ("row", "seed", "measure", *facts, "marks"), rows)
