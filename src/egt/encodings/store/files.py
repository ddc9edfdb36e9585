"""The files of a store: flat `.npy` arrays that grow while being written, and a JSON index that vouches for them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.errors import DataError

Array = NDArray[Any]
INDEX = "index.json"


class GrowingArray:
    """A `.npy` file whose first axis grows with every `append`; numpy leaves room in the header for the final length.

    Args:
        path: the file to create.
        dtype: type of the entries.
        row_shape: shape of one row.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], row_shape: tuple[int, ...] = ()) -> None:
        self.dtype, self.row_shape, self.length = dtype, row_shape, 0
        self._file = open(path, "wb", buffering=1 << 20)  # noqa: SIM115 (open from the first to the last chunk)
        self._write_header()
        self._begin = self._file.tell()

    def append(self, rows: Array) -> None:
        """Write more rows (n, *row_shape)."""
        self._file.write(np.ascontiguousarray(rows, dtype=self.dtype).data.cast("B") if rows.size else b"")
        self.length += len(rows)

    def finish(self) -> None:
        """Write the final length and wait until the disk has everything."""
        self._file.seek(0)
        self._write_header()
        assert self._file.tell() == self._begin, "the header grew into the data"
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def close(self) -> None:
        """Close the file; without `finish` it is of no use."""
        with suppress(OSError):  # closing tries again to write what could not be written, which was reported then
            self._file.close()

    def _write_header(self) -> None:
        descr = np.lib.format.dtype_to_descr(self.dtype)
        header = {"shape": (self.length, *self.row_shape), "fortran_order": False, "descr": descr}
        np.lib.format.write_array_header_1_0(self._file, header)


def map_array(path: Path) -> Array:
    """A `.npy` file as a plain read-only array that lives in the page cache, not in this process."""
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def write_index(folder: Path, content: Mapping[str, Any]) -> None:
    """Write the index with the size and checksum of every array, and its own checksum, to the disk."""
    files = {path.name: describe(path) for path in sorted(folder.glob("*.npy"))}
    full = {**content, "files": files}
    with open(folder / INDEX, "w") as file:
        json.dump({"sha256": _checksum(full), "content": full}, file, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder)


def read_index(folder: Path) -> dict[str, Any]:
    """The content of a store's index, after a check of its own checksum and of the size of every file."""
    try:
        index = json.loads((folder / INDEX).read_text())
        content: dict[str, Any] = index["content"]
        intact = index["sha256"] == _checksum(content)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}: not a store of prepared graphs ({error}); delete the folder") from error
    if not intact:
        raise DataError(f"{folder}: {INDEX} was changed after it was written; delete the folder")
    for name, expected in content["files"].items():
        path = folder / name
        size = path.stat().st_size if path.exists() else None
        if size != expected["bytes"]:
            found = "is missing" if size is None else f"has {size} bytes"
            raise DataError(f"{path}: {found}, but {expected['bytes']} bytes were written; delete the folder")
    return content


def describe(path: Path) -> dict[str, Any]:
    """Size and checksum of a file."""
    with open(path, "rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


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
def writing_in(folder: Path) -> Iterator[None]:
    """Turn an error of the file system into one that says what to do about it."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{folder}: prepared graphs cannot be written there ({error.strerror or error}); "
            "make it writable, free some space, or set EGT_CACHE_DIR to another folder"
        ) from error


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
