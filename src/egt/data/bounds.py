"""How much one file may hold: bounds that are kept while it is read, before anything is built from what it claims."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any

from egt.errors import ConfigError, DataError

_VARIABLE = "EGT_MAX_{}"
_WORDS = {
    "bytes": "bytes when it is unpacked",
    "line": "bytes in one line",
    "rows": "rows",
    "columns": "columns",
    "cells": "cells or elements of arrays",
}


class TooLarge(DataError):
    """A file that holds more than may be read."""


@dataclass(frozen=True)
class Bounds:
    """The most that is read from one file, or from one part of a file that is read part by part."""

    bytes: int = 4 << 30
    line: int = 64 << 20
    rows: int = 10_000_000
    columns: int = 200_000
    cells: int = 100_000_000
    advice: str = ""
    """What to do with more, where no variable allows it."""

    @classmethod
    def current(cls) -> Bounds:
        """Return the bounds of this thread (`bounded`), else those of the environment: EGT_MAX_ROWS and so on."""
        chosen: Any = {field.name: _chosen(field) for field in fields(cls) if field.name in _WORDS}
        return _CURRENT.get() or cls(**chosen)

    def check(self, name: str, number: int, where: object) -> None:
        """Raise a `TooLarge` if there are more than `name` (a field) allows."""
        if number > (most := getattr(self, name)):
            advice = self.advice or f"set {_VARIABLE.format(name.upper())} to read more"
            raise TooLarge(f"{where}: holds more than {most:,} {_WORDS[name]}; {advice}")

    def rows_of(self, columns: int) -> int:
        """Return how many rows of so many columns are allowed."""
        return min(self.rows, self.cells // max(columns, 1))


_CURRENT: ContextVar[Bounds | None] = ContextVar("bounds", default=None)


def _chosen(field: Any) -> int:
    variable = _VARIABLE.format(field.name.upper())
    text = os.environ.get(variable, "").replace("_", "")
    try:
        number = int(float(text)) if text else int(field.default)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{variable} is {text[:40]!r}; give a number such as 1e9") from error
    return number


@contextmanager
def bounded(bounds: Bounds) -> Iterator[None]:
    """Read all files under these bounds, in this thread."""
    token = _CURRENT.set(bounds)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def open_bytes(path: Path, *, whole: bool = True) -> Iterator[IO[bytes]]:
    """Open a plain or gzipped file, of which no more is unpacked than the bounds allow.

    Unless the `whole` file is kept, only its lines are bounded.
    """
    is_packed = path.suffix.lower() == ".gz"
    with (
        gzip.open(path, "rb") if is_packed else path.open("rb", buffering=0) as opened,
        io.BufferedReader(_Counted(opened, path, whole=whole), 1 << 17) as file,
    ):
        yield file


class _Counted(io.RawIOBase):
    """The bytes of a file, with a `TooLarge` behind the last one that is allowed."""

    def __init__(self, file: Any, path: Path, *, whole: bool) -> None:
        self._file, self._path, self._whole, self._bounds = file, path, whole, Bounds.current()
        self._total = self._line = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._total = self._line = 0
        return int(self._file.seek(offset, whence))

    def readinto(self, buffer: Any) -> int:
        count = int(self._file.readinto(buffer))
        part = bytes(buffer[:count])
        end = max(part.rfind(b"\n"), part.rfind(b"\r"))
        self._line = self._line + count if end < 0 else count - 1 - end
        self._total += count * self._whole
        self._bounds.check("bytes", self._total, self._path)
        self._bounds.check("line", self._line, self._path)
        return count


def check_tensors(content: Any, where: object) -> None:
    """Raise a `DataError` for tensors of a file, in lists and mappings, that claim more elements than the file holds.

    A stride of 0 shows one number as billions, and many tensors may show the same numbers.
    """
    bounds, total = Bounds.current(), 0
    seen = set[int]()
    waiting = [content]
    while waiting:
        thing = waiting.pop()
        if hasattr(thing, "untyped_storage"):
            total += thing.numel()
            bounds.check("cells", total, where)
            size = thing.numel() * thing.element_size()
            if str(thing.layout) == "torch.strided" and size > thing.untyped_storage().nbytes():
                raise DataError(f"{where}: holds a tensor that shows the same numbers again; save tensor.contiguous()")
        elif isinstance(thing, dict | list | tuple) and id(thing) not in seen:
            seen.add(id(thing))
            inner: Iterable[Any] = thing.values() if isinstance(thing, dict) else thing
            waiting += inner
