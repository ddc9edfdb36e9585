"""Files of users and machines: paths, YAML, folders of caches and data, results written whole, locks.

How much one file may hold is here too: bounds that are kept while it is read, before anything is built of it.

The build of a wheel imports this where nothing is installed: standard library only when it is loaded.
"""

from __future__ import annotations

import gzip
import io
import logging
import math
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any

from egt.errors import ConfigError, DataError, RunError

if sys.platform != "win32":
    import fcntl

log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.1  # how often a lock is tried that another process has


def exists(path: Path | str) -> bool:
    """Return whether there is a file or folder of this name; a text that can be no name, as a long SMILES, has none."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def check_no_file(folder: Path, option: str) -> None:
    """Raise a `ConfigError` if a folder to write to, which an option names, is a file."""
    if exists(folder) and not folder.is_dir():
        raise ConfigError(f"{folder}: is a file; results go to a folder, so choose another name ({option})")


def result_folder(folder: Path, mark: str) -> Path:
    """Return a folder for results, which is made if there is none; every folder with such results has the file `mark`.

    A `ConfigError` where it has files, and not this one: what is written could take their place.
    """
    check_no_file(folder, "-o")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_foreign = not exists(folder / mark) and any(folder.iterdir())
    except OSError as error:
        raise RunError(f"{folder}: cannot be written ({error.strerror}); choose another folder (-o)") from error
    if is_foreign:
        raise ConfigError(f"{folder}: holds other files, which could be overwritten; choose another folder (-o)")
    return folder


@contextmanager
def write_atomically(path: Path | str) -> Iterator[Path]:
    """Yield the path of a draft, which takes the place of a file when all is written; the old file stays until then.

    If the work fails, the draft is gone. Of a link, the file that it leads to is replaced; what can only be written
    to, as a pipe, is its own draft.
    """
    place = replaceable(path)
    if place is None:
        yield Path(path)
        return
    draft = place.with_name(f".{place.stem}.{os.getpid()}.partial{place.suffix}")
    try:
        begin_draft(draft, place)
        yield draft
        put_in_place(draft, place)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def write_result(path: Path | str) -> Iterator[Path]:
    """Yield the draft of a file that a user wants (`write_atomically`); its failure becomes a message."""
    try:
        with write_atomically(path) as draft:
            yield draft
    except OSError as error:
        reason = error.strerror or error
        raise RunError(f"{path}: cannot be written ({reason}); make room or choose another place (-o)") from error


def drafts_of(path: Path) -> list[Path]:
    """Return the drafts of `write_atomically` that killed processes left; the name of the file may be a pattern."""
    return [*path.parent.glob(f".{path.stem}.*.partial{path.suffix}")]


def replaceable(path: Path | str) -> Path | None:
    """Return the file to put a result in the place of, behind all links; None for pipes, devices and open files."""
    path = Path(path)
    if exists(path) and not path.is_file():
        return None
    folder = Path(os.path.realpath(path.parent))
    if folder == Path("/dev") or Path("/proc") in folder.parents:  # /dev/stdout, which may be a file, stays open
        return None
    return Path(os.path.realpath(path))


def begin_draft(draft: Path, place: Path) -> None:
    """Make an empty draft of a file, which may be read and written by those who may read and write the old one."""
    draft.open("wb").close()
    if place.exists():
        with place.open("r+b") as old, suppress(OSError):  # some file systems know no modes
            draft.chmod(stat.S_IMODE(os.fstat(old.fileno()).st_mode))


def put_in_place(draft: Path, place: Path) -> None:
    """Put a draft in the place of a file once the disk holds all of it, and wait until the disk knows the new name."""
    with draft.open("r+b") as file:
        os.fsync(file.fileno())
    os.replace(draft, place)
    with suppress(PermissionError):  # a folder that may be written but not read
        sync_folder(place.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the disk knows the names in a folder; elsewhere than on POSIX systems a folder cannot be opened."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def lock(path: Path, *, patience: float = math.inf, on_wait: Callable[[], object] | None = None) -> Iterator[bool]:
    """Hold the lock of a file while the context lasts, and yield True; False where the system knows no such locks.

    It keeps out other processes of this machine, and of others where the disk they share passes locks on. The operating
    system releases the lock of a process that is killed. The file is made, with its folder, and may be removed by the
    process that has the lock. After `patience` seconds with it a `TimeoutError` is raised; `on_wait` is called before.
    """
    if sys.platform == "win32":
        yield False
        return
    deadline = time.monotonic() + patience
    is_waiting = False
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:  # "a" empties nothing, should a link lie there
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_ours = _is_same_file(file.fileno(), path)  # else removed by the process that had it
            except BlockingIOError:
                is_ours = False
            except OSError as error:
                log.info("%s: cannot be locked (%s), continuing without a lock", path, error.strerror)
                yield False
                return
            if is_ours:
                try:
                    yield True
                finally:  # closing alone would not do: worker processes that were forked meanwhile have it open
                    fcntl.flock(file, fcntl.LOCK_UN)
                return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path}: another process has this lock")
        if on_wait is not None and not is_waiting:
            on_wait()
        is_waiting = True
        time.sleep(_RETRY_SECONDS)


def _is_same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def user_folder(variable: str, *default: str) -> Path:
    """Return the folder that an environment variable names, else that of the `default` parts in the home folder."""
    try:
        return Path(os.environ.get(variable) or str(Path("~", *default))).expanduser()
    except RuntimeError as error:
        raise DataError(
            f"this user has no home folder to keep files in ({error}); set {variable} to a folder that can be written"
        ) from error


def strict_json(value: Any) -> Any:
    """Return a value as strict JSON has it: null in the place of a number that is not finite."""
    if isinstance(value, Mapping):
        return {key: strict_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [strict_json(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def parse_yaml(text: str, where: str) -> Any:
    """Return the content of a YAML text of any origin; `where` begins the message if it is none or grows too large."""
    import yaml

    try:
        content = yaml.safe_load(text)
        size = _size(content, {}, set())
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: not valid YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ConfigError(f"{where}: not valid YAML: nested too deeply") from error
    except Exception as error:  # PyYAML lets those of dates, numbers and tags through, of any kind
        raise ConfigError(f"{where}: not valid YAML: {' '.join(str(error).split())[:200]}; quote texts") from error
    if size > _LARGEST_YAML:
        raise ConfigError(f"{where}: holds more than {_LARGEST_YAML:,} values; write it without so many aliases")
    return content


def _size(content: Any, known: dict[int, int], above: set[int]) -> int:
    """Return how many values there are, those of an alias counted wherever it stands.

    `known` are the sizes of lists and mappings by their identity, `above` those that this one is inside of.
    """
    if not isinstance(content, dict | list):
        return 1
    if id(content) in above:
        raise ValueError("an alias stands inside of what it names")
    if id(content) not in known:
        inner = content.values() if isinstance(content, dict) else content
        known[id(content)] = 1 + sum(_size(value, known, above | {id(content)}) for value in inner)
    return known[id(content)]


_LARGEST_YAML = 1_000_000

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
