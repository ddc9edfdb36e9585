"""An interrupted build goes on where it was and ends in the same bits; in memory they are the same without a file."""

from __future__ import annotations

import resource
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from egt.data.encodings.encoding import Preparation
from egt.data.preparing import Prepared, compute_in_workers, prepare_in_memory
from egt.data.source import Source
from egt.data.store import prepare
from egt.errors import DataError


@dataclass
class Counting:
    """A source that counts what is read, and stops at a row as if it were killed there."""

    source: Any
    stops_at: int | None = None
    read_rows: list[int] = field(default_factory=list)

    read_all = Source.read_all

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def read(self, record: Any) -> Any:
        if record == self.stops_at:
            raise KeyboardInterrupt
        self.read_rows.append(record)
        return self.source.read(record)


def test_slow_chunks_are_not_made_twice(
    source: Any, preparation: Preparation, tmp_path: Path, toys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egt.data.preparing._WORTH_KEEPING", 0.0)
    interrupted = Counting(source, stops_at=150)
    with pytest.raises(KeyboardInterrupt):
        prepare(interrupted, "train", preparation, cache_dir=tmp_path / "a", num_workers=1)
    assert len(list((tmp_path / "a").glob(".*.parts/*.npz"))) == 2  # rows 0..127
    second = Counting(source)
    resumed = prepare(second, "train", preparation, cache_dir=tmp_path / "a", num_workers=1)
    assert second.read_rows == list(range(128, 300))
    whole = prepare(source, "train", preparation, cache_dir=tmp_path / "b", num_workers=2)
    assert toys.folder_bytes(resumed.path) == toys.folder_bytes(whole.path)
    assert [problem.row for problem in resumed.problems] == [5, 7, 11]
    assert not list((tmp_path / "a").glob(".*.parts"))


def test_a_damaged_part_is_made_again(
    source: Any, preparation: Preparation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egt.data.preparing._WORTH_KEEPING", 0.0)
    with pytest.raises(KeyboardInterrupt):
        prepare(Counting(source, stops_at=70), "train", preparation, cache_dir=tmp_path, num_workers=1)
    (part,) = tmp_path.glob(".*.parts/*.npz")
    part.write_bytes(part.read_bytes()[:200])
    second = Counting(source)
    assert len(prepare(second, "train", preparation, cache_dir=tmp_path, num_workers=1)) == 298
    assert second.read_rows == list(range(300))


def test_quick_chunks_leave_no_files(source: Any, preparation: Preparation, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        prepare(Counting(source, stops_at=150), "train", preparation, cache_dir=tmp_path, num_workers=1)
    assert not list(tmp_path.glob(".*.parts"))


@pytest.mark.parametrize("num_workers", [1, 2])
@pytest.mark.parametrize("limit", [100, 5_000, 9_000])
def test_a_disk_that_fills_within_a_part_is_a_clear_error(
    source: Any, preparation: Preparation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_workers: int, limit: int
) -> None:
    monkeypatch.setattr("egt.data.preparing._WORTH_KEEPING", 0.0)

    def build_with_small_files(answer: Any) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            prepare(source, "train", preparation, cache_dir=tmp_path, num_workers=num_workers)
        except DataError as error:
            answer.send(str(error))

    receiver, sender = get_context("fork").Pipe()
    builder = get_context("fork").Process(target=build_with_small_files, args=(sender,))
    builder.start()
    builder.join()
    assert builder.exitcode == 0
    assert receiver.poll()
    assert receiver.recv().startswith(f"{tmp_path}: prepared graphs cannot be written there (File too large); ")
    assert not list(tmp_path.glob("*.building"))


@pytest.mark.parametrize("num_workers", [1, 2])
def test_in_memory_equals_the_store_and_writes_nothing(
    num_workers: int, source: Any, preparation: Preparation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toys: Any
) -> None:
    store = prepare(source, "train", preparation, cache_dir=tmp_path / "cache", num_workers=1)
    monkeypatch.setenv("EGT_CACHE_DIR", str(tmp_path / "none"))
    told: list[tuple[str, int, int | None]] = []
    parts = list(
        prepare_in_memory(
            source,
            "train",
            preparation,
            num_workers=num_workers,
            progress=lambda *call: told.append(call),
            at_once=128,
        )
    )
    assert [part.num_records for part in parts] == [128, 128, 44]
    assert told[-1] == ("preparing", 300, 300)
    samples = [sample for part in parts for sample in part.samples]
    assert [row for part in parts for row in part.rows] == store.rows.tolist()
    assert [problem for part in parts for problem in part.problems] == store.problems
    for sample, kept in zip(samples, store, strict=True):
        assert toys.same_sample(sample, kept)
    assert not (tmp_path / "none").exists()


def test_results_of_workers_come_in_order_and_hold_every_record(
    source: Any, preparation: Preparation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egt.data.preparing.num_processors", lambda: 2)

    def said(part: Prepared) -> tuple[int, list[int], list[int], int]:
        edges = sum(sample.graph.num_edges for sample in part.samples)
        return edges, part.rows, [problem.row for problem in part.problems], part.num_records

    found = list(compute_in_workers(source, "train", preparation, said, at_once=70))
    assert [records for *_, records in found] == [70, 70, 70, 70, 20]
    [*parts] = prepare_in_memory(source, "train", preparation, num_workers=1)
    assert [row for _, rows, _, _ in found for row in rows] == [row for part in parts for row in part.rows]
    assert [row for _, _, rows, _ in found for row in rows] == [5, 7, 11]
    samples = [sample for part in parts for sample in part.samples]
    assert sum(edges for edges, *_ in found) == sum(sample.graph.num_edges for sample in samples)


def test_an_error_in_a_worker_is_raised_here(
    source: Any, preparation: Preparation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egt.data.preparing.num_processors", lambda: 2)

    def refuse(part: Prepared) -> None:
        raise DataError(f"{part.num_records} records are refused")

    with pytest.raises(DataError, match="records"):
        list(compute_in_workers(source, "train", preparation, refuse, at_once=70))
