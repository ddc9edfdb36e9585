"""Numbers as files: a table is columns by name, kept as CSV and as Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from egt.errors import RunError
from egt.files import write_atomically

Columns = Mapping[str, Sequence[Any]]


def write_columns(folder: Path, name: str, columns: Columns) -> list[Path]:
    """Write a table as NAME.csv and NAME.parquet; returns the files."""
    import pyarrow
    from pyarrow import csv, parquet

    table = pyarrow.table({key: list(values) for key, values in columns.items()})
    files = [folder / f"{name}.csv", folder / f"{name}.parquet"]
    try:
        with write_atomically(files[0]) as draft:
            csv.write_csv(table, draft)
        with write_atomically(files[1]) as draft:
            parquet.write_table(table, draft)
    except OSError as error:
        raise RunError(f"{folder}: cannot be written ({error}); choose another folder (-o)") from error
    return files
