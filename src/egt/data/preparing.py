"""Records of a source -> samples with their encodings, in this process or in several.

`prepare_in_memory` gives what is read once; `compute_in_workers` gives what a function makes of it in the workers;
`egt.data.store` keeps it on disk. A worker hands over a `Chunk`: consecutive records as flat arrays, the rows of all
graphs one after another. `data[f][offsets[k, f] : offsets[k + 1, f]]` holds field f of graph k. Rows are nodes, edges
or targets, as the shape of the field says; an edge index (2, E) lies there as 2 E numbers, and a pair encoding
(N, N, ...) as N^2 rows, or as those of the listed pairs alone.

Chunks that took long to make are kept in files until their store is complete, so a killed build continues.
"""

from __future__ import annotations

import dataclasses
import errno
import gc
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import zipfile
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from egt.data.encodings.encoding import Encoding, Listed, Preparation, Sample
from egt.data.source import Progress, Reading, Source
from egt.errors import ConfigError, DataError, RunError
from egt.files import write_atomically
from egt.graph import Graph
from egt.native.library import library
from egt.processors import num_processors
from egt.registry import Section

Array = NDArray[Any]

FORMAT_VERSION: Final = 1  # part of every key: raise it when the layout or the numbers of a stored encoding change
GRAPH_FIELDS: Final = (
    *("id", "edge_index", "node_categories", "node_values", "edge_categories", "edge_values"),
    *("edge_weight", "graph_targets", "node_targets", "edge_targets", "query_index"),
)

LATER_FIELDS: Final = {
    "graph_values": "num_graph_values",
    "pair_categories": "pair_categories",
    "pair_values": "num_pair_values",
    "positions": "positions",
    "known_labels": "known_labels",
}
"""Features that only some graphs have, and what their schema calls them; where there are none, stores do not name them
(earlier ones could not)."""

OPTIONAL: Final = ("edge_weight", "graph_targets", "node_targets", "edge_targets", "query_index")
"""Fields that may be None; bit k of a graph's `present` byte says whether the k-th is there."""

PROCESS_LIMITS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # errors of the process, and not of a file or folder
_NO_VALUES = np.zeros(0, np.float32)

_OF_PAIRS: Final = {"pair_categories", "pair_values"}


def field_names(preparation: Preparation) -> tuple[str, ...]:
    """List the columns of `offsets`: the fields of a graph, then its encodings as `node.svd` or `pair.distance`."""
    encoded = (f"{encoding.level}.{encoding.name}" for encoding in preparation.encodings if encoding.stored)
    later = (name for name, key in LATER_FIELDS.items() if getattr(preparation.schema, key))
    return (*GRAPH_FIELDS, *later, *encoded)


def stored_settings(preparation: Preparation) -> dict[str, Any]:
    """Everything about a preparation that decides what is stored, as plain JSON values."""
    encodings = [_settings(encoding) for encoding in preparation.encodings if encoding.stored]
    schema = dataclasses.asdict(preparation.schema)
    for key in LATER_FIELDS.values():
        if not schema[key]:
            del schema[key]
    settings = {"schema": schema, "encodings": encodings}
    plain: dict[str, Any] = json.loads(json.dumps(settings, default=Section.model_dump))
    return plain


def _settings(encoding: Encoding) -> dict[str, Any]:
    kind: type[Any] = type(encoding)
    if not dataclasses.is_dataclass(kind):
        raise ConfigError(
            f"encoding {encoding.name!r}: {kind.__name__} must be a dataclass, whose fields are its settings"
        )
    fields = {field.name: getattr(encoding, field.name) for field in dataclasses.fields(kind)}
    if isinstance(encoding, Listed):
        fields = {"encoding": _settings(encoding.encoding)}
    return {"kind": f"{kind.__module__}.{kind.__qualname__}", **fields}


