"""Ensembles in a report: the averaged answers of several models beside the mean and deviation of each alone.

The report of some runs: a page with tables and curves, a page for each run, and the tables as Markdown and CSV.
"""

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
from egt.errors import DataError, EgtError
from egt.files import exists, result_folder
from egt.inference.artifact import CONFIG, ENSEMBLE
from egt.inference.members import member_name, read_ensemble
from egt.pages import Sheet, figure, page, table, write_page
from egt.paper.record import RunRecord, config_of
from egt.paper.results import Result, curves, results_sheet, runs_sheet, sheets

TITLE = "Ensembles"

_OF_FOLDS = "of folds, 'together' is the mean over the folds, each tested by the model that has not seen it"


@dataclass(frozen=True)
class EnsembleRecord:
    """What an ensemble has left for a report.

    Fields:
        name: of its runs.
        kind: how its models differ: "seeds" or "folds".
        count: how many there are.
        metrics: split -> metric -> value, of the averaged answers; None where it could not be computed.
        member_metrics: split -> metric -> mean and std over the models, each alone.
        coverage: how often its intervals or sets held test labels; empty where nobody could tell.
        folder: of its artifact.
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
        """What it is called in a table."""
        return f"{self.name}, {self.count} {self.kind}"


def read_ensembles(paths: Iterable[Path]) -> list[EnsembleRecord]:
    """Return the ensembles below some paths: artifacts, run folders, or folders of them."""
    files = dict.fromkeys(file for path in paths if path.is_dir() for file in sorted(path.rglob(ENSEMBLE)))
    return [_read(file.parent) for file in files]


def _read(folder: Path) -> EnsembleRecord:
    content = read_ensemble(folder)
    data = content["data"]
    return EnsembleRecord(
        name=read_config(folder / member_name(0) / CONFIG).name,
        kind=content["kind"],
        count=content["members"],
        metrics=content["metrics"],
        member_metrics=data.get("member_metrics", {}),
        coverage=data.get("coverage") or {},
        folder=str(folder),
    )


def ensemble_sheets(records: Sequence[EnsembleRecord]) -> list[Sheet]:
    """Return the metrics of all ensembles, and how often their intervals or sets held the truth."""
    if not records:
        return []
    rows = [(record.title, *row) for record in records for row in _metric_rows(record)]
    notes = (_OF_FOLDS,) if any(record.kind == "folds" for record in records) else ()
    metrics = Sheet(TITLE, ("ensemble", "split", "metric", "together", "each alone"), rows, notes)
    return [metrics, *(_coverage_of(record) for record in records if record.coverage)]


def coverage_sheet(coverage: Mapping[str, Any], title: str = "") -> Sheet:
    """Return how often intervals or sets have held the test labels."""
    columns = ("target", f"inside {coverage['kind']}s of {coverage['asked']:.0%}", "mean size", "labels")
    rows = [
        (name, f"{found['coverage']:.1%}", _size(found["size"]), str(found["num_labels"]))
        for name, found in coverage["targets"].items()
    ]
    where = ["of nodes or edges of the training graph (transductive)"] if coverage["transductive"] else []
    return Sheet(title, columns, rows, [*where, *coverage.get("doubts", ())])


def _coverage_of(record: EnsembleRecord) -> Sheet:
    return coverage_sheet(record.coverage, f"{record.title}: how often the truth was inside")


def _metric_rows(record: EnsembleRecord) -> list[tuple[str, str, str, str]]:
    splits = dict.fromkeys([*record.metrics, *record.member_metrics])
    found = []
    for split in splits:
        joint, alone = record.metrics.get(split, {}), record.member_metrics.get(split, {})
        names = dict.fromkeys(name for name in (*joint, *alone) if not name.startswith("num_"))
        found += [(split, name, _number(joint.get(name)), _spread(alone.get(name))) for name in names]
    return found


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"


def _spread(value: Mapping[str, float | None] | None) -> str:
    if value is None or value["mean"] is None or value["std"] is None:
        return "-"
    return f"{value['mean']:.5g} ± {value['std']:.2g}"


def _size(size: float | None) -> str:
    return "infinite" if size is None else f"{size:.4g}"


ANALYSIS = Path("analysis", "analysis.html")
"""In a run folder: what `egt analyze` writes."""

_PAGE = "report.html"

_BEGIN, _END = "<!-- results: made by `egt report", "<!-- /results -->"

_LEAD = (
    "Means over seeds with the sample standard deviation. A mark says how a run differs from the paper's (budget, "
    "settings, data), or from other runs of its name."
)

_README_COLUMNS = ("data", "model", "measure", "ours", "seeds", "paper", "marks")


def write_report(
    results: Sequence[Result],
    unfinished: Sequence[Path],
    folder: Path,
    *,
    ensembles: Sequence[EnsembleRecord] = (),
    predictions: bool = False,
    watch: Progress | None = None,
) -> list[Path]:
    """Write a report into a folder.

    Args:
        results: what to report.
        unfinished: runs without a result; they are named.
        folder: gets report.html, report.md, results.csv, runs.csv and a page for each run.
        ensembles: what is known of several of the runs as one.
        predictions: plot the predictions of every run whose model and data are there; of custom data always.
        watch: receives the progress of predictions.

    Returns:
        The files.
    """
    result_folder(folder, _PAGE)
    shown, every = sheets(results), runs_sheet(results)
    tables = [*ensemble_sheets(ensembles), *shown]
    files = {folder / "report.md": markdown(tables, every, unfinished), folder / "runs.csv": every.csv()}
    main = [sheet for sheet in shown if "paper" in sheet.columns]
    rows = [(sheet.title, *row) for sheet in main for row in sheet.rows]
    files[folder / "results.csv"] = Sheet("", ("table", *main[0].columns), rows).csv() if main else ""
    links, taken = [], Counter[str]()
    for result in results:
        for record in result.records:
            name = re.sub(r"[^\w.-]", "_", f"{record.name}-seed{record.seed}")
            taken[name] += 1
            name += f"-{taken[name]}" if taken[name] > 1 else ""
            files[folder / f"{name}.html"] = run_page(record, result, predictions=predictions, watch=watch)
            links.append((f"{record.name}, seed {record.seed}", f"{name}.html"))
    files[folder / _PAGE] = report_page(results, tables, every, unfinished, links)
    for file, content in files.items():
        write_page(file, content)
    return list(files)


def markdown(shown: Sequence[Sheet], every: Sheet, unfinished: Sequence[Path]) -> str:
    """Return the report as Markdown."""
    parts = ["# Results\n", _LEAD + "\n", *(sheet.markdown() for sheet in (*shown, every))]
    if unfinished:
        parts.append("## Not finished\n\n" + "\n".join(f"- `{path}`" for path in unfinished) + "\n")
    return "\n".join(parts)


def report_page(
    results: Sequence[Result],
    shown: Sequence[Sheet],
    every: Sheet,
    unfinished: Sequence[Path],
    links: Sequence[tuple[str, str]],
) -> str:
    """Return the report as an HTML page that stands alone."""
    sections = [(sheet.title, sheet.plain().html()) for sheet in shown]
    drawn = [(result, _curve_figures(result)) for result in results]
    sections += [(f"Learning curves: {result.name}", figures) for result, figures in drawn if figures]
    sections.append((every.title, every.html()))
    if unfinished:
        items = "".join(f"<li>{escape(str(path))}</li>" for path in unfinished)
        sections.append(("Not finished", f"<ul>{items}</ul>"))
    pages = "".join(f'<li><a href="{escape(file, quote=True)}">{escape(name)}</a></li>' for name, file in links)
    return page("Results", _LEAD, [*sections, ("A page for each run", f"<ul>{pages}</ul>")])


def run_page(record: RunRecord, result: Result, *, predictions: bool = False, watch: Progress | None = None) -> str:
    """Return the page of one run: metrics, curves, predictions, settings."""
    config = config_of(record)
    splits = [
        (split, name, "-" if value is None else f"{value:.6g}")
        for split, values in record.metrics.items()
        for name, value in values.items()
    ]
    single = Result(record.name, (record,), result.marks)
    sections = [("Metrics", Sheet("", ("split", "metric", "value"), splits).html())]
    if record.coverage:
        sections.append(("How often the truth was inside", coverage_sheet(record.coverage).html()))
    if result.marks:
        heading = "Not the paper's run" if record.preset else "What sets it apart from other runs of its name"
        sections.append((heading, "<ul>" + "".join(f"<li>{escape(mark)}</li>" for mark in result.marks) + "</ul>"))
    sections += [("How it learned", figures)] if (figures := _curve_figures(single)) else []
    if record.parameters and (predictions or config.data.custom is not None):
        sections += _prediction_sections(record, watch)
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
    return page(f"{record.name}, seed {record.seed}", f"{result.measure.title}: {single.values[0]:.6g}", sections)


def analysis_link(folder: Path) -> str:
    """Return a link to the analysis of a run's model as HTML, or the command that makes one."""
    page = folder / ANALYSIS
    if not exists(page):
        return f"<pre>{escape(shlex.join(['egt', 'analyze', str(folder)]))}</pre>"
    return f'<p><a href="{escape(page.resolve().as_uri(), quote=True)}">Hop profiles, heads, gates and matrices</a></p>'


