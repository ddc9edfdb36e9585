"""Chunks that another process makes ahead of time are those that would be made later, and nothing is left of it."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from egt.data.encodings.encoding import Preparation
from egt.data.source import Source
from egt.data.store import Ahead
from egt.data.store.ahead import _Made
from egt.data.store.chunks import make_chunk, samples_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")


def wait_for(ahead: Ahead, number: int) -> None:
    """Return when so many chunks are made."""
    limit = time.monotonic() + 60
    while len(ahead.made()) < number:
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_chunks_are_those_of_the_records(source: Any, preparation: Preparation, toys: Any) -> None:
    records = source.records("train")
    with Ahead(source, preparation, records, 70, 9) as ahead:
        wait_for(ahead, 5)
        made = ahead.take()
        assert [*made] == [0, 1, 2, 3, 4]
        assert made.get(5) is None
        for number, chunk in made.items():
            expected = make_chunk(source, preparation, records[number * 70 : (number + 1) * 70])
            assert chunk.rows.tolist() == expected.rows.tolist()
            assert (chunk.num_records, chunk.problems) == (expected.num_records, expected.problems)
            pairs = zip(samples_of(chunk, preparation), samples_of(expected, preparation), strict=True)
            assert all(toys.same_sample(one, other) for one, other in pairs)


def test_no_more_are_made_than_asked_for(source: Any, preparation: Preparation) -> None:
    with Ahead(source, preparation, source.records("train"), 10, 2) as ahead:
        ahead._process.join()
        assert len(ahead.made()) == 2


def test_none_of_them_has_to_be_taken_before_the_next_is_made(source: Any, preparation: Preparation) -> None:
    """A pipe holds 64 KB: with one, the process would wait for this one after the first chunks."""
    with Ahead(source, preparation, source.records("train"), 10, 30) as ahead:
        ahead._process.join(60)
        assert os.fstat(ahead._memory).st_size > 2**16
        assert len(ahead.take()) == 30


@dataclass
class Failing:
    """A source of which a row cannot even be tried."""

    source: Any
    read_all = Source.read_all

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def read(self, record: Any) -> Any:
        if record == 20:
            raise ValueError("the file is gone")
        return self.source.read(record)


def test_a_failure_leaves_the_chunks_before_it_and_says_nothing(
    source: Any, preparation: Preparation, capfd: pytest.CaptureFixture[str]
) -> None:
    with Ahead(Failing(source), preparation, source.records("train"), 10, 9) as ahead:
        ahead._process.join()
        assert [*ahead.take()] == [0, 1]
    assert capfd.readouterr() == ("", "")


def test_process_and_memory_end_with_the_block(source: Any, preparation: Preparation) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with Ahead(source, preparation, source.records("train"), 10, 9) as ahead:
        process = ahead._process
    assert not process.is_alive()
    del ahead, process
    assert set(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("lost", [1, 5, 20])
def test_a_chunk_that_was_cut_off_is_not_there(
    source: Any, preparation: Preparation, tmp_path: Path, lost: int
) -> None:
    with Ahead(source, preparation, source.records("train"), 10, 3) as ahead:
        ahead._process.join()
        whole = os.pread(ahead._memory, os.fstat(ahead._memory).st_size, 0)
        ends = [start + length for length, start in _Made(ahead._memory).places]
    for end, left in ((ends[2] - lost, 2), (ends[1] + lost, 2), (ends[0] + lost, 1), (lost, 0)):
        (tmp_path / "cut").write_bytes(whole[:end])
        with (tmp_path / "cut").open("rb") as file:
            made = _Made(file.fileno())
            assert [chunk.num_records for chunk in made.values()] == [10] * left