def take_apart(sample: Sample) -> dict[str, Array]:
    """Return the rows of each field of a sample that is not None."""
    graph = sample.graph
    fields: dict[str, Array] = {name: getattr(graph, name) for name in (*GRAPH_FIELDS, *LATER_FIELDS)}
    fields["id"] = np.frombuffer(graph.id.encode(), np.uint8)
    fields["edge_index"] = graph.edge_index.reshape(-1)
    if graph.query_index is not None:
        fields["query_index"] = graph.query_index.reshape(-1)
    for name in _OF_PAIRS:
        if fields[name] is not None:
            fields[name] = fields[name].reshape(graph.num_nodes**2, -1)
    for name, array in sample.node.items():
        fields[f"node.{name}"] = array
    for name, array in sample.pair.items():
        fields[f"pair.{name}"] = array.reshape(graph.num_nodes**2, *array.shape[2:])
    for name, array in sample.listed.items():
        fields[f"listed.{name}"] = array
    return {name: array for name, array in fields.items() if array is not None}


def put_together(num_nodes: int, present: int, rows: dict[str, Any], stored: Sequence[Encoding]) -> Sample:
    """Return the opposite of `take_apart`; turns the rows of each field into a sample of views."""
    encoded: dict[str, dict[str, Array]] = {"node": {}, "pair": {}, "listed": {}}
    for encoding in stored:
        array = rows.pop(f"{encoding.level}.{encoding.name}")
        if encoding.level == "pair":
            array = array.reshape(num_nodes, num_nodes, *array.shape[1:])
        encoded[encoding.level][encoding.name] = array
    for bit, name in enumerate(OPTIONAL):
        if not present >> bit & 1:
            rows[name] = None
    rows.setdefault("graph_values", _NO_VALUES)
    for name in _OF_PAIRS & rows.keys():
        rows[name] = rows[name].reshape(num_nodes, num_nodes, -1)
    rows["id"] = rows["id"].tobytes().decode()
    rows["edge_index"] = rows["edge_index"].reshape(2, -1)
    if rows["query_index"] is not None:
        rows["query_index"] = rows["query_index"].reshape(2, -1)
    return Sample(Graph.trusted(num_nodes=num_nodes, **rows), **encoded)


@dataclass(frozen=True)
class Chunk:
    """The graphs of some records in the layout of the store, and the records that have none."""

    num_records: int
    num_nodes: NDArray[np.int64]  # (graphs,)
    rows: NDArray[np.int64]  # (graphs,) the row of the source that each graph came from
    present: NDArray[np.uint8]  # (graphs,) which of the `OPTIONAL` fields each graph has, as bits
    lengths: NDArray[np.int64]  # (graphs, fields) number of rows of each field of each graph
    data: Mapping[str, Array]  # the rows of each field that any of the graphs has, one graph after another
    problems: Sequence[Reading]  # with an error or a warning, without their graphs


@dataclass(frozen=True, eq=False)
class Prepared:
    """Some consecutive records of a split, prepared in memory."""

    samples: list[Sample]
    rows: list[int]  # the row of the source that each sample came from
    problems: list[Reading]  # with an error or a warning, without their graphs
    num_records: int


def prepare_records(source: Source, preparation: Preparation, records: Sequence[Any]) -> Prepared:
    """Read the records and compute the encodings of their graphs."""
    readings = source.read_all(records)
    found = iter(preparation.each([reading.graph for reading in readings if reading.graph is not None]))
    prepared = Prepared([], [], [], len(records))
    for reading in readings:
        if reading.graph is not None:
            sample = next(found)
            if isinstance(sample, Sample):
                prepared.samples.append(sample)
                prepared.rows.append(reading.row)
            else:
                reading = replace(reading, error=str(sample))
        if reading.error or reading.warning:
            prepared.problems.append(replace(reading, graph=None))
    return prepared