def readme_table(results: Sequence[Result]) -> str:
    """Return the results as the table of a README; without any, a sentence that says so."""
    if not results:
        return "No run has been finished yet; [docs/reproducing.md](docs/reproducing.md) says how to make them.\n"
    whole = results_sheet("", sorted(results, key=lambda result: (result.data, result.name)))
    return whole.only(_README_COLUMNS).markdown(level=0)


def with_readme_table(text: str, results: Sequence[Result], where: str) -> str:
    """Return the text of a README whose table of results, between its two marks, is made again."""
    begin = text.find(_BEGIN)
    end = text.find(_END, begin)
    if begin < 0 or end < 0:
        raise DataError(f"{where}: there is no table of results; put {_BEGIN} RUNS --readme` --> and {_END} around it")
    start = text.index("\n", begin) + 1
    return f"{text[:start]}\n{readme_table(results)}\n{text[end:]}"


def as_json(results: Sequence[Result]) -> list[dict[str, object]]:
    """Return the results for other programs."""
    rows: list[dict[str, object]] = []
    for result in results:
        paper = result.place[1].paper if result.place else None
        measure = result.measure
        rows.append(
            {
                "row": result.name,
                "metric": measure.metric,
                "split": measure.split,
                "mean": result.score.value,
                "deviation": result.score.deviation,
                "seeds": [record.seed for record in result.records],
                "paper": None if paper is None else [paper.value, paper.deviation],
                "marks": list(result.marks),
            }
        )
    return rows


def _curve_figures(result: Result) -> str:
    figures = [figure(line_chart(series, "epoch", name), name) for name, series in curves(result).items()]
    return f'<div class="row">{"".join(figures)}</div>' if figures else ""


def _prediction_sections(record: RunRecord, watch: Progress | None) -> list[tuple[str, str]]:
    from egt.explain.prediction_page import plots, read_answers, worst

    try:
        answers = read_answers(Path(record.folder), watch=watch)
    except EgtError as error:
        return [("Predictions", f"<p>{escape(str(error))}</p>")]
    rows = worst(answers)
    return [("Predictions on the test split", plots(answers)), (rows.title, rows.html())]
