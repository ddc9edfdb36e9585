"""Numbers as files: a table is columns by name, kept as CSV and as Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from egt.errors import RunError

Columns = Mapping[str, Sequence[Any]]


def write_columns(folder: Path, name: str, columns: Columns) -> list[Path]:
    """Write a table as NAME.csv and NAME.parquet; returns the files."""
    import pyarrow
    from pyarrow import csv, parquet

    table = pyarrow.table({key: list(values) for key, values in columns.items()})
    files = [folder / f"{name}.csv", folder / f"{name}.parquet"]
    try:
        csv.write_csv(table, files[0])
        parquet.write_table(table, files[1])
    except OSError as error:
        raise RunError(f"{folder}: cannot be written ({error}); choose another folder (-o)") from error
    return files