def make_chunk(source: Source, preparation: Preparation, records: Sequence[Any]) -> Chunk:
    """Read the records and compute the stored encodings of their graphs."""
    fields = field_names(preparation)
    stored = Preparation(preparation.schema, [encoding for encoding in preparation.encodings if encoding.stored])
    prepared = prepare_records(source, stored, records)
    samples = [take_apart(sample) for sample in prepared.samples]
    present = [sum(1 << bit for bit, name in enumerate(OPTIONAL) if name in sample) for sample in samples]
    return Chunk(
        num_records=len(records),
        num_nodes=np.array([sample.graph.num_nodes for sample in prepared.samples], np.int64),
        rows=np.array(prepared.rows, np.int64),
        present=np.array(present, np.uint8),
        lengths=np.array(
            [[len(sample[name]) if name in sample else 0 for name in fields] for sample in samples], np.int64
        ).reshape(len(samples), len(fields)),
        data={name: join_rows(name, samples) for name in fields if any(name in sample for sample in samples)},
        problems=prepared.problems,
    )


def join_rows(name: str, samples: Sequence[Mapping[str, Array]]) -> Array:
    """Join the rows of one field, graph after graph. Graphs without rows (no edges) do not count for the width."""
    arrays = [sample[name] for sample in samples if name in sample]
    with_rows = [array for array in arrays if len(array)]
    for array in with_rows[1:]:
        check_width(name, with_rows[0].shape[1:], array.shape[1:])
    return np.concatenate(with_rows) if with_rows else arrays[0]


def plain_problems(problems: Sequence[Reading]) -> list[dict[str, Any]]:
    """Return readings without their graphs as JSON values."""
    return [{"row": each.row, "id": each.id, "warning": each.warning, "error": each.error} for each in problems]


def check_width(name: str, one: tuple[int, ...], other: tuple[int, ...]) -> None:
    """Raise a `DataError` unless the rows of two graphs have the same shape."""
    if one != other:
        raise DataError(
            f"{name}: rows of shape {one} in one graph and {other} in another; "
            "every graph of a data set needs the same number of columns"
        )


