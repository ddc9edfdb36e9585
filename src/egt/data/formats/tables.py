"""Tables of molecules: CSV (also gzipped) and Parquet files, pandas and Polars frames, and lists of SMILES.

A line that does not fit is kept as a problem, in place.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import logging
import math
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO, Any

import numpy as np

from egt.data.columns import (
    FORMATS,
    Column,
    Columns,
    Format,
    RawData,
    Table,
    check_header,
    digest_of_files,
    digest_of_graphs,
    is_exact,
    missing_in,
    objects,
    one_or_many,
)
from egt.data.molecules import RDKIT_ERRORS, reason_of, require_rdkit, with_coordinates
from egt.errors import DataError
from egt.files import Bounds, open_bytes

TEXT_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")  # of tables that can be read part by part
TABLE_SUFFIXES = (*TEXT_SUFFIXES, ".parquet")
SDF_SUFFIXES = (".sdf", ".sdf.gz")
LIST_SUFFIXES = (".smi", ".smi.gz", ".smiles", ".txt", ".txt.gz")  # of other files of molecules
DELIMITERS = ",;\t|"

MISSING_TEXTS = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"})
"""The cells of a text file that mean "no value"; `Na` is sodium and does not."""

_BOOLEANS = {"true": 1.0, "false": 0.0}
_CODE = re.compile(r"[+-]?(0\d+|\d{16,})")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?([eE][+-]?\d+)?")
_CLEAR_COMMA = re.compile(r",(?!\d{3}$)|^[+-]?0,|^[+-]?\d{4,},")  # a comma that does not stand between thousands
_COMPARED = re.compile(r"[<>≤≥~≈=]+\s*")  # what stands in front of a number that is a bound
_BLOCK = 2**20
_TOGETHER = 2**16  # how many cells of several columns are converted at once
logger = logging.getLogger(__name__)


def _arrow() -> Any:
    """Return the module that needs Arrow, whose import takes a tenth of a second: many files have no numbers."""
    from egt.data import arrow

    return arrow


@FORMATS.register("molecules")
class Tables(Format):
    """A table with a row for each molecule, or SMILES alone."""

    suffixes = TABLE_SUFFIXES
    what = f"a table of molecules ({', '.join(TABLE_SUFFIXES)}, or a pandas or Polars frame), SMILES or RDKit molecules"

    @classmethod
    def fits(cls, data: Any) -> bool:
        if isinstance(data, Path):
            return super().fits(data)
        return is_frame(data) or (data is not None and not isinstance(data, str) and bool(_molecule_columns(data)))

    @staticmethod
    def read(data: Any) -> RawData:
        if isinstance(data, Path):
            return molecules_of(read_table(data), str(data), digest_of_files([data]))
        if is_frame(data):
            return molecules_of(_arrow().table_of_frame(data), "frame")
        problems: dict[int, str] = {}
        given = _molecule_columns(data)
        columns = {name: objects(_smiles_of(part, problems)) for name, part in given.items()}
        raw = molecules_of(Table(columns, len(next(iter(columns.values()))), problems), "SMILES")
        placed = objects(
            [with_coordinates(each) if hasattr(each, "GetNumAtoms") else None for each in given.get("smiles", ())]
        )
        if missing_in(placed).all():
            return raw
        return replace(raw, placed=placed, digest=digest_of_graphs({**columns, "placed": placed}, ()))

    @classmethod
    def blocks(cls, data: Any, size: int) -> Iterator[RawData]:
        first_row = 0
        for table in _blocks(data, size):
            yield replace(molecules_of(table, str(data), f"{data} from row {first_row}"), first_row=first_row)
            first_row += table.num_rows


@contextmanager
def open_text(path: Path, *, whole: bool = True) -> Iterator[IO[str]]:
    """Open a plain or gzipped text file; whatever goes wrong while it is read is a `DataError`. As `open_bytes`."""
    try:
        with open_bytes(path, whole=whole) as content:
            encoding = encoding_of(content)
        if encoding == "cp1252":
            logger.warning("%s is not UTF-8; it is read as Windows-1252 (older Excel): check names with accents", path)
        with open_bytes(path, whole=whole) as content, io.TextIOWrapper(content, encoding, newline="") as file:
            yield file
    except UnicodeError as error:
        raise DataError(f"{path}: not UTF-8 text ({error}); save the file as UTF-8") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: damaged gzip file ({error}); copy it again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def encoding_of(file: IO[bytes]) -> str:
    """How a text is written: UTF-16 says so in its first bytes, else UTF-8 or, if that is impossible, Windows-1252."""
    start = file.read(2)
    if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    decoder, part = codecs.getincrementaldecoder("utf-8")(), start
    try:
        while part:
            decoder.decode(part)
            part = file.read(_BLOCK)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "cp1252" if b"\0" not in part else "utf-8-sig"  # whose error then says where it is wrong
    return "utf-8-sig"


def read_table(path: Path) -> Table:
    """Read a CSV, TSV or Parquet file; it may have no rows."""
    [table] = _blocks(path)
    return table


def _blocks(path: Path, size: int = sys.maxsize) -> Iterator[Table]:
    """Yield the rows of a file, `size` at a time; at least one block, which may have no rows."""
    blocks: Iterator[Table] = (_arrow().parquet_blocks if path.suffix.lower() == ".parquet" else text_blocks)(
        path, size
    )
    return blocks


def is_frame(data: object) -> bool:
    """Return whether an object is a data frame (pandas, Polars, Arrow: found without importing them)."""
    return hasattr(data, "__arrow_c_stream__") and hasattr(data, "columns")


def molecules_of(table: Table, where: str, digest: str = "") -> RawData:
    """Return a table in which each row is a molecule."""
    return RawData(
        where=where,
        format="molecules",
        num_rows=table.num_rows,
        table=table.columns,
        problems=table.problems,
        digest=digest or digest_of_graphs(table.columns, ()),
    )


def _molecule_columns(data: Any) -> dict[str, Sequence[Any]]:
    """Return molecules, or rows of several ones as [("CCO", "O"), ("CCN", "O")], as columns; none for other data."""
    if molecules := one_or_many(data, _is_molecule):
        return {"smiles": molecules}
    rows = one_or_many(data, lambda row: isinstance(row, list | tuple) and bool(row) and all(map(_is_molecule, row)))
    return {f"smiles.{k}": part for k, part in enumerate(zip_longest(*rows))}


def _is_molecule(data: object) -> bool:
    """Whether this is a SMILES string, an RDKit molecule (found without importing RDKit), or a missing one."""
    return isinstance(data, str) or _is_missing(data) or hasattr(data, "GetNumAtoms")


def _is_missing(data: object) -> bool:
    """Whether this stands for a missing value, in Python (None) or pandas (NaN, NA; found without importing it)."""
    return data is None or (isinstance(data, float) and math.isnan(data)) or type(data).__name__ == "NAType"


def _smiles_of(molecules: Iterable[Any], problems: dict[int, str]) -> list[str | None]:
    """Return the SMILES of molecules; None, and the reason among the problems, where RDKit cannot write one."""
    texts: list[str | None] = []
    for row, molecule in enumerate(molecules):
        if isinstance(molecule, str) or _is_missing(molecule):
            texts.append(molecule if isinstance(molecule, str) else None)
            continue
        chem = require_rdkit()
        try:
            with chem.rdBase.BlockLogs():
                texts.append(chem.MolToSmiles(molecule))
        except RDKIT_ERRORS as error:
            texts.append(None)
            problems[row] = f"molecule {row + 1} has no SMILES: {reason_of(error)}"
    return texts


def text_blocks(path: Path, size: int = sys.maxsize) -> Iterator[Table]:
    """Yield the rows of a text file of columns, whose delimiter is that of its first line, `size` at a time."""
    bounds = Bounds.current()
    whole = size == sys.maxsize
    csv.field_size_limit(min(bounds.line, 2**31 - 1))
    with open_text(path, whole=whole) as file:
        first = file.readline()
        # Spreadsheets may name the delimiter in a line of its own.
        skipped = int(first.lower().rstrip("\r\n") in {f"sep={delimiter}" for delimiter in DELIMITERS})
        delimiter = first[4] if skipped else max(DELIMITERS, key=first.count)
        if not skipped:
            file.seek(0)
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            header = [name.strip() for name in next(reader, [])]
            if not header:
                raise DataError(f"{path}: the file is empty; its first line must name the columns")
            bounds.check("columns", len(header), path)
            lines = _rows(reader, len(header), skipped)
            most = bounds.rows_of(len(header))
            size = most + 1 if whole else min(size, max(most, 1))
            block = list(islice(lines, size))
            while True:
                if whole:
                    bounds.check("rows", len(block), path)
                    bounds.check("cells", len(block) * len(header), path)
                following = list(islice(lines, size))
                yield table_of_cells(block, header, path, decimal_comma=delimiter == ";")
                if not following:
                    return
                block = following
        except csv.Error as error:
            raise DataError(f"{path} line {reader.line_num + skipped}: {error}; is a quote left open?") from error


def _rows(reader: Any, width: int, skipped: int) -> Iterator[tuple[int, list[str] | int]]:
    """Yield the number and the cells of each line below the header that is a row; how many, if they are not `width`."""
    blank = 0
    for cells in reader:
        if not cells:
            blank += 1
            continue
        if width == 1:  # a blank line is an empty cell here, unless the file ends with it
            yield from ((reader.line_num + skipped, [""]) for _ in range(blank))
        blank = 0
        yield reader.line_num + skipped, cells if len(cells) == width else len(cells)


def table_of_cells(
    lines: Sequence[tuple[int, list[str] | int]],
    header: list[str],
    path: Path,
    *,
    unit: str = "line",
    decimal_comma: bool = False,
) -> Table:
    """Return the columns of numbered rows of cells; where their number is not that of the header, it stands alone."""
    problems: dict[int, str] = {}
    rows: list[list[str]] = []
    blank = [""] * len(header)
    for line, cells in lines:
        if isinstance(cells, int):
            problems[len(rows)] = f"{path.name} {unit} {line}: {cells} fields, the header has {len(header)}"
            cells = blank
        rows.append(cells)
    cells_of = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    # Spreadsheets leave empty columns without a name at the right.
    kept = [k for k, name in enumerate(header) if name or any(cells_of[k])]
    check_header([header[k] for k in kept], f"{path} {unit} 1")
    # Where the comma is free, it is the decimal sign of many countries.
    read = columns_of_texts([cells_of[k] for k in kept], decimal_comma=decimal_comma)
    columns = {header[k]: column for k, column in zip(kept, read, strict=True)}
    if not decimal_comma:
        _warn_of_commas({header[k]: cells_of[k] for k in kept}, columns, path)
    return Table(columns, len(rows), problems)


def _warn_of_commas(cells: Mapping[str, Sequence[str]], columns: Columns, path: Path) -> None:
    """Say which columns have numbers with commas, and how they were read: 1,5 is clear, 1,234 could be two numbers."""
    for name, column in columns.items():
        if "," not in "".join(cells[name]):
            continue
        present = [cell for cell in _strip(cells[name]) if cell is not None]
        example = next(cell for cell in present if "," in cell)
        if column.dtype != object or not any("," in cell for cell in column if cell):
            shown = example.replace(",", ".")
            logger.warning("%s: column %r has decimal commas: %s is read as %s", path, name, example, shown)
        elif all(_DECIMAL_COMMA.fullmatch(cell) for cell in present):
            plain, point = example.replace(",", ""), example.replace(",", ".")
            message = "%s: column %r holds %s, which may be %s or %s: it is read as text; write one of them"
            logger.warning(message, path, name, example, plain, point)


def columns_of_texts(columns: Sequence[Sequence[str]], *, decimal_comma: bool = False) -> list[Column]:
    """Return the columns of a text file: numbers if every cell that is there is one, or true or false; else texts.

    Codes stay texts, though they look like numbers: whole numbers with leading zeros (0042), and those with so many
    digits that no float64 holds them exactly.

    Where a column has no other spelling of numbers, 1,5 is one; 1,234 only with `decimal_comma`, where no comma can
    stand between thousands.
    """
    found: list[Column | None] = [None] * len(columns)
    likely = []
    for k, cells in enumerate(columns):
        first = next((cell for raw in cells if (cell := raw.strip()) not in MISSING_TEXTS), "")
        if first and not _is_value(first):
            found[k] = _texts(_strip(cells), decimal_comma=decimal_comma)
        else:
            likely.append(k)
    step = max(1, _TOGETHER // max([1, *map(len, columns)]))
    for first_of in range(0, len(likely), step):
        group = likely[first_of : first_of + step]
        for k, plain in zip(group, _plain_columns([columns[k] for k in group]), strict=True):
            found[k] = plain
    return [
        _mixed_column(cells, decimal_comma=decimal_comma) if column is None else column
        for cells, column in zip(columns, found, strict=True)
    ]


def _plain_columns(columns: Sequence[Sequence[str]]) -> list[Column | None]:
    """Return columns of one length that are plain numbers, None for others; a call for each would take most time."""
    joined = _arrow().plain_numbers([cell for cells in columns for cell in cells], MISSING_TEXTS)
    if joined is not None:
        return [*joined.reshape(len(columns), len(columns[0]))]
    if len(columns) == 1:
        return [None]
    half = len(columns) // 2
    return _plain_columns(columns[:half]) + _plain_columns(columns[half:])


def column_of_texts(cells: Sequence[str]) -> Column:
    """Return one column of a text file: see `columns_of_texts`."""
    [column] = columns_of_texts([cells])
    return column


def _mixed_column(cells: Sequence[str], *, decimal_comma: bool) -> Column:
    present = _strip(cells)
    known = [cell for cell in present if cell is not None]
    if known and all(cell.lower() in _BOOLEANS for cell in known):
        return np.array([np.nan if cell is None else _BOOLEANS[cell.lower()] for cell in present])
    found: Column | None = _arrow().numbers(present)
    if found is not None and not any(_is_code(cell) for cell in known):
        return found
    clear = decimal_comma or any(_CLEAR_COMMA.search(cell) for cell in known)
    if found is None and clear and all(_DECIMAL_COMMA.fullmatch(cell) for cell in known):
        return np.array([np.nan if cell is None else float(cell.replace(",", ".")) for cell in present])
    return _texts(present, decimal_comma=decimal_comma)


def _texts(cells: Sequence[str | None], *, decimal_comma: bool) -> Column:
    """Return a column of texts; where all are numbers or bounds, of which some are `>0,5`, with decimal points."""
    numbers = [_COMPARED.sub("", cell, count=1) if _COMPARED.match(cell) else cell for cell in cells if cell]
    are_numbers = all(_DECIMAL_COMMA.fullmatch(each) for each in numbers)
    if are_numbers and (decimal_comma or any(_CLEAR_COMMA.search(each) for each in numbers)):
        return objects([cell and cell.replace(",", ".") for cell in cells])
    return objects(cells)


def _strip(cells: Sequence[str]) -> list[str | None]:
    """Return the cells without blanks around them, None where there is no value."""
    return [None if (cell := raw.strip()) in MISSING_TEXTS else cell for raw in cells]


def _is_value(cell: str) -> bool:
    """Return whether a cell may be a number, or true or false; a column that has another one is a column of texts."""
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return cell.lower() in _BOOLEANS
    return True


def _is_code(cell: str) -> bool:
    if not _CODE.fullmatch(cell):
        return False
    return cell.lstrip("+-").startswith("0") or len(cell) > 300 or not is_exact(int(cell))
