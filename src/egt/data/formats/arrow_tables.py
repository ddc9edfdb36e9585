"""Tables that Arrow reads: Parquet files and data frames, and columns of texts that are numbers.

Loading Arrow takes a tenth of a second, so other modules import this one where they need it: most files of molecules
have no number in them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from egt.data.columns import Column, Table, check_header, column_of_values, objects
from egt.errors import DataError

_LIKE_CODE = r"^[+-]?0\d|\d{16}"
"""What every code has (`tables.column_of_texts`), and few numbers."""

logger = logging.getLogger(__name__)


def table_of_frame(frame: Any, *, ragged: bool = False) -> Table:
    """Return the columns of a data frame; the index of a pandas frame is none of them. `ragged` as in `read_table`."""
    is_pandas = type(frame).__module__.split(".")[0] == "pandas"
    if is_pandas:  # the others have no name twice
        check_header([str(name) for name in frame.columns], "frame")
    try:
        return _table_of_arrow(
            pa.Table.from_pandas(frame, preserve_index=False) if is_pandas else pa.table(frame), "frame", ragged
        )
    except (pa.ArrowException, TypeError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"frame: a column mixes kinds of values ({reason}); give each column one type") from error


def read_parquet(path: Path, *, ragged: bool) -> Table:
    """Read a Parquet file. `ragged` as in `read_table`."""
    import pyarrow.parquet as pq  # here: no other table needs it

    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a Parquet file that can be read: {error}") from error
    return _table_of_arrow(table, str(path), ragged)


def _table_of_arrow(table: pa.Table, where: str, ragged: bool) -> Table:
    check_header(table.column_names, where)
    columns = {name: _arrow_column(table[name], f"{where}: column {name!r}", ragged) for name in table.column_names}
    return Table({name: column for name, column in columns.items() if column is not None}, table.num_rows, {})


def _arrow_column(array: pa.ChunkedArray, where: str, ragged: bool) -> Column | None:
    """Return a column, or None for a type that cannot be one (images, nested records): such columns are left out."""
    kind, is_a = array.type, pa.types
    if is_a.is_dictionary(kind):
        return _arrow_column(array.cast(kind.value_type), where, ragged)
    if is_a.is_null(kind):
        return np.full(len(array), np.nan)
    if is_a.is_integer(kind) and _has_long_numbers(array):
        return _arrow_column(array.cast(pa.string()), where, ragged)  # names of many digits
    if is_a.is_boolean(kind) or is_a.is_integer(kind) or is_a.is_floating(kind) or is_a.is_decimal(kind):
        return _numbers(array.cast(pa.float64(), safe=False))
    if is_a.is_temporal(kind):
        try:
            return _arrow_column(array.cast(pa.string()), where, ragged)
        except pa.ArrowException:  # durations and intervals are not spelled out
            logger.warning("%s holds %s, which cannot be used; the column is left out", where, kind)
            return None
    if is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind):
        column = np.empty(len(array), dtype=object)
        column[:] = array.to_pylist()
        return column
    if is_a.is_list(kind) or is_a.is_large_list(kind) or is_a.is_fixed_size_list(kind):
        try:
            return column_of_values(array.to_pylist(), where)
        except DataError as error:
            if ragged and not is_a.is_nested(kind.value_type) and not is_a.is_binary(kind.value_type):
                return objects(
                    [None if value is None else json.dumps(value, default=str) for value in array.to_pylist()]
                )
            logger.warning("%s; the column is left out", error)
            return None
    logger.warning("%s holds %s, which cannot be used; the column is left out", where, kind)
    return None


def _has_long_numbers(array: pa.ChunkedArray) -> bool:
    """Return whether there are whole numbers beyond those that all float64 tell apart."""
    extremes = pc.min_max(array)
    return any(abs(extremes[end].as_py() or 0) > 2**53 for end in ("min", "max"))


def plain_numbers(cells: Sequence[str], missing: Collection[str]) -> Column | None:
    """Return a column of plain numbers, converted at once; None where cells have to be looked at one by one.

    Args:
        cells: one text per row.
        missing: the texts that mean "no value".
    """
    texts = pc.utf8_trim_whitespace(pa.array(cells, pa.string()))
    known = pc.if_else(pc.is_in(texts, value_set=pa.array(sorted(missing))), None, texts)
    return None if pc.any(pc.match_substring_regex(known, _LIKE_CODE)).as_py() else numbers(known)


def numbers(texts: Any) -> Column | None:
    """Return the numbers that are spelled out, NaN for None; or None if a text is not one."""
    try:
        return _numbers(pa.array(texts, pa.string()).cast(pa.float64()))
    except pa.ArrowInvalid:
        return None


def _numbers(array: Any) -> Column:
    """Return a numeric Arrow array as a float64 column, nulls as NaN."""
    return np.array(array.to_numpy(zero_copy_only=False), dtype=np.float64)
