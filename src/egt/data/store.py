"""Prepared graphs on disk: built once by several processes, then memory-mapped.

A store is a folder named after its content, so the same content is found again: flat `.npy` arrays,
and a JSON index with their checksums. `prepare` reads every record of a split and writes its chunks as they come.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.encodings.encoding import Preparation, Sample
from egt.data.preparing import (
    FORMAT_VERSION,
    GRAPH_FIELDS,
    LATER_FIELDS,
    PROCESS_LIMITS,
    Array,
    Chunk,
    ChunkPart,
    Workers,
    check_width,
    chunk_workers,
    field_names,
    in_parts,
    plain_problems,
    put_together,
    stored_settings,
    with_computed,
    writing_in,
)
from egt.data.source import OnDemand, Progress, Reading, Source
from egt.errors import DataError
from egt.files import lock, sync_folder, user_folder, write_atomically

INDEX = "index.json"
log = logging.getLogger(__name__)


class GrowingArray:
    """A `.npy` file whose first axis grows with each `append`; numpy leaves room in the header for the final length."""

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


class StoreWriter:
    """Appends chunks to the arrays of an empty folder, with a column of `offsets` per field, in constant memory."""

    def __init__(self, folder: Path, fields: tuple[str, ...]) -> None:
        self.folder = folder
        self._arrays: dict[str, GrowingArray] = {}
        self._without_rows: dict[str, Array] = {}
        self._problems: list[Reading] = []
        self._end = np.zeros((1, len(fields)), np.int64)
        self._create("num_nodes", np.zeros(0, np.int64))
        self._create("rows", np.zeros(0, np.int64))
        self._create("present", np.zeros(0, np.uint8))
        self._create("offsets", self._end)

    def append(self, chunk: Chunk) -> None:
        """Write the graphs of a chunk behind those that are there."""
        offsets = self._end + np.cumsum(chunk.lengths, axis=0)
        self._end = offsets[-1:] if len(offsets) else self._end
        for name in ("num_nodes", "rows", "present"):
            self._arrays[name].append(getattr(chunk, name))
        self._arrays["offsets"].append(offsets)
        for name, rows in chunk.data.items():
            if name in self._arrays and len(rows):
                check_width(name, self._arrays[name].row_shape, rows.shape[1:])
                self._arrays[name].append(rows)
            elif name not in self._arrays and len(rows):
                self._create(name, rows)
            else:
                self._without_rows[name] = rows
        self._problems.extend(chunk.problems)

    def finish(self, about: dict[str, Any]) -> None:
        """Bring everything to the disk and write the index, which makes the folder a store."""
        for name, rows in self._without_rows.items():
            if name not in self._arrays:
                self._create(name, rows)
        for array in self._arrays.values():
            array.finish()
        write_index(self.folder, {**about, "problems": plain_problems(self._problems)})

    def close(self) -> None:
        """Close all files, finished or not."""
        for array in self._arrays.values():
            array.close()

    def _create(self, name: str, rows: Array) -> None:
        self._arrays[name] = GrowingArray(self.folder / f"{name}.npy", rows.dtype, rows.shape[1:])
        self._arrays[name].append(rows)


def map_array(path: Path) -> Array:
    """Return a `.npy` file as a plain read-only array that lives in the page cache, not in this process."""
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except OSError as error:
        if error.errno in PROCESS_LIMITS:
            raise
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    except Exception as error:  # numpy reads the header as Python: any error may come of a damaged one
        raise DataError(f"{path}: is damaged ({type(error).__name__}); delete the folder") from error


def write_index(folder: Path, content: Mapping[str, Any]) -> None:
    """Write the index with the size and checksum of every array, and its own checksum, to the disk."""
    files = {path.name: describe(path) for path in sorted(folder.glob("*.npy"))}
    full = {**content, "files": files}
    with write_atomically(folder / INDEX) as draft:
        draft.write_text(json.dumps({"sha256": _checksum(full), "content": full}, sort_keys=True))


def read_index(folder: Path) -> dict[str, Any]:
    """Return the content of a store's index, after a check of its own checksum and of the size of every file."""
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


def verify(folder: Path) -> None:
    """Read every file of a store and raise a `DataError` that names those whose content is not what was written."""
    expected = read_index(folder)["files"]
    damaged = [name for name in expected if describe(folder / name) != expected[name]]
    if damaged:
        raise DataError(
            f"{folder}: {', '.join(damaged)} changed after being written (checksum differs); "
            "delete the folder, it will be prepared again"
        )


