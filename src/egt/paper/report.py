"""The report of some runs: a page with tables and curves, a page for each run, and the tables as Markdown and CSV."""

from __future__ import annotations

import csv
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from textwrap import shorten
from typing import Any

from egt.charts import line_chart
from egt.config.load import read_config, write_config
from egt.data.cleaning import CHANGES
from egt.data.source import Progress
from egt.errors import EgtError, counted
from egt.explain.analysis_page import ANALYSIS
from egt.explain.prediction_page import plots, read_answers, worst
from egt.files import exists, result_folder
from egt.inference.artifact import CONFIG, ENSEMBLE, member_name, read_ensemble
from egt.pages import Sheet, figure, folded, page, table, write_page
from egt.paper.results import RunGroup, collect, config_of, runs_sheet, sheets, with_preset
from egt.training.record import RunRecord, curves, read_run
from egt.training.run_folder import ARTIFACT, MEMBERS

PAGE = "report.html"
_LEAD = (
    "Means over seeds with the sample standard deviation. Marks, if any, say how a run differs from the paper's "
    "(budget, settings, data), or from other runs of its name."
)


@dataclass(frozen=True)
class EnsembleRecord:
    """What an ensemble of `count` models has left for a report.

    Fields:
        kind: How its models differ: "seeds" or "folds".
        metrics: split -> metric -> value, of the averaged answers; None where it could not be computed.
        member_metrics: split -> metric -> mean and std over the models, each alone.
        coverage: How often its intervals or sets held test labels; empty if it was not calibrated.
    """

    name: str
    kind: str
    count: int
    metrics: Mapping[str, Mapping[str, float | None]]
    member_metrics: Mapping[str, Mapping[str, Mapping[str, float | None]]]
    coverage: Mapping[str, Any]
    folder: str

    @property
    def title(self) -> str:
        """The name in a table."""
        return f"{self.name}, {self.count} {self.kind}"


def read_ensembles(paths: Iterable[Path]) -> list[EnsembleRecord]:
    """Return the ensembles below some paths: artifacts, run folders, or folders of them."""
    found = []
    for file in dict.fromkeys(file for path in paths if path.is_dir() for file in sorted(path.rglob(ENSEMBLE))):
        content = read_ensemble(file.parent)
        data = content["data"]
        record = EnsembleRecord(
            name=read_config(file.parent / member_name(0) / CONFIG).name,
            kind=content["kind"],
            count=content["members"],
            metrics=content["metrics"],
            member_metrics=data.get("member_metrics", {}),
            coverage=data.get("coverage") or {},
            folder=str(file.parent),
        )
        found.append(record)
    return found


def ensemble_sheets(records: Sequence[EnsembleRecord]) -> list[Sheet]:
    """Return the metrics of all ensembles, and how often their intervals or sets held the truth."""
    if not records:
        return []
    rows = []
    for record in records:
        for split in dict.fromkeys([*record.metrics, *record.member_metrics]):
            joint, alone = record.metrics.get(split, {}), record.member_metrics.get(split, {})
            for name in dict.fromkeys(name for name in (*joint, *alone) if not name.startswith("num_")):
                rows.append((record.title, split, name, _number(joint.get(name)), _spread(alone.get(name))))
    has_folds = any(record.kind == "folds" for record in records)
    note = "of folds, 'together' is the mean over the folds, each tested by the model that has not seen it"
    columns = ("ensemble", "split", "metric", "together", "each alone")
    covered = [record for record in records if record.coverage]
    return [
        Sheet("Ensembles", columns, rows, (note,) * has_folds),
        *(coverage_sheet(record.coverage, f"{record.title}: how often the truth was inside") for record in covered),
    ]


def coverage_sheet(coverage: Mapping[str, Any], title: str = "") -> Sheet:
    """Return how often intervals or sets have held the test labels."""
    columns = ("target", f"inside {coverage['kind']}s of {coverage['asked']:.0%}", "mean size", "labels")
    rows = []
    for name, found in coverage["targets"].items():
        size = "infinite" if found["size"] is None else f"{found['size']:.4g}"
        rows.append((name, f"{found['coverage']:.1%}", size, str(found["num_labels"])))
    where = ["of nodes or edges of the training graph (transductive)"] if coverage["transductive"] else []
    return Sheet(title, columns, rows, [*where, *coverage.get("doubts", ())])


def _number(value: float | None, digits: int = 5) -> str:
    return "-" if value is None else f"{value:.{digits}g}"


def _spread(value: Mapping[str, float | None] | None) -> str:
    if value is None or value["mean"] is None or value["std"] is None:
        return "-"
    return f"{value['mean']:.5g} ± {value['std']:.2g}"


