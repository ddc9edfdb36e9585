"""Paths that come from users and machines."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from egt.errors import ConfigError, DataError, RunError
from egt.files import exists, lock, result_folder, strict_json, user_folder, write_atomically


def test_a_text_that_can_be_no_name_names_no_file(tmp_path: Path) -> None:
    assert exists(tmp_path)
    assert exists(str(tmp_path))
    assert not exists(tmp_path / "none")
    assert not exists("C" * 300)
    assert not exists("C\0C")


def test_the_folder_of_a_variable_is_taken_before_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("EGT_TEST_DIR", "/data")
    assert user_folder("EGT_TEST_DIR", ".cache", "egt") == Path("/data")
    monkeypatch.delenv("EGT_TEST_DIR")
    assert user_folder("EGT_TEST_DIR", ".cache", "egt") == Path("/home/me/.cache/egt")


def test_without_a_home_folder_the_variable_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    with pytest.raises(DataError, match="EGT_TEST_DIR"):
        user_folder("EGT_TEST_DIR", ".cache")


def test_results_go_to_a_folder_of_their_own(tmp_path: Path) -> None:
    folder = result_folder(tmp_path / "a" / "b", "page.html")
    assert folder.is_dir()
    (folder / "nodes.csv").write_text("mine")
    with pytest.raises(ConfigError, match="overwritten"):
        result_folder(folder, "page.html")
    (folder / "page.html").write_text("")
    assert result_folder(folder, "page.html") == folder
    with pytest.raises(ConfigError, match=r"nodes.csv"):
        result_folder(folder / "nodes.csv", "page.html")
    with pytest.raises(RunError):
        result_folder(folder / "nodes.csv" / "below", "page.html")


def test_a_file_is_replaced_when_all_is_written(tmp_path: Path) -> None:
    place = tmp_path / "out.csv"
    for old, new in ((None, "one"), ("one", "two")):
        with write_atomically(place) as draft:
            draft.write_text(new)
            assert (place.read_text() if place.exists() else None) == old
            assert draft.suffix == place.suffix  # by which some writers choose the format
        assert place.read_text() == new
    assert [*tmp_path.iterdir()] == [place]


@pytest.mark.parametrize("reason", [OSError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(reason: type[BaseException], tmp_path: Path) -> None:
    place = tmp_path / "out.csv"
    place.write_text("old")

    def fail() -> None:
        with write_atomically(place) as draft:
            draft.write_text("ne")
            raise reason

    with pytest.raises(reason):
        fail()
    assert place.read_text() == "old"
    assert [*tmp_path.iterdir()] == [place]


def test_a_link_stays_and_the_file_behind_it_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("first", "second"):  # second: a link to a file that is not there yet
        link, real = tmp_path / name, tmp_path / "data" / name
        if name == "first":
            real.write_text("old")
        link.symlink_to(Path("data", name))
        with write_atomically(link) as draft:
            draft.write_text("new")
        assert link.is_symlink()
        assert real.read_text() == "new"
    assert len([*(tmp_path / "data").iterdir()]) == 2


def test_a_new_file_has_the_mode_of_the_umask_and_a_replaced_one_keeps_its_own(tmp_path: Path) -> None:
    place = tmp_path / "out.csv"
    before = os.umask(0o027)
    try:
        modes = []
        for mode in (None, 0o600):
            if mode is not None:
                place.chmod(mode)
            with write_atomically(place) as draft:
                draft.write_text("new")
            modes.append(stat.S_IMODE(place.stat().st_mode))
    finally:
        os.umask(before)
    assert modes == [0o640, 0o600]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    with write_atomically(pipe) as draft:
        draft.write_text("rows")
    reader.join(timeout=10)
    assert read == ["rows"]
    assert pipe.is_fifo()


def test_what_others_write_to_the_same_standard_output_stays(tmp_path: Path) -> None:
    code = (
        "from egt.files import write_atomically\n"
        "print('before', flush=True)\n"
        "with write_atomically('/dev/stdout') as draft:\n"
        "    with draft.open('a') as file: file.write('rows\\n')\n"
        "print('after', flush=True)\n"
    )
    with (tmp_path / "log").open("a") as log:
        subprocess.run([sys.executable, "-c", code], stdout=log, check=True)
    assert (tmp_path / "log").read_text() == "before\nrows\nafter\n"


def test_a_lock_keeps_others_out_until_it_is_released(tmp_path: Path) -> None:
    waits: list[int] = []
    with lock(tmp_path / "new" / ".lock") as is_ours:
        assert is_ours
        with (
            pytest.raises(TimeoutError),
            lock(tmp_path / "new" / ".lock", patience=0.15, on_wait=lambda: waits.append(1)),
        ):
            pass
    assert waits == [1]
    with lock(tmp_path / "new" / ".lock", patience=0) as is_ours:
        assert is_ours


def test_a_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    code = "import sys, time; from pathlib import Path; from egt.files import lock\n"
    code += "with lock(Path(sys.argv[1])): print('mine', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, tmp_path / "x"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "mine\n"
        with pytest.raises(TimeoutError), lock(tmp_path / "x", patience=0):
            pass
        process.kill()
    with lock(tmp_path / "x", patience=5) as is_ours:
        assert is_ours


def test_a_lock_that_its_process_removes_keeps_the_next_ones_apart(tmp_path: Path) -> None:
    """Whoever waited for the removed file has no lock that a third process would respect."""
    place, inside, most = tmp_path / "run" / ".lock", [0], [0]

    def work() -> None:
        for _ in range(5):
            with lock(place):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.01)
                place.unlink()
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_where_there_are_no_locks_the_work_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with lock(tmp_path / ".lock") as is_ours:
        assert not is_ours


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_json_has_no_such_numbers(value: float) -> None:
    assert strict_json({"a": [value, 1.5, "x"], "b": {"c": value}}) == {"a": [None, 1.5, "x"], "b": {"c": None}}