def verify_if_changed(folder: Path) -> None:
    """Verify a store unless the file system says that no file has changed since that was last done.

    Reading gigabytes at each start would take longer than opening them; asking for their times does not.
    """
    # Size, inode, and times change with each write to a file; the last of them cannot be set.
    stats = {path.name: path.stat() for path in sorted(folder.iterdir())}
    found = {name: [it.st_size, it.st_ino, it.st_mtime_ns, it.st_ctime_ns] for name, it in stats.items()}
    stamp = folder.with_name(f".{folder.name}.verified")
    try:
        known = json.loads(stamp.read_text())
    except (OSError, ValueError):
        known = None
    if known == found:
        return
    verify(folder)
    # A store beside which nothing can be written is verified at each start.
    with suppress(OSError), write_atomically(stamp) as draft:
        draft.write_text(json.dumps(found))


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class Store(OnDemand[Sample]):
    """The samples of a folder written by `prepare`, in the order of the source.

    Arrays of a sample are read-only views of the files; encodings that are not stored are computed on access.
    A pickled store is only its path: it opens the files again where it is unpickled.

    Attributes:
        sizes: (graphs,) number of nodes of each graph.
        rows: (graphs,) row of the source that each graph came from.
    """

    def __init__(self, path: Path, preparation: Preparation) -> None:
        self.path, self.preparation = path, preparation
        self._index = read_index(path)
        self._stored = [encoding for encoding in preparation.encodings if encoding.stored]
        if self._index["preparation"] != stored_settings(preparation):
            raise DataError(
                f"{path}: was prepared with {self._index['preparation']}, not with {stored_settings(preparation)}; "
                "let `prepare` find the folder that fits"
            )
        self.sizes: NDArray[np.int64] = map_array(path / "num_nodes.npy")
        self.rows: NDArray[np.int64] = map_array(path / "rows.npy")
        self._present: NDArray[np.uint8] = map_array(path / "present.npy")
        self._offsets: NDArray[np.int64] = map_array(path / "offsets.npy")
        self._fields: list[tuple[int, str, NDArray[Any]]] = [
            (column, name, map_array(path / f"{name}.npy"))
            for column, name in enumerate(field_names(preparation))
            if f"{name}.npy" in self._index["files"]
        ]

    @property
    def problems(self) -> list[Reading]:
        """The rows with an error, which have no graph here, or a warning, which have one; without their graphs."""
        return [Reading(**problem) for problem in self._index["problems"]]

    @property
    def fingerprint(self) -> str:
        """A hash of the graphs and their targets; of no encodings, whose last digits differ between machines."""
        files = self._index["files"]
        names = ["num_nodes", "rows", *GRAPH_FIELDS, *(name for name in LATER_FIELDS if f"{name}.npy" in files)]
        content = [files.get(f"{name}.npy", {}).get("sha256") for name in names]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def __len__(self) -> int:
        return len(self.sizes)

    def item(self, index: int) -> Sample:
        """Return the sample of a graph."""
        starts, ends = self._offsets[index : index + 2].tolist()
        rows = {name: data[starts[column] : ends[column]] for column, name, data in self._fields}
        sample = put_together(int(self.sizes[index]), int(self._present[index]), rows, self._stored)
        return with_computed(sample, self.preparation)

    def __reduce__(self) -> tuple[type[Store], tuple[Path, Preparation]]:
        return Store, (self.path, self.preparation)


def prepare(
    source: Source,
    split: str,
    preparation: Preparation,
    *,
    cache_dir: Path | str | None = None,
    num_workers: int | None = None,
    progress: Progress | None = None,
) -> Store:
    """Return the prepared graphs of a split: opened if they are on disk, else built and kept there.

    The folder is keyed by the content of the source, the schema and the settings of the stored encodings. It appears
    at once when complete, so it may be built by several processes at a time and a builder may be killed at any moment;
    what took it long (descriptors, tours, superpixels) is then not computed again.

    Stores are in `cache_dir`; default `EGT_CACHE_DIR`, else `~/.cache/egt`. There is one process per processor, or
    `num_workers`; 0 or 1 start none besides this one. The files are the same, bit for bit.
    """
    splits = prepare_splits(
        source, [split], preparation, cache_dir=cache_dir, num_workers=num_workers, progress=progress
    )
    return splits[split]


