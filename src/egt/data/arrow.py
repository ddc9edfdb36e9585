"""What Arrow reads for tables: Parquet files, data frames, and texts that are plain numbers."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from egt.data.columns import Column, Table, check_header, column_of_values, objects
from egt.errors import DataError
from egt.files import Bounds

_BUFFER = 2**20
_LIKE_CODE = r"^[+-]?0\d|\d{16}"  # what every code has (`tables.columns_of_texts`), and few numbers
logger = logging.getLogger(__name__)


def table_of_frame(frame: Any) -> Table:
    """Return the columns of a data frame; the index of a pandas frame is none of them."""
    is_pandas = type(frame).__module__.split(".")[0] == "pandas"
    if is_pandas:  # the others have no name twice
        check_header([str(name) for name in frame.columns], "frame")
    try:
        return _table(pa.Table.from_pandas(frame, preserve_index=False) if is_pandas else pa.table(frame), "frame")
    except (pa.ArrowException, TypeError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"frame: a column mixes kinds of values ({reason}); give each column one type") from error


def parquet_blocks(path: Path, size: int = sys.maxsize) -> Iterator[Table]:
    """Yield the rows of a Parquet file, `size` at a time, or all at once; at least one block, which may have no rows.

    Of a file that is read in blocks, pages of one row group are in memory. Texts stay words and numbers of words until
    their length is known.
    """
    bounds, whole = Bounds.current(), size == sys.maxsize
    try:
        with pq.ParquetFile(path) as file:
            facts, leaves = file.metadata, [file.schema.column(c) for c in range(file.metadata.num_columns)]
        _check_size(facts, leaves, path, whole=whole)
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        with pq.ParquetFile(path, read_dictionary=texts, buffer_size=_BUFFER, pre_buffer=False) as file:
            rows, num_bytes = file.schema_arrow.empty_table(), 0
            for batch in file.iter_batches(min(size, 2**31)):  # which ends with its row group
                num_bytes = sum(map(_text_bytes, batch.columns)) + (num_bytes if whole else 0)
                bounds.check("bytes", num_bytes, path)
                rows = pa.concat_tables([rows, pa.Table.from_batches([batch])])
                while rows.num_rows >= size:
                    yield _table(rows.slice(0, size), str(path))
                    rows = rows.slice(size)
            if rows.num_rows or not facts.num_rows:
                yield _table(rows, str(path))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a Parquet file that can be read: {error}") from error


def _check_size(facts: Any, leaves: Sequence[Any], path: Path, *, whole: bool) -> None:
    """Compare what a file says of its size with the bounds: of all of it, or of each row group."""
    bounds, groups = Bounds.current(), [facts.row_group(k) for k in range(facts.num_row_groups)]
    bounds.check("columns", facts.num_columns, path)
    if whole:
        bounds.check("rows", facts.num_rows, path)
    # In blocks the number of rows bounds the cells, except where one row may have all elements.
    counted = [c for c, leaf in enumerate(leaves) if whole or leaf.max_repetition_level]
    for part in [groups] if whole else [[group] for group in groups]:
        bounds.check("bytes", sum(group.total_byte_size for group in part), path)
        bounds.check("cells", sum(group.column(c).num_values for group in part for c in counted), path)


def _text_bytes(array: Any) -> int:
    """Return how many bytes the texts of an Arrow array have if each cell has its own."""
    if pa.types.is_nested(array.type):
        return _text_bytes(array.flatten()) if hasattr(array, "values") else 0  # others are left out
    if not pa.types.is_dictionary(array.type):
        return 0
    lengths = pc.take(pc.binary_length(array.dictionary).cast(pa.int64()), array.indices)
    return pc.sum(lengths).as_py() or 0


def _table(table: Any, where: str) -> Table:
    check_header(table.column_names, where)
    columns = {name: _column(table[name], f"{where}: column {name!r}") for name in table.column_names}
    return Table({name: column for name, column in columns.items() if column is not None}, table.num_rows, {})


def _column(array: Any, where: str) -> Column | None:
    """Return a column, or None for a type that cannot be one (images, nested records): such columns are left out."""
    kind, is_a = array.type, pa.types
    if is_a.is_dictionary(kind):
        return _column(array.cast(kind.value_type), where)
    if is_a.is_null(kind):
        return np.full(len(array), np.nan)
    if is_a.is_integer(kind) and _has_long_numbers(array):
        return _column(array.cast(pa.string()), where)  # names of many digits
    if is_a.is_boolean(kind) or is_a.is_integer(kind) or is_a.is_floating(kind) or is_a.is_decimal(kind):
        return _numbers(array.cast(pa.float64(), safe=False))
    if is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind):
        return objects(array.to_pylist())
    if is_a.is_list(kind) or is_a.is_large_list(kind) or is_a.is_fixed_size_list(kind):
        values = array.to_pylist()
        try:
            return column_of_values(values, where)
        except DataError:
            if not is_a.is_nested(kind.value_type) and not is_a.is_binary(kind.value_type):
                return objects([None if value is None else json.dumps(value, default=str) for value in values])
    if is_a.is_temporal(kind):
        try:
            return _column(array.cast(pa.string()), where)
        except pa.ArrowException:  # durations and intervals are not spelled out
            pass
    logger.warning("%s holds %s, which cannot be used; the column is left out", where, kind)
    return None


def _has_long_numbers(array: Any) -> bool:
    """Return whether there are whole numbers beyond those that all float64 tell apart."""
    extremes = pc.min_max(array)
    return any(abs(extremes[end].as_py() or 0) > 2**53 for end in ("min", "max"))


def plain_numbers(cells: Sequence[str], missing: Collection[str]) -> Column | None:
    """Return a column of plain numbers, converted at once; None where cells have to be looked at one by one."""
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
