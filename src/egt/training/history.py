"""The metrics of every epoch as a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from egt.errors import RunError


def write_history(path: Path, rows: Sequence[Mapping[str, float]]) -> None:
    """Write all rows anew, at once or not at all: a resumed run has no row twice."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
        temporary.replace(path)
    except OSError as error:
        raise RunError(f"could not write {path}: {error.strerror}") from error
