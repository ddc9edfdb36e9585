"""A file of molecules of any length to one of predictions: read, computed and written part by part.

Rows of a text are added to OUTPUT.partial, which takes the place of the output when it has all of them: whatever
happens, the output is the old file or the whole result. Beside it lies a small file, its `Record`: what the rows come
from, and how many of them are known to be right. It is written after the rows it vouches for, so that a run that is
killed at any moment leaves both in a state from which a later one can go on. A Parquet file is written in one go.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from egt.data.formats.tables import LIST_SUFFIXES, SDF_SUFFIXES, TABLE_SUFFIXES
from egt.data.source import Progress
from egt.errors import DataError, RunError
from egt.files import begin_draft, exists, put_in_place, replaceable, write_atomically
from egt.inference.artifact import file_sha256
from egt.inference.predictions import Predictions

if TYPE_CHECKING:
    from egt.inference.predictor import Options, Predictor

DELIMITERS = {"": ",", ".csv": ",", ".tsv": "\t"}  # suffixes of outputs that grow, with what stands between two cells
_BLOCK = 1 << 20
_AGAIN = "predict without --resume to begin again, or choose another file (-o)"


@dataclass
class Written:
    """What was written: rows, how many of them with an error or a warning; and how many rows were there before."""

    before: int = 0
    rows: int = 0
    errors: int = 0
    warnings: int = 0

    def add(self, part: Predictions) -> None:
        """Count the rows of a part."""
        self.rows += len(part)
        self.errors += part.num_errors
        self.warnings += part.num_warnings


@dataclass(frozen=True)
class Record:
    """What the rows of an output come from (checksums of artifact and table, options), and how many there are.

    `size` and `sha256` are those of the bytes written so far.
    """

    model: str
    input: str
    options: dict[str, Any]
    rows: int = 0
    size: int = 0
    sha256: str = ""

    def check_same(self, found: Record, where: Path | str, instead: str) -> None:
        """Raise a `DataError` if the rows of an output, with the record that was found, come from something else.

        `where` begins the message, `instead` ends it with what to do.
        """
        other = ["another model"] if found.model != self.model else []
        other += ["another input (or it has changed since)"] if found.input != self.input else []
        names = [name for name in self.options if found.options.get(name) != self.options[name]]
        other += [f"other options ({', '.join(names)})"] if names else []
        if other:
            raise DataError(f"{where}: holds results of {' and '.join(other)}; {instead}")


STREAMED = (*TABLE_SUFFIXES, *SDF_SUFFIXES, *LIST_SUFFIXES)
"""Suffixes of files of molecules that are predicted part by part."""


def is_streamed(data: Any) -> bool:
    """Return whether this is the path of a file that is predicted part by part."""
    if not isinstance(data, str | Path) or not exists(data):
        return False
    return Path(data).is_file() and str(data).lower().endswith(STREAMED)


def find_streamed(inputs: Sequence[str], output: Path | None, *, resume: bool = False) -> Path | None:
    """Return the file to predict part by part, with `predict_to_file`; None for what is predicted in memory.

    The only rule is that a single file of molecules goes to a file that rows can be added to. A `DataError` where
    something else is to be resumed.
    """
    kinds = DELIMITERS if resume else (*DELIMITERS, ".parquet")
    grows = output is not None and output.suffix in kinds and replaceable(output) is not None
    if len(inputs) == 1 and grows and is_streamed(inputs[0]):
        return Path(inputs[0])
    if resume:
        tables = ", ".join(STREAMED)
        raise DataError(f"--resume needs one table ({tables}) as input and a .csv or .tsv file as output (-o)")
    return None


def predict_to_file(
    model: Predictor,
    path: Path,
    output: Path,
    *,
    resume: bool = False,
    watch: Progress | None = None,
    **options: Unpack[Options],
) -> Written:
    """Write the predictions for a file of molecules; of several processes the first one writes.

    Args:
        model: that predicts one row per molecule.
        path: the file.
        output: the .csv, .tsv or .parquet file; it is written when all rows are there.
        resume: go on after the rows that the output has already, and leave its record for the next time.
        watch: receives the progress of the work.
        options: other arguments of `Predictor.predict`.

    Raises:
        DataError: the output holds something else than the first predictions.
        RunError: it cannot be written.
    """
    if resume and model.task.level != "graph":
        raise DataError(
            f"{output}: --resume counts rows, one per molecule, but this model writes one per {model.task.level}; "
            "predict without it"
        )
    if output.suffix == ".parquet":
        with write_atomically(output) if not model.processes.rank else nullcontext(output) as draft:
            return predict_at_once(model, path, draft, watch=watch, **options)
    every: Options = {"keep": (), "interval": None, "dropout_samples": 0, **options}
    growing = _Growing(output, record_of(model, every, file_sha256(path)))
    if resume:
        growing.resume()
    written = Written(growing.record.rows)
    for part in model.predict_blocks(path, skip=written.before, **options):
        if not model.processes.rank:
            growing.append(part)
        written.add(part)
        if watch is not None:
            watch("predicting", written.before + written.rows, None)
    if not model.processes.rank:
        growing.finish(keep_record=resume)
    return written


def predict_at_once(
    model: Predictor, path: Path, output: Path, *, watch: Progress | None = None, **options: Unpack[Options]
) -> Written:
    """Write the predictions for a file of molecules block by block; what is there if it fails is of no use.

    Arguments as for `predict_to_file`.
    """
    written = Written()
    with ExitStack() as opened:
        append: Callable[[Predictions], None] | None = None
        for part in model.predict_blocks(path, **options):
            if not model.processes.rank:
                append = append or opened.enter_context(_open_writer(output, part))
                append(part)
            written.add(part)
            if watch is not None:
                watch("predicting", written.rows, None)
    return written


@contextmanager
def _open_writer(output: Path, first: Predictions) -> Iterator[Callable[[Predictions], None]]:
    """Yield what adds predictions to a new file; all have the columns of the first ones."""
    if output.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        empty = first.to_arrow().slice(0, 0)
        with pq.ParquetWriter(output, empty.schema) as writer:
            yield lambda part: writer.write_table(
                pa.concat_tables([empty, part.to_arrow()], promote_options="default").select(empty.column_names)
            )
        return
    with output.open("w", newline="", encoding="utf-8") as file:
        yield lambda part: part.to_csv(file, header=part is first, delimiter=DELIMITERS[output.suffix])


def record_of(model: Predictor, options: Mapping[str, Any], checksum: str = "") -> Record:
    """Return the record of an output without rows. checksum: that of the input."""
    reading = {
        "calibrated": model.temperatures is not None,
        "unlike": model.novelty is not None,
        "overrides": dict(model.overrides or {}),
    }
    return Record(model.artifact.checksum, checksum, json.loads(json.dumps({**options, **reading})))


class _Growing:
    """An output to which rows are added; `path` is the file that has them until all of them are there."""

    def __init__(self, output: Path, record: Record) -> None:
        self.output, self.record = output, record
        self._place = replaceable(output) or output
        self.path = self._place.with_name(f"{self._place.name}.partial")
        self._record_path = self._place.with_name(f"{self._place.name}.resume")
        self._sha256 = hashlib.sha256()

    def resume(self) -> None:
        """Go on behind the rows that are there, after checking that they are the same predictions, and unchanged."""
        there = self.path if self.path.exists() else self._place
        if not there.exists():
            return
        found = self._read_record(there)
        self.record.check_same(found, there, _AGAIN)
        with there.open("rb") as file:
            while block := file.read(min(_BLOCK, found.size - file.tell())):
                self._sha256.update(block)
        if found.size and self._sha256.hexdigest() != found.sha256:
            raise DataError(f"{there}: has been changed since it was written; {_AGAIN}")
        self.record = found

    def append(self, part: Predictions) -> None:
        """Write a part behind the rows that are recorded, and record it."""
        record = self.record
        text = io.StringIO()
        part.to_csv(text, header=not record.size, delimiter=DELIMITERS[self.output.suffix])
        content = text.getvalue().encode()
        if not content:  # nothing is left to do
            return
        self._sha256.update(content)
        try:
            if not record.size:
                self._write_record()
                begin_draft(self.path, self._place)
            elif not self.path.exists():  # versions before this file had another name added rows to the output itself
                os.replace(self._place, self.path)
            with self.path.open("r+b") as file:
                file.seek(record.size)
                file.truncate()
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            size = record.size + len(content)
            self.record = replace(record, rows=record.rows + len(part), size=size, sha256=self._sha256.hexdigest())
            self._write_record()
        except OSError as error:
            raise RunError(
                f"{self.path}: cannot be written ({error.strerror}); make room and go on with --resume"
            ) from error

    def finish(self, *, keep_record: bool) -> None:
        """Put all rows in the place of the output; its record goes, unless the same may be asked for again."""
        try:
            if self.path.exists():
                put_in_place(self.path, self._place)
            if not keep_record:
                self._record_path.unlink(missing_ok=True)
        except OSError as error:
            raise RunError(
                f"{self.output}: cannot be written ({error.strerror}); all rows are in {self.path}"
            ) from error

    def _read_record(self, there: Path) -> Record:
        place = self._record_path
        try:
            return Record(**json.loads(place.read_text(encoding="utf-8")))
        except FileNotFoundError as error:
            raise DataError(
                f"{there}: nothing tells which model and input its rows come from: there is no {place.name}, as "
                f"beside an output that is finished or not of this command; {_AGAIN}"
            ) from error
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{place}: cannot be read ({error}); {_AGAIN}") from error

    def _write_record(self) -> None:
        """Write the record in one go: there is the former one, or this one."""
        with write_atomically(self._record_path) as draft:
            draft.write_text(json.dumps(asdict(self.record)), encoding="utf-8")
