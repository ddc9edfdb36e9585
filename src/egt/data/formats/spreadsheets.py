"""Excel files: the first sheet with cells is a table of molecules, or of predictions.

Cells are read as texts and then like those of a text file, so that the same rules hold for both: a number that is kept
as a text is a number, `NA` is missing, 0042 is a code.
"""

from __future__ import annotations

import datetime
import logging
import zipfile
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from egt.data.columns import FORMATS, Format, RawData, Table, digest_of_files, text_of
from egt.data.formats.tables import molecules_of, table_of_cells
from egt.errors import DataError, RunError, require_extra
from egt.files import Bounds

_SAVE = "In Excel: File, Save As, CSV UTF-8"
_MOST_ROWS = 1_048_576  # what a sheet can have
log = logging.getLogger(__name__)


@FORMATS.register("excel")
class Spreadsheet(Format):
    """A table with a row for each molecule in an Excel file."""

    suffixes = (".xlsx", ".xlsm", ".xls")  # the last to say what to do with it
    what = "an Excel file (.xlsx)"

    @staticmethod
    def read(data: Any) -> RawData:
        return molecules_of(_read_xlsx(data), str(data), digest_of_files([data]))


def _read_xlsx(path: Path) -> Table:
    if path.suffix.lower() == ".xls":
        raise DataError(f"{path}: the old format of Excel cannot be read; save it as .xlsx or CSV ({_SAVE})")
    openpyxl = _openpyxl(f"{path}: reading it")
    try:
        with zipfile.ZipFile(path) as archive:
            Bounds.current().check("bytes", sum(part.file_size for part in archive.infolist()), path)
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            sheets = [sheet.title for sheet in book.worksheets if any(True for _ in _filled_rows(sheet))]
            if not sheets:
                raise DataError(f"{path}: no sheet has a cell in it")
            rows = _rows(book[sheets[0]], path)
        finally:
            book.close()
    except DataError:
        raise
    except Exception as error:  # a damaged file raises whatever the reader of a part of it does
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path}: is no Excel file that can be read ({reason}); save it as CSV ({_SAVE})") from error
    if len(sheets) > 1:
        log.warning("%s: sheet %r is read, and the others are not: %s", path, sheets[0], ", ".join(sheets[1:]))
    header = [name.strip() for name in rows[0][1]]
    width = len(header)
    lines = [(number, len(row) if len(row) > width else row + [""] * (width - len(row))) for number, row in rows[1:]]
    return table_of_cells(lines, header, path, unit="row")


def _filled_rows(sheet: Any) -> Iterable[tuple[int, list[str]]]:
    """Yield the number and the cells of each row that has one."""
    sheet.reset_dimensions()  # what a file says of its size may be anything
    for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        if any(value is not None for value in row):
            yield number, [_text(value) for value in row]


def _rows(sheet: Any, path: Path) -> list[tuple[int, list[str]]]:
    rows, cells, bounds = [], 0, Bounds.current()
    for number, row in _filled_rows(sheet):
        while row and not row[-1]:
            row.pop()
        rows.append((number, row))
        cells += len(row)
        bounds.check("rows", len(rows) - 1, path)
        bounds.check("cells", cells, path)
    return rows


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return text_of(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def write_xlsx(rows: Iterable[Sequence[Any]], file: Path, name: str) -> None:
    """Write rows of numbers, texts and None as the only sheet of an Excel file, which is called `name` for the user."""
    openpyxl = _openpyxl(f"{name}: writing it")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("predictions")
    remaining = iter(rows)
    for row in islice(remaining, _MOST_ROWS):
        cells = []
        for value in row:
            cell = value
            if isinstance(value, str):
                cell = openpyxl.cell.WriteOnlyCell(sheet, openpyxl.cell.cell.ILLEGAL_CHARACTERS_RE.sub("", value))
                cell.data_type = "s"  # a text that begins with = is no formula
            cells.append(cell.item() if hasattr(cell, "item") else cell)
        sheet.append(cells)
    if next(remaining, None) is not None:
        sheet.close()
        raise RunError(f"{name}: a sheet holds {_MOST_ROWS:,} rows; write a .csv file")
    book.save(file)


def _openpyxl(doing: str) -> Any:
    with require_extra("excel", f"{doing} needs openpyxl, or use CSV instead ({_SAVE})", DataError):
        import openpyxl
    return openpyxl
