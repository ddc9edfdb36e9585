"""The report of some runs: a page with tables and curves, a page for each run, and the tables as Markdown and CSV."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from egt.charts import line_chart
from egt.config.load import read_config, write_config
from egt.data.source import Progress
from egt.errors import EgtError
from egt.explain.analysis_page import ANALYSIS
from egt.explain.prediction_page import plots, read_answers, worst
from egt.files import exists, result_folder
from egt.inference.artifact import CONFIG, ENSEMBLE, member_name, read_ensemble
from egt.pages import Sheet, figure, page, table, write_page
from egt.paper.results import RunGroup, config_of, runs_sheet, sheets
from egt.training.record import RunRecord, curves

_PAGE = "report.html"
_LEAD = (
    "Means over seeds with the sample standard deviation. A mark says how a run differs from the paper's (budget, "
    "settings, data), or from other runs of its name."
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

    Args:
        groups: The runs.
        unfinished: Runs without a result, which are named.
        folder: Where to write.
        ensembles: What is known of several of the runs as one.
        predictions: Plot the predictions of every run whose model and data are there; of custom data always.
        watch: Receives the progress of predictions.
    """
    result_folder(folder, _PAGE)
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
            files[f"{name}.html"] = run_page(record, group, predictions=predictions, watch=watch)
            links.append((f"{record.name}, seed {record.seed}", f"{name}.html"))
    files[_PAGE] = _report_page(groups, tables, every, unfinished, links)
    for file, content in files.items():
        write_page(folder / file, content)
    return [folder / file for file in files]


def _markdown(shown: Sequence[Sheet], unfinished: Sequence[Path]) -> str:
    parts = ["# Results\n", _LEAD + "\n", *(sheet.markdown() for sheet in shown)]
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
    sections = [(sheet.title, sheet.plain().html()) for sheet in shown]
    drawn = [(group.name, _curve_figures(group.records, group.measure.metric)) for group in groups]
    sections += [(f"Learning curves: {name}", figures) for name, figures in drawn if figures]
    sections.append((every.title, every.html()))
    if unfinished:
        sections.append(("Not finished", _list(escape(str(path)) for path in unfinished)))
    pages = _list(f'<a href="{escape(file, quote=True)}">{escape(name)}</a>' for name, file in links)
    return page("Results", _LEAD, [*sections, ("A page for each run", pages)])


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def run_page(record: RunRecord, group: RunGroup, *, predictions: bool = False, watch: Progress | None = None) -> str:
    """Return the page of one run: metrics, curves, predictions, settings."""
    config, measure = config_of(record), group.measure
    beside, columns = record.baseline.get("metrics", {}), ["split", "metric", "value"]
    metrics = [
        [split, name, _number(value, 6), *([_number(beside.get(split, {}).get(name), 6)] if beside else [])]
        for split, values in record.metrics.items()
        for name, value in values.items()
    ]
    columns += [f"baseline: {record.baseline['name']}"] if beside else []
    sections = [("Metrics", Sheet("", columns, metrics).html())]
    if record.coverage:
        sections.append(("How often the truth was inside", coverage_sheet(record.coverage).html()))
    if group.marks:
        heading = "Not the paper's run" if record.preset else "What sets it apart from other runs of its name"
        sections.append((heading, _list(map(escape, group.marks))))
    if figures := _curve_figures([record], measure.metric):
        sections.append(("How it learned", figures))
    if record.parameters and (predictions or config.data.custom is not None):
        sections += _prediction_sections(Path(record.folder), watch)
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
    sections.append(("What was run", table(("what", "value"), [fact for fact in facts if fact[1]])))
    sections.append(("Settings", f"<pre>{escape(write_config(config))}</pre>"))
    [value] = RunGroup(group.name, (record,), ()).values()
    return page(f"{record.name}, seed {record.seed}", f"{measure.title}: {value:.6g}", sections)


def _curve_figures(records: Sequence[RunRecord], metric: str) -> str:
    figures = [figure(line_chart(lines, "epoch", name), name) for name, lines in curves(records, metric).items()]
    return f'<div class="row">{"".join(figures)}</div>' if figures else ""


def _prediction_sections(folder: Path, watch: Progress | None) -> list[tuple[str, str]]:
    try:
        answers = read_answers(folder, watch=watch)
    except EgtError as error:
        return [("Predictions", f"<p>{escape(str(error))}</p>")]
    rows = worst(answers)
    return [("Predictions on the test split", plots(answers)), (rows.title, rows.html())]


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