def write_report(
    groups: Sequence[RunGroup],
    unfinished: Sequence[Path],
    folder: Path,
    *,
    ensembles: Sequence[EnsembleRecord] = (),
    predictions: bool = False,
    watch: Progress | None = None,
) -> list[Path]:
    """Write report.html, report.md, results.csv, runs.csv and a page for each run; return the files.

    Runs without a result are named. The predictions of runs of custom data are plotted; `predictions` does so for every
    run whose model and data are there.
    """
    result_folder(folder, PAGE)
    shown, every = sheets(groups), runs_sheet(groups)
    tables = [*ensemble_sheets(ensembles), *shown]
    beside = [sheet for sheet in shown if "paper" in sheet.columns]
    rows = [(sheet.title, *row) for sheet in beside for row in sheet.rows]
    files = {
        "report.md": _markdown([*tables, every], unfinished),
        "runs.csv": every.csv(),
        "results.csv": Sheet("", ("table", *beside[0].columns), rows).csv() if beside else "",
    }
    links, taken = [], Counter[str]()
    for group in groups:
        for record in group.records:
            name = re.sub(r"[^\w.-]", "_", f"{record.name}-seed{record.seed}")
            taken[name] += 1
            name += f"-{taken[name]}" if taken[name] > 1 else ""
            drawn = predictions or config_of(record).data.custom is not None
            files[f"{name}.html"] = run_page(record, group, predictions=drawn, watch=watch)
            links.append((f"{record.name}, seed {record.seed}", f"{name}.html"))
    files[PAGE] = _report_page(groups, tables, every, unfinished, links)
    for file, content in files.items():
        write_page(folder / file, content)
    return [folder / file for file in files]


def _markdown(shown: Sequence[Sheet], unfinished: Sequence[Path]) -> str:
    parts = ["# Results\n", _LEAD + "\n", *(sheet.filled().markdown() for sheet in shown)]
    if unfinished:
        parts.append("## Not finished\n\n" + "\n".join(f"- `{path}`" for path in unfinished) + "\n")
    return "\n".join(parts)


def _report_page(
    groups: Sequence[RunGroup],
    shown: Sequence[Sheet],
    every: Sheet,
    unfinished: Sequence[Path],
    links: Sequence[tuple[str, str]],
) -> str:
    sections = [(sheet.title, sheet.filled().html()) for sheet in shown]
    drawn = [(group.name, _curve_figures(group.records, group.measure.metric)) for group in groups]
    sections += [(f"Learning curves: {name}", figures) for name, figures in drawn if figures]
    sections.append((every.title, every.html()))
    if unfinished:
        sections.append(("Not finished", _list(escape(str(path)) for path in unfinished)))
    pages = _list(f'<a href="{escape(file, quote=True)}">{escape(name)}</a>' for name, file in links)
    return page("Results", _LEAD, [*sections, ("A page for each run", pages)])


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def write_run_page(folder: Path, *, predictions: bool | None = None, watch: Progress | None = None) -> Path:
    """Write report.html into the folder of a run, or of an ensemble about all of it; return the file.

    predictions: plot predictions; None for those of custom data that are not one large graph in pieces.
    """
    if exists(folder / MEMBERS):
        content = read_ensemble(folder / ARTIFACT)
        data = content["data"]
        record = replace(
            with_preset(read_run(folder / member_name(0))),
            metrics=content["metrics"],
            coverage=data.get("coverage") or {},
            baseline=data.get("baseline") or {},
            by_target=data.get("metrics_by_target", {}),
            folder=str(folder),
        )
    else:
        record = with_preset(read_run(folder))
    config, [group] = config_of(record), collect([record])
    if predictions is None:
        predictions = config.data.custom is not None and config.data.pieces is None
    write_page(folder / PAGE, run_page(record, group, predictions=predictions, watch=watch))
    return folder / PAGE


def run_page(record: RunRecord, group: RunGroup, *, predictions: bool = False, watch: Progress | None = None) -> str:
    """Return the page of one run: how good it is, predictions beside the truth, how it learned, settings."""
    config, measure = config_of(record), group.measure
    sections = [("How good it is", metrics_sheet(record).html())]
    if record.by_target:
        sections.append(("Each target", targets_sheet(record).html()))
    shown = list[tuple[str, str]]()
    if predictions and record.parameters and config.task.answers:
        shown = _prediction_sections(Path(record.folder), watch)
    sections += shown[:1]
    if record.coverage:
        sections.append(("How often the truth was inside", coverage_sheet(record.coverage).html()))
    sections += shown[1:]
    if cleaned := _cleaning(record):
        sections.append(("What was left out or changed", _list(cleaned)))
    if group.marks:
        heading = "Not the paper's run" if record.preset else "What sets it apart from other runs of its name"
        sections.append((heading, _list(map(escape, group.marks))))
    if figures := _curve_figures([record], measure.metric):
        sections.append(("How it learned", figures))
    if record.parameters and record.folder and config.model.layer is None:
        sections.append(("What the model looks at", analysis_link(Path(record.folder))))
    facts = [
        ("parameters", f"{record.parameters:,}"),
        ("graphs", ", ".join(f"{split} {size:,}" for split, size in record.split_sizes.items())),
        ("epochs", f"{len(record.history)}, weights of epoch {record.epoch + 1}"),
        ("training time", f"{record.seconds:,.0f} s"),
        ("data", record.data_notes),
        ("folder", record.folder),
        ("machine", ", ".join(str(value) for value in record.machine.values())),
        ("versions", ", ".join(f"{name} {number}" for name, number in record.versions.items())),
        ("date", record.date),
    ]
    settings = folded("Settings", f"<pre>{escape(write_config(config))}</pre>")
    sections.append(("What was run", table(("what", "value"), [fact for fact in facts if fact[1]]) + settings))
    targets = f": {', '.join(config.task.names)}" if config.data.custom is not None else ""
    title = shorten(f"{record.name}{targets}", 100, placeholder=" ...")
    return page(f"{title}, seed {record.seed}", _headline(record, group), sections)