def prepare_splits(
    source: Source,
    splits: Sequence[str],
    preparation: Preparation,
    *,
    cache_dir: Path | str | None = None,
    num_workers: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Store]:
    """Return the prepared graphs of several splits, as `prepare` gives each.

    One set of worker processes serves all of them.
    """
    folder = cache_folder(cache_dir)
    paths = {split: folder / store_name(source, split, preparation) for split in splits}
    with chunk_workers(source, preparation, num_workers) as workers:
        for split, path in paths.items():
            if _missing(path, preparation) is not None:
                _write(path, source, split, preparation, workers, progress)
    return {split: Store(path, preparation) for split, path in paths.items()}


def _missing(path: Path, preparation: Preparation) -> str | None:
    """Return what an intact store lacks: None for nothing, "" if there is none, else how it is damaged."""
    if not path.exists():
        return ""
    try:
        verify_if_changed(path)
        Store(path, preparation)
    except DataError as damage:
        return str(damage)
    return None


def _write(
    path: Path,
    source: Source,
    split: str,
    preparation: Preparation,
    workers: Workers[ChunkPart, Chunk],
    progress: Progress | None,
) -> None:
    """Write the graphs of a split, unless another process has made the store meanwhile."""
    with ExitStack() as held:
        with writing_in(path.parent):
            held.enter_context(sole_builder(path))
        missing = _missing(path, preparation)
        if missing is None:  # made by another process, while this one waited for the lock
            return
        if missing:
            log.warning("%s: these graphs are prepared again", missing)
        with writing_in(path.parent):
            if path.exists():
                shutil.rmtree(path.rename(_beside(path)))  # it stops being visible at once
            building = _beside(path)
            building.mkdir()
            held.callback(shutil.rmtree, building, ignore_errors=True)
            writer = held.enter_context(closing(StoreWriter(building, field_names(preparation))))
        records = source.records(split)
        num_done = 0
        kept = path.with_name(f".{path.name}.parts")
        with closing(workers.results(*in_parts(records, kept))) as chunks:
            for chunk in chunks:
                with writing_in(path.parent):
                    writer.append(chunk)
                num_done += chunk.num_records
                if progress is not None:
                    progress(f"preparing {split}", num_done, len(records))
        about = {
            "format": FORMAT_VERSION,
            "source": source.card.name,
            "split": split,
            "preparation": stored_settings(preparation),
            "num_records": len(records),
        }
        with writing_in(path.parent):
            writer.finish(about)
            publish(building, path)
            shutil.rmtree(kept, ignore_errors=True)


def cache_folder(given: Path | str | None) -> Path:
    """Return the folder of all stores: the given one, else `EGT_CACHE_DIR`, else `~/.cache/egt`."""
    return Path(given).expanduser() if given else user_folder("EGT_CACHE_DIR", ".cache", "egt")


def store_name(source: Source, split: str, preparation: Preparation) -> str:
    """Return the folder name of a store: readable words, and a hash of everything that decides its content."""
    content = {
        "format": FORMAT_VERSION,
        "source": source.fingerprint(),
        "split": split,
        "preparation": stored_settings(preparation),
    }
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    words = re.sub(r"[^A-Za-z0-9_.]+", "-", f"{source.card.name}-{split}").strip("-.")
    return f"{words[:80]}-{key[:32]}"


@contextmanager
def sole_builder(path: Path) -> Iterator[None]:
    """Hold the lock of one store, which only saves double work: stores stay valid where there are no locks."""

    def say_so() -> None:
        log.info("%s: another process is preparing these graphs, waiting for it", path)

    with lock(path.with_name(f".{path.name}.lock"), on_wait=say_so) as is_alone:
        if is_alone:
            for leftover in path.parent.glob(f".{path.name}.*.building"):
                shutil.rmtree(leftover)
        yield


def _beside(path: Path) -> Path:
    """Return the name of a new folder beside the final one, so that moving it there is one step."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.building")


def publish(built: Path, path: Path) -> None:
    """Move a finished folder into place at once; if another builder was first, keep theirs."""
    try:
        built.rename(path)
    except OSError:
        if not path.is_dir():
            raise
        shutil.rmtree(built)
    sync_folder(path.parent)
