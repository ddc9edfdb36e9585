"""Chunks of a source that another process makes while this one is too busy even to receive them.

They wait in memory that both have. A pipe is full after a fraction of a chunk, and whoever writes into it waits for a
reader; one that loads a large library cannot read.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from egt.data.encodings.encoding import Preparation
from egt.data.source import Source
from egt.data.store.chunks import Chunk, make_chunk
from egt.data.store.workers import Part, parts_of, start_worker
from egt.native.library import library

_LENGTH = 8
"""Bytes in front of each chunk that say how long it is."""


class Ahead:
    """The chunks of some records, in order, as far as a process of its own has come with them. Only on Linux.

    Used as `with Ahead(source, preparation, records, at_once, most) as ahead: ... ahead.take()`.

    Args:
        source: what the records belong to.
        preparation: what is computed for each graph.
        records: to prepare.
        at_once: how many of them are a chunk.
        most: chunks that are made.
    """

    def __init__(
        self, source: Source, preparation: Preparation, records: Sequence[Any], at_once: int, most: int
    ) -> None:
        self._job = source, preparation, islice(parts_of(records, at_once), most)

    def __enter__(self) -> Ahead:
        assert sys.platform == "linux"
        library()  # the forked process has it from the start
        self._memory = os.memfd_create("egt")
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=_make, args=(self._memory, *self._job), daemon=True)
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        os.close(self._memory)

    def made(self) -> Mapping[int, Chunk]:
        """Return the chunks that there are by now, by their numbers. They can be read until the exit."""
        return _Made(self._memory)

    def take(self) -> Mapping[int, Chunk]:
        """End the process, and return the chunks that it has made."""
        self._end()
        return self.made()

    def _end(self) -> None:
        self._process.kill()  # the chunk it is at is lost; waiting for it would take as long as making it again
        self._process.join()


class _Made(Mapping[int, Chunk]):
    """Chunks that are read when they are asked for, by whichever process asks.

    Args:
        memory: the file that holds them, each behind its length; the last one may be cut off.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.places: list[tuple[int, int]] = []
        start, end = _LENGTH, os.fstat(memory).st_size
        while start <= end:
            length = int.from_bytes(os.pread(memory, _LENGTH, start - _LENGTH), sys.byteorder)
            if start + length > end:
                break
            self.places.append((length, start))
            start += length + _LENGTH

    def __getitem__(self, number: int) -> Chunk:
        if not 0 <= number < len(self.places):
            raise KeyError(number)
        chunk: Chunk = pickle.loads(os.pread(self.memory, *self.places[number]))
        return chunk

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.places)))

    def __len__(self) -> int:
        return len(self.places)


def _make(memory: int, source: Source, preparation: Preparation, parts: Iterable[Part]) -> None:
    """In the other process: make one chunk after another."""
    start_worker()
    # What fails here fails again for whoever needs the chunk, and is told then.
    with suppress(Exception), os.fdopen(memory, "wb", closefd=False) as file:
        for _, records in parts:
            made = pickle.dumps(make_chunk(source, preparation, records), pickle.HIGHEST_PROTOCOL)
            file.write(len(made).to_bytes(_LENGTH, sys.byteorder))
            file.write(made)
            file.flush()