_TITLES = {
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "spearman": "Spearman",
    "roc_auc": "ROC-AUC",
    "mcc": "MCC",
    "f1": "F1",
}
_SPLITS = {"val": "validation"}
_UNSAID = ("num_graphs", "num_targets")


def _title(metric: str) -> str:
    return _TITLES.get(metric, metric.replace("_", " "))


def _headline(record: RunRecord, group: RunGroup) -> str:
    """Return the score in a sentence: the paper's measure, else the first metric, beside that of the baseline."""
    if record.preset:
        [value] = RunGroup(group.name, (record,), ()).values()
        return f"{group.measure.title}: {value:.6g}"
    split = group.measure.split
    values = record.metrics.get(split, {})
    name = next(iter(values), "")
    beside = record.baseline.get("metrics", {}).get(split, {}).get(name)
    other = "" if beside is None else f"; {record.baseline['name']} {_number(beside, 3)} on the same rows"
    return f"{_SPLITS.get(split, split).capitalize()} {_title(name)} {_number(values.get(name), 3)}{other}"


def metrics_sheet(record: RunRecord) -> Sheet:
    """Return the metrics of each split, test first, beside those of the baseline."""
    splits = sorted(record.metrics, key=lambda split: split != "test")
    beside = record.baseline.get("metrics", {})
    columns, rows = list[str](), []
    for split in splits:
        named = _SPLITS.get(split, split)
        columns += [named, *([f"{record.baseline['name']}, {named}"] if beside else [])]
    for name in dict.fromkeys(name for split in splits for name in record.metrics[split] if name not in _UNSAID):
        cells = []
        for split in splits:
            values = [record.metrics[split], *([beside.get(split, {})] if beside else [])]
            cells += [_number(each.get(name), 4) for each in values]
        rows.append((_title(name).replace("num ", ""), *cells))
    return Sheet("", ("", *columns), rows)


def targets_sheet(record: RunRecord) -> Sheet:
    """Return the metrics of each of several targets on the test rows, or on those for validation without any."""
    split = "test" if "test" in record.by_target else next(iter(record.by_target))
    targets = record.by_target[split]
    names = [*dict.fromkeys(name for scores in targets.values() for name in scores)]
    rows = [(target, *(_number(scores.get(name), 4) for name in names)) for target, scores in targets.items()]
    return Sheet("", (_SPLITS.get(split, split), *(_title(name).replace("num ", "") for name in names)), rows)


def _cleaning(record: RunRecord) -> list[str]:
    """Return what happened to the table before training, one sentence each: rows that were left out, changed cells."""
    found = [
        f"{counted(count, 'row')} of {split} could not be read" for split, count in record.unreadable.items() if count
    ]
    if found:
        found.append("<code>egt data info</code> names rows that cannot be read")
    file = Path(record.folder, CHANGES)
    if record.folder and file.is_file():
        with file.open(newline="", encoding="utf-8") as stream:
            why = Counter(re.sub(r"row \d+", "another row", row["why"]) for row in csv.DictReader(stream))
        found += [f"{escape(reason)}: {counted(count, 'time')}" for reason, count in why.most_common()]
        found.append(f"every change stands in <code>{escape(str(file))}</code>")
    return found


def _curve_figures(records: Sequence[RunRecord], metric: str) -> str:
    figures = [figure(line_chart(lines, "epoch", name), name) for name, lines in curves(records, metric).items()]
    return f'<div class="row">{"".join(figures)}</div>' if figures else ""


def _prediction_sections(folder: Path, watch: Progress | None) -> list[tuple[str, str]]:
    try:
        answers = read_answers(folder, watch=watch)
    except EgtError as error:
        return [("Predictions", f"<p>{escape(str(error))}</p>")]
    return [("Predictions of test rows", plots(answers)), *worst(answers)]


def analysis_link(folder: Path) -> str:
    """Return a link to the analysis of a run's model as HTML, or the command that makes one."""
    found = folder / ANALYSIS
    if not exists(found):
        return f"<pre>{escape(shlex.join(['egt', 'analyze', str(folder)]))}</pre>"
    address = escape(found.resolve().as_uri(), quote=True)
    return f'<p><a href="{address}">Hop profiles, heads, gates and matrices</a></p>'


def as_json(group: RunGroup) -> dict[str, object]:
    """Return the results of a group for other programs."""
    paper = group.place[1].paper if group.place else None
    return {
        "row": group.name,
        "metric": group.measure.metric,
        "split": group.measure.split,
        "mean": group.score.value,
        "deviation": group.score.deviation,
        "seeds": [record.seed for record in group.records],
        "paper": None if paper is None else [paper.value, paper.deviation],
        "marks": list(group.marks),
    }
