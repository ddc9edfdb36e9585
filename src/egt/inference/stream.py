"""A file of any length to a file of predictions: read, computed and written part by part.

What is written is whole rows, so that a run that was stopped leaves a valid file, and a later one can go on behind it.
"""

from __future__ import annotations

import csv
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from egt.errors import DataError, RunError
from egt.inference.predictions import Predictions
from egt.sources.source import Progress

if TYPE_CHECKING:
    from egt.inference.predictor import Asked, Predictor


@dataclass
class Written:
    """What was written: rows, how many of them with an error or a warning; and how many rows were there before."""

    before: int
    rows: int = 0
    errors: int = 0
    warnings: int = 0


def predict_to_file(
    model: Predictor,
    path: Path,
    output: Path,
    *,
    resume: bool = False,
    watch: Progress | None = None,
    **asked: Unpack[Asked],
) -> Written:
    """Write the predictions for a text file of molecules; of several processes the first one writes.

    Args:
        model: that predicts one row per molecule.
        path: the table.
        output: the CSV file.
        resume: go on after the rows that the output has already.
        watch: is told how far the work is.
        asked: other arguments of `Predictor.predict`.

    Raises:
        DataError: the output holds something else than the first predictions.
        RunError: it cannot be written.
    """
    if resume and model.task.level != "graph":
        raise DataError(
            f"{output}: --resume counts rows, one per molecule, but this model writes one per {model.task.level}; "
            "predict without it"
        )
    end, before, header = complete_rows(output) if resume and output.exists() else (0, 0, [])
    written = Written(before)
    for part in model.predict_blocks(path, skip=before, **asked):
        if header and header != part.columns:
            raise DataError(f"{output}: has the columns {', '.join(header)}, not {', '.join(part.columns)}; remove it")
        if not model.processes.rank:
            end = _append(part, output, end, header=not header)
        header = part.columns
        written.rows += len(part)
        written.errors += part.num_errors
        written.warnings += part.num_warnings
        if watch is not None:
            watch("predicting", before + written.rows, None)
    return written


def complete_rows(path: Path) -> tuple[int, int, list[str]]:
    """Return where the last complete row of a CSV file ends, how many there are below the header, and the header."""
    position = end = count = quotes = 0
    header = b""
    with path.open("rb") as file:
        for line in file:
            position += len(line)
            quotes += line.count(b'"')
            if count == 0:
                header += line
            if quotes % 2 == 0 and line.endswith(b"\n"):  # else a cell goes on in the next line
                end, count = position, count + 1
    names = next(csv.reader(io.StringIO(header.decode("utf-8", "replace"))), []) if count else []
    return end, max(count - 1, 0), names


def _append(part: Predictions, output: Path, end: int, *, header: bool) -> int:
    """Write a part behind the first `end` bytes, and tell where it ends."""
    text = io.StringIO()
    part.to_csv(text, header=header)
    content = text.getvalue().encode()
    try:
        with output.open("r+b" if end else "wb") as file:
            file.seek(end)
            file.truncate()
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise RunError(f"{output}: cannot be written ({error.strerror}); make room and go on with --resume") from error
    return end + len(content)
