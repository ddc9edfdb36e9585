"""The report of some runs: a page with tables and curves, a page for each run, and the tables as Markdown and CSV."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path

from egt.config.load import write_config
from egt.errors import DataError, EgtError
from egt.files import exists, result_folder
from egt.reporting.charts import line_chart
from egt.reporting.ensembles import EnsembleRecord, coverage_sheet, ensemble_sheets
from egt.reporting.page import figure, page, table, write_page
from egt.reporting.record import RunRecord, config_of
from egt.reporting.results import Result, curves, results_sheet, runs_sheet, sheets
from egt.reporting.sheet import Sheet
from egt.sources.source import Progress

ANALYSIS = Path("analysis", "analysis.html")
"""In a run folder: what `egt analyze` writes."""
_PAGE = "report.html"
_BEGIN, _END = "<!-- results: made by `egt report", "<!-- /results -->"
_LEAD = (
    "Means over seeds with the sample standard deviation. A mark says how a run differs from the paper's (budget, "
    "settings, data), or from other runs of its name."
)
_README_COLUMNS = ("data", "model", "measure", "ours", "seeds", "paper", "parameters", "marks")


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
    from egt.reporting.prediction_page import plots, read_answers, worst

    try:
        answers = read_answers(Path(record.folder), watch=watch)
    except EgtError as error:
        return [("Predictions", f"<p>{escape(str(error))}</p>")]
    rows = worst(answers)
    return [("Predictions on the test split", plots(answers)), (rows.title, rows.html())]
