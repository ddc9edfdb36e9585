from __future__ import annotations

import dataclasses
import errno
import logging
import multiprocessing
import os
import resource
import signal
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from egt.data.encodings.encoding import Preparation
from egt.data.preparing import chunk_workers, in_parts
from egt.data.source import Reading, Source
from egt.data.store import prepare, prepare_splits, sole_builder, verify
from egt.errors import DataError, RunError
from egt.graph import FeatureSchema, Graph

fork = multiprocessing.get_context("fork")


def wait_until(true: Any, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def test_second_call_opens_what_the_first_built(source: Any, preparation: Preparation, tmp_path: Path) -> None:
    calls: list[tuple[str, int, int | None]] = []
    prepare(source, "train", preparation, cache_dir=tmp_path, num_workers=1, progress=lambda *c: calls.append(c))
    assert calls == [("preparing train", done, 300) for done in (64, 128, 192, 256, 300)]
    broken = dataclasses.replace(source)
    object.__setattr__(broken, "records", None)
    assert len(prepare(broken, "train", preparation, cache_dir=tmp_path)) == 298


def test_parallel_equals_serial_bit_for_bit(source: Any, preparation: Preparation, tmp_path: Path, toys: Any) -> None:
    many = dataclasses.replace(source, num_rows=1000)  # more chunks than may wait to be written
    serial = prepare(many, "train", preparation, cache_dir=tmp_path / "one", num_workers=0)
    parallel = prepare(many, "train", preparation, cache_dir=tmp_path / "two", num_workers=2)
    assert parallel.rows[-1] == 999
    assert toys.folder_bytes(serial.path) == toys.folder_bytes(parallel.path)


class Halves:
    """Two splits of a source."""

    read_all = Source.read_all

    def __init__(self, source: Any) -> None:
        self.whole = source
        self.card, self.fingerprint, self.read = source.card, source.fingerprint, source.read

    def records(self, split: str) -> Any:
        return self.whole.records("train")[split == "second" :: 2]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_splits_together_are_what_each_alone_is(
    source: Any, preparation: Preparation, tmp_path: Path, toys: Any, num_workers: int
) -> None:
    halves = Halves(dataclasses.replace(source, num_rows=700))
    prepare(halves, "second", preparation, cache_dir=tmp_path / "alone", num_workers=1)
    calls: list[tuple[str, int, int | None]] = []
    together = prepare_splits(
        halves,
        ["first", "second"],
        preparation,
        cache_dir=tmp_path / "together",
        num_workers=num_workers,
        progress=lambda *call: calls.append(call),
    )
    assert calls[5:7] == [("preparing first", 350, 350), ("preparing second", 64, 350)]
    for split, store in together.items():
        alone = prepare(halves, split, preparation, cache_dir=tmp_path / "alone", num_workers=1)
        assert toys.folder_bytes(alone.path) == toys.folder_bytes(store.path)
    assert {path.suffix for path in (tmp_path / "together").glob(".*")} == {".lock"}


def test_one_set_of_workers_serves_all_splits(source: Any, preparation: Preparation, tmp_path: Path) -> None:
    class Signed(type(source)):  # type: ignore[misc]
        def read(self, record: Any) -> Reading:
            time.sleep(0.001)  # so that no worker is left without work
            return Reading(record, str(os.getpid()), error="only to tell who read it")

    halves = Halves(Signed(num_rows=700))
    stores = prepare_splits(halves, ["first", "second"], preparation, cache_dir=tmp_path, num_workers=2)
    readers = {split: {problem.id for problem in store.problems} for split, store in stores.items()}
    assert len(readers["first"]) == 2
    assert readers["first"] == readers["second"]


def test_a_split_that_cannot_be_finished_is_an_error_and_the_others_stay(
    source: Any, preparation: Preparation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def full_at_second(handle: int) -> None:
        if any(tmp_path.glob(".*-second-*.building")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr(os, "fsync", full_at_second)
    with pytest.raises(DataError, match="No space left on device"):
        prepare_splits(Halves(source), ["first", "second"], preparation, cache_dir=tmp_path, num_workers=1)
    [left] = [path for path in tmp_path.iterdir() if not path.name.startswith(".")]
    assert "-first-" in left.name
    verify(left)


def test_the_lock_of_a_finished_split_is_free_while_the_workers_live(
    source: Any, preparation: Preparation, tmp_path: Path
) -> None:
    import fcntl

    with chunk_workers(source, preparation, 2) as workers:
        with sole_builder(tmp_path / "store"):
            next(workers.results(*in_parts(source.records("train"))))
        with open(tmp_path / ".store.lock") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_cache_folder_from_the_environment(
    source: Any, preparation: Preparation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EGT_CACHE_DIR", str(tmp_path / "cache"))
    assert prepare(source, "train", preparation, num_workers=1).path.parent == tmp_path / "cache"


def test_killed_build_leaves_nothing_that_opens_and_blocks_nobody(
    source: Any, preparation: Preparation, tmp_path: Path, toys: Any
) -> None:
    slow = dataclasses.replace(source, seconds_per_row=0.01)
    builder = fork.Process(
        target=prepare, args=(slow, "train", preparation), kwargs={"cache_dir": tmp_path, "num_workers": 2}
    )
    builder.start()
    wait_until(lambda: any(tmp_path.glob(".*.building/edge_index.npy")))
    assert builder.pid is not None
    os.kill(builder.pid, signal.SIGKILL)
    builder.join()
    assert not [path for path in tmp_path.iterdir() if not path.name.startswith(".")]

    rebuilt = prepare(source, "train", preparation, cache_dir=tmp_path, num_workers=2)
    verify(rebuilt.path)
    reference = prepare(source, "train", preparation, cache_dir=tmp_path / "reference", num_workers=1)
    assert toys.folder_bytes(rebuilt.path) == toys.folder_bytes(reference.path)
    assert not list(tmp_path.glob("*.building"))


@pytest.mark.parametrize("locks", [True, False])
def test_racing_builders_make_one_valid_store(
    source: Any, preparation: Preparation, tmp_path: Path, locks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not locks:
        monkeypatch.setattr("egt.data.store.lock", lambda path, on_wait: nullcontext(False))
    slow = dataclasses.replace(source, seconds_per_row=0.001)
    arguments = {"cache_dir": tmp_path, "num_workers": 1}
    builders = [fork.Process(target=prepare, args=(slow, "train", preparation), kwargs=arguments) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    assert [builder.exitcode for builder in builders] == [0, 0]
    (path,) = [path for path in tmp_path.iterdir() if not path.name.startswith(".")]
    verify(path)
    assert not list(tmp_path.glob("*.building"))


def test_waiting_builder_uses_the_result_of_the_first(
    source: Any, preparation: Preparation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slow = dataclasses.replace(source, seconds_per_row=0.005)
    first = fork.Process(
        target=prepare, args=(slow, "train", preparation), kwargs={"cache_dir": tmp_path, "num_workers": 1}
    )
    first.start()
    wait_until(lambda: any(tmp_path.glob(".*.building")))
    calls: list[int] = []
    with caplog.at_level(logging.INFO):
        prepare(
            source, "train", preparation, cache_dir=tmp_path, progress=lambda stage, done, total: calls.append(done)
        )
    first.join()
    assert calls == []
    assert "another process is preparing these graphs" in caplog.text


def test_damaged_store_is_prepared_again(
    source: Any, preparation: Preparation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = prepare(source, "train", preparation, cache_dir=tmp_path, num_workers=1).path
    (path / "offsets.npy").unlink()
    verify(prepare(source, "train", preparation, cache_dir=tmp_path, num_workers=1).path)
    assert "offsets.npy: is missing" in caplog.text
    assert caplog.text.count("prepared again") == 1


def test_unwritable_folder_is_a_clear_error(source: Any, preparation: Preparation, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DataError, match="EGT_CACHE_DIR"):
        prepare(source, "train", preparation, cache_dir=tmp_path / "file" / "cache")


def test_full_disk_is_a_clear_error_and_leaves_nothing(
    source: Any, preparation: Preparation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="No space left on device"):
        prepare(source, "train", preparation, cache_dir=tmp_path, num_workers=1)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_write_that_fails_halfway_is_a_clear_error_and_leaves_nothing(
    source: Any, preparation: Preparation, tmp_path: Path
) -> None:
    def build_with_small_files(answer: Any) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
        try:
            prepare(source, "train", preparation, cache_dir=tmp_path, num_workers=1)
        except DataError as error:
            answer.send(str(error))

    receiver, sender = fork.Pipe()
    builder = fork.Process(target=build_with_small_files, args=(sender,))
    builder.start()
    builder.join()
    assert builder.exitcode == 0
    assert receiver.poll()
    assert "prepared graphs cannot be written there (File too large)" in receiver.recv()
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_error_of_a_source_is_not_blamed_on_the_cache(source: Any, preparation: Preparation, tmp_path: Path) -> None:
    class Broken(type(source)):  # type: ignore[misc]
        def read(self, record: Any) -> Reading:
            raise FileNotFoundError("raw.csv")

    with pytest.raises(FileNotFoundError, match=r"raw\.csv"):
        prepare(Broken(), "train", preparation, cache_dir=tmp_path, num_workers=1)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_death_of_a_worker_is_a_clear_error(source: Any, preparation: Preparation, tmp_path: Path) -> None:
    class Deadly(type(source)):  # type: ignore[misc]
        def read(self, record: Any) -> Reading:
            os._exit(9)

    with pytest.raises(RunError, match="process"):
        prepare(Deadly(), "train", preparation, cache_dir=tmp_path, num_workers=2)


def test_graphs_of_different_widths_are_refused(preparation: Preparation, tmp_path: Path, source: Any) -> None:
    class Uneven(type(source)):  # type: ignore[misc]
        def read(self, record: Any) -> Reading:
            graph = super().read(0).graph
            targets = [[1.0] * (1 + record)] * graph.num_nodes
            fields = {f.name: getattr(graph, f.name) for f in dataclasses.fields(graph)}
            return Reading(record, "", graph=type(graph)(**{**fields, "node_targets": targets}))

    with pytest.raises(DataError, match=r"node_targets.*\(1,\)"):
        prepare(Uneven(), "train", preparation, cache_dir=tmp_path, num_workers=1)


@pytest.mark.parametrize("first_with_edges", [0, 1, 100, 200])
def test_graphs_without_edges_have_the_width_of_the_others(tmp_path: Path, source: Any, first_with_edges: int) -> None:
    class Sparse(type(source)):  # type: ignore[misc]
        def read(self, record: Any) -> Reading:
            has_edges = record >= first_with_edges
            edges, targets = ([[0], [1]], [[1.0, 2.0]]) if has_edges else ([[], []], [])
            return Reading(record, "", graph=Graph(num_nodes=2, edge_index=edges, edge_targets=targets))

    store = prepare(Sparse(150), "train", Preparation(FeatureSchema()), cache_dir=tmp_path, num_workers=1)
    for k, sample in enumerate(store):
        assert sample.graph.edge_targets is not None
        width = 2 if first_with_edges < 150 else 1  # given as [], which is read as one column
        assert sample.graph.edge_targets.shape == (int(k >= first_with_edges), width)
        assert sample.graph.edge_index.shape == (2, int(k >= first_with_edges))
        assert sample.graph.edge_values.shape == (int(k >= first_with_edges), 0)


def test_all_rows_bad_or_no_rows(preparation: Preparation, tmp_path: Path, source: Any) -> None:
    class Bad(type(source)):  # type: ignore[misc]
        def read(self, record: Any) -> Reading:
            return Reading(record, f"row-{record}", error="unreadable")

    store = prepare(Bad(num_rows=3), "train", preparation, cache_dir=tmp_path / "bad", num_workers=1)
    assert (len(store), [problem.row for problem in store.problems]) == (0, [0, 1, 2])
    empty = prepare(dataclasses.replace(source, num_rows=0), "train", preparation, cache_dir=tmp_path)
    assert (len(empty), empty.problems) == (0, [])


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


def test_a_store_with_any_changed_bit_or_cut_file_is_prepared_again(
    source: Any, preparation: Preparation, tmp_path: Path, toys: Any
) -> None:
    path = prepare(source, "train", preparation, cache_dir=tmp_path, num_workers=1).path
    written = {file: file.read_bytes() for file in path.iterdir() if not file.name.startswith(".")}
    for file, content in written.items():
        changes = [flipped(content, at) for at in {0, 9, len(content) // 2, len(content) - 1}]
        for changed in [*changes, content[: len(content) // 2], b""]:
            file.write_bytes(changed)
            prepare(source, "train", preparation, cache_dir=tmp_path, num_workers=1)
            assert {file: file.read_bytes() for file in written} == written, file.name


def test_a_store_is_read_whole_only_after_a_file_has_changed(
    source: Any, preparation: Preparation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Path] = []
    monkeypatch.setattr("egt.data.store.verify", calls.append)
    path = prepare(source, "train", preparation, cache_dir=tmp_path, num_workers=1).path
    for expected in (1, 1):
        prepare(source, "train", preparation, cache_dir=tmp_path, num_workers=1)
        assert len(calls) == expected
    os.utime(path / "offsets.npy", ns=(0, (path / "offsets.npy").stat().st_mtime_ns))
    prepare(source, "train", preparation, cache_dir=tmp_path, num_workers=1)
    assert len(calls) == 2
