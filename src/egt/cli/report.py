"""`egt report`: runs beside the paper or their baselines, their curves and predictions."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from egt.cli.output import Bars, Flag, print_json, print_table, say
from egt.errors import DataError

_SHOWN = ("data", "model", "measure", "result", "seeds", "paper", "baseline", "marks")
"""Columns that fit into a terminal; files have all of them."""


def report(
    *runs: Path,
    output: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    predictions: Flag = False,
    keep: Path | None = None,
    json: Flag = False,
) -> None:
    """Report finished runs: tables beside the paper's, learning curves, and plots of predictions.

    Args:
        runs: Run folders, folders of them, artifacts of ensembles, or result files.
        output: The folder to write to: report.html, report.md, results.csv, runs.csv and a page for each run.
        predictions: Plot the predictions of benchmark runs as well; of your own data they always are.
        keep: A folder to keep the results in, as ROW/seedK/result.json; run it on the machine of the runs.
        json: Print one JSON object as the last line.
    """
    from egt.paper.report import as_json, ensemble_sheets, read_ensembles, write_report
    from egt.paper.results import collect, keep_record, read_records, sheets

    if not runs:
        raise DataError("give the folder of a run, or of several: egt report runs/paper")
    records, unfinished = read_records(runs)
    groups, ensembles = collect(records), read_ensembles(runs)
    if keep is not None:
        for record in records:
            say(f"kept {keep_record(record, keep)}")
    if output is not None:
        with Bars(shown=not json) as bars:
            files = write_report(groups, unfinished, output, ensembles=ensembles, predictions=predictions, watch=bars)
        say(f"wrote {output / 'report.html'} and {len(files) - 1} more files")
    if json:
        print_json(
            {
                "results": [as_json(group) for group in groups],
                "ensembles": [asdict(each) for each in ensembles],
                "unfinished": [str(path) for path in unfinished],
            }
        )
        return
    for sheet in (*ensemble_sheets(ensembles), *(sheet.only(_SHOWN).filled() for sheet in sheets(groups))):
        print_table(sheet.title, sheet.columns, sheet.rows)
        for note in sheet.notes:
            say(f"- {note}")
    for path in unfinished:
        say(f"not finished: {path}")
    if not records:
        say("there is no finished run")