def samples_of(chunk: Chunk, preparation: Preparation) -> list[Sample]:
    """Return the samples of a chunk, with all encodings of the preparation."""
    fields = field_names(preparation)
    ends = np.cumsum(chunk.lengths, axis=0)
    starts = ends - chunk.lengths
    stored = [encoding for encoding in preparation.encodings if encoding.stored]
    samples = []
    for k, (begin, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        rows = {name: chunk.data[name][begin[c] : end[c]] for c, name in enumerate(fields) if name in chunk.data}
        sample = put_together(int(chunk.num_nodes[k]), int(chunk.present[k]), rows, stored)
        samples.append(with_computed(sample, preparation))
    return samples


def with_computed(sample: Sample, preparation: Preparation) -> Sample:
    """Return the sample with the encodings that are not stored."""
    for encoding in preparation.encodings:
        if not encoding.stored:
            sample = sample.with_encoding(encoding)
    return sample


@contextmanager
def writing_in(folder: Path) -> Iterator[None]:
    """Turn an error of the file system into one that says what to do about it."""
    try:
        yield
    except OSError as error:
        if error.errno in PROCESS_LIMITS:
            raise
        raise DataError(
            f"{folder}: prepared graphs cannot be written there ({error.strerror or error}); "
            "make it writable, free some space, or set EGT_CACHE_DIR to another folder"
        ) from error


Part = TypeVar("Part")
Result = TypeVar("Result")

_MOST = 16  # processes that compute: each needs memory of its own
CHUNK_RECORDS = 64

CHUNKS_AT_ONCE = 32  # how many chunks are in memory at once where no store is written: about two thousand records
CHUNKS_AHEAD = 3
"""How many chunks per worker may be in the making or waiting to be written: it bounds the memory. Where no store is
written, as many as are taken at once: workers go on while a model computes."""


class Workers(Generic[Part, Result]):
    """The processes that compute a function of parts. They start when they are first needed and serve all splits.

    There is one per processor, or `num_workers`; 0 or 1 start none besides this one. At least `ahead` results may be in
    the making.
    """

    def __init__(self, work: Callable[[Part], Result], num_workers: int | None, ahead: int = 0) -> None:
        self.work, self.ahead = work, ahead
        self.num_workers = num_processors() if num_workers is None else num_workers
        self._pool: ProcessPoolExecutor | None = None
        self._pool_size = 0

    def __enter__(self) -> Workers[Part, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def results(self, parts: Iterable[Part], count: int) -> Generator[Result]:
        """Yield the results of so many parts, in order; the same numbers for every number of workers."""
        if min(self.num_workers, count) > 1:
            yield from self.in_workers(parts, count)
            return
        libraries = _blas_libraries()
        for part in parts:
            with libraries.limit(limits=1):
                result = self.work(part)
            yield result

    def in_workers(self, parts: Iterable[Part], count: int) -> Generator[Result]:
        """Yield the results, none of which is computed by this process."""
        num_workers = min(self.num_workers, count)
        pool = self._pool_of(num_workers)
        pending: deque[Future[Result]] = deque()
        try:
            for part in parts:
                pending.append(pool.submit(_work, part))
                if len(pending) >= max(CHUNKS_AHEAD * num_workers, self.ahead):
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            raise RunError(
                "preparing graphs: a worker process was ended from outside, most often for lack of memory; "
                "try fewer workers (num_workers=1)"
            ) from error
        finally:
            for result in pending:
                result.cancel()

    def _pool_of(self, num_workers: int) -> ProcessPoolExecutor:
        """Return the running processes if there are enough of them, else new ones."""
        if self._pool is None or self._pool_size < num_workers:
            self.__exit__()
            library()  # a forked worker has it from the start
            # A forked worker starts at once and needs no importable main module; but only on Linux fork is safe.
            context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
            self._pool = ProcessPoolExecutor(num_workers, context, _start, (self.work,))
            self._pool_size = num_workers
        return self._pool


def chunk_workers(
    source: Source, preparation: Preparation, num_workers: int | None, ahead: int = 0
) -> Workers[ChunkPart, Chunk]:
    """Return the processes that make the chunks of a source."""
    return Workers(partial(_find_chunk, source, preparation), num_workers, ahead)


def prepare_in_memory(
    source: Source,
    split: str,
    preparation: Preparation,
    *,
    num_workers: int | None = None,
    progress: Progress | None = None,
    at_once: int = CHUNKS_AT_ONCE * CHUNK_RECORDS,
) -> Iterator[Prepared]:
    """Yield the prepared graphs of a split, `at_once` records at a time; no file is written.

    Arguments as in `prepare`; the stage that `progress` receives is "preparing".
    """
    records = source.records(split)
    num_done = 0
    workers = chunk_workers(source, preparation, num_workers, ahead=CHUNKS_AT_ONCE)
    with workers, closing(workers.results(*in_parts(records))) as chunks:
        while group := list(islice(chunks, max(at_once // CHUNK_RECORDS, 1))):
            num_done += sum(chunk.num_records for chunk in group)
            if progress is not None:
                progress("preparing", num_done, len(records))
            yield Prepared(
                samples=[sample for chunk in group for sample in samples_of(chunk, preparation)],
                rows=[row for chunk in group for row in chunk.rows.tolist()],
                problems=[problem for chunk in group for problem in chunk.problems],
                num_records=sum(chunk.num_records for chunk in group),
            )


def compute_in_workers(
    source: Source,
    split: str,
    preparation: Preparation,
    function: Callable[[Prepared], Result],
    *,
    at_once: int,
) -> Iterator[Result]:
    """Yield what a function makes of the prepared graphs of a split, part by part, in order.

    Both happen in worker processes, one per processor, at most 16. They are forked, so that the function and all that
    it needs is there from the start. It must not start threads.

    A part has `at_once` records. The function returns whatever can be sent from one process to another.
    """
    records = source.records(split)

    def compute(number: int) -> Result:
        """In a worker, which has the records: they need not be sent to it."""
        part = [records[k] for k in range(number * at_once, min((number + 1) * at_once, len(records)))]
        return function(prepare_records(source, preparation, part))

    count = -(-len(records) // at_once)
    with (
        Workers(compute, min(num_processors(), _MOST)) as workers,
        closing(workers.in_workers(range(count), count)) as results,
    ):
        yield from results


class ChunkPart(NamedTuple):
    """The records of a chunk, and the file that keeps it until its store is complete; None where there is no store."""

    records: list[Any]
    file: Path | None


def in_parts(records: Sequence[Any], folder: Path | None = None) -> tuple[Iterator[ChunkPart], int]:
    """Return the records of each chunk with its file in a folder, and how many chunks there are."""
    starts = range(0, len(records), CHUNK_RECORDS)
    parts = (
        ChunkPart(
            [records[k] for k in range(start, min(start + CHUNK_RECORDS, len(records)))],
            None if folder is None else folder / f"{number:08d}.npz",
        )
        for number, start in enumerate(starts)
    )
    return parts, len(starts)


_WORTH_KEEPING = 0.25  # seconds; chunks that are made faster are not worth a file


def _find_chunk(source: Source, preparation: Preparation, part: ChunkPart) -> Chunk:
    """Read a chunk from its file, or make it."""
    if part.file is None:
        return make_chunk(source, preparation, part.records)
    found = _read_chunk(part.file)
    if found is not None and found.num_records == len(part.records):
        return found
    start = time.monotonic()
    chunk = make_chunk(source, preparation, part.records)
    if time.monotonic() - start > _WORTH_KEEPING:
        with writing_in(part.file.parent.parent):
            _write_chunk(part.file, chunk)
    return chunk


_ARRAYS = ("num_nodes", "rows", "present", "lengths")


def _write_chunk(file: Path, chunk: Chunk) -> None:
    about = {"num_records": chunk.num_records, "problems": plain_problems(chunk.problems)}
    file.parent.mkdir(exist_ok=True)
    arrays: dict[str, Any] = {
        "about": np.frombuffer(json.dumps(about).encode(), np.uint8),
        **{name: getattr(chunk, name) for name in _ARRAYS},
        **{f"data.{name}": array for name, array in chunk.data.items()},
    }
    with write_atomically(file) as draft:
        np.savez(draft, **arrays)


def _read_chunk(file: Path) -> Chunk | None:
    try:
        with np.load(file, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        about = json.loads(arrays["about"].tobytes())
        return Chunk(
            num_records=about["num_records"],
            **{name: arrays[name] for name in _ARRAYS},
            data={name.removeprefix("data."): array for name, array in arrays.items() if name.startswith("data.")},
            problems=[Reading(**problem) for problem in about["problems"]],
        )
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None  # none there, or damaged: it is made again


_OBJECTS = 100_000
"""How many new objects a worker makes before it looks for garbage: graphs are many objects, and hardly ever garbage."""

_function: Callable[[Any], Any]  # in a worker process: what it computes


def _start(function: Callable[[Any], Any]) -> None:
    global _function
    _function = function
    start_worker()


def _work(part: Any) -> Any:
    return _function(part)


def start_worker() -> None:
    """Make of a new process one that computes for its parent: with one thread, and never without it."""
    gc.freeze()  # what the parent has loaded stays: looking through it for garbage would only take time and memory
    gc.set_threshold(_OBJECTS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not with the handler that a forked worker has from its parent
    end_with_parent()
    _blas_libraries().limit(limits=1)


def end_with_parent() -> None:
    """Let a worker end when its parent was killed: it would wait forever for more work, and keep its locks."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel

    def end() -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def _blas_libraries() -> Any:
    """Find libraries to limit to one thread: matrices are small, workers fill the processors, digits must not vary."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
