"""Workers make the same samples in memory as for a store, and a full disk is an error in words."""

from __future__ import annotations

import resource
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from egt.data.encodings.encoding import Preparation
from egt.data.preparing import Prepared, compute_in_workers, prepare_in_memory
from egt.data.store import prepare
from egt.errors import DataError


@pytest.mark.parametrize("num_workers", [1, 2])
@pytest.mark.parametrize("limit", [100, 5_000, 9_000])
def test_a_disk_that_fills_within_a_part_is_a_clear_error(
    source: Any, preparation: Preparation, tmp_path: Path, num_workers: int, limit: int
) -> None:
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
