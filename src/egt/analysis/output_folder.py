"""An analysis as files in a folder: the page, the figures, the numbers."""

from __future__ import annotations

import logging
from pathlib import Path

from egt.analysis.analysis import Analysis
from egt.analysis.analysis_page import analysis_page
from egt.analysis.figures import can_draw, write_figures
from egt.analysis.numbers import write_columns
from egt.analysis.views import Choice
from egt.files import result_folder
from egt.reporting.page import write_page
from egt.reporting.report import ANALYSIS

log = logging.getLogger(__name__)


def write_analysis(analysis: Analysis, choice: Choice, folder: Path, name: str, data: str, command: str) -> list[Path]:
    """Write everything into a folder, which is made if there is none.

    Args:
        analysis: what was found.
        choice: what the figures show.
        folder: gets analysis.html, the figures, and the numbers as CSV and Parquet.
        name: of the model.
        data: what it looked at, in words.
        command: that makes the files again.

    Returns:
        The files, the page first.
    """
    result_folder(folder, ANALYSIS.name)
    write_page(folder / ANALYSIS.name, analysis_page(analysis, name, data, command))
    tables = {
        "hops": analysis.hops.columns(analysis.layers),
        "heads": analysis.heads.columns(analysis.layers, analysis.hops.reach(analysis.hops.product)),
        "edge_channel": analysis.edges.columns(),
    }
    written = [file for key, columns in tables.items() for file in write_columns(folder, key, columns)]
    if can_draw():
        written += write_figures(analysis, choice, folder)
    else:
        log.warning('no PNG and SVG figures: they need matplotlib (pip install "egt-graph[figures]")')
    return [folder / ANALYSIS.name, *written]
