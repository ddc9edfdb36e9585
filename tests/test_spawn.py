"""Several processes: their errors arrive, and none is left waiting for one that is gone."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from egt import processes as spawn
from egt.errors import ConfigError, DataError, RunError
from egt.processes import Interruption, run_together
from tests.hostile import HostileFolder


def note_rank(folder: Path) -> None:
    (folder / os.environ["LOCAL_RANK"]).write_text(os.environ["WORLD_SIZE"])


def fail_in_the_second() -> None:
    if os.environ["LOCAL_RANK"] == "1":
        raise DataError("no such graph")


def die_in_the_second() -> None:
    if os.environ["LOCAL_RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def stop_when_told(folder: Path) -> None:
    with Interruption() as interruption:
        interruption.listen()
        (folder / os.environ["LOCAL_RANK"]).write_text("")
        while not interruption.requested:
            time.sleep(0.05)
            if len(list(folder.iterdir())) == 2 and os.environ["LOCAL_RANK"] == "0":
                os.kill(os.getppid(), signal.SIGTERM)
    raise RunError(f"stopped by {interruption.requested}")


def log_something() -> None:
    logging.getLogger("egt.training.run").info("epoch %d of %s", 0, os.environ["LOCAL_RANK"])
    logging.getLogger("egt.training.run").debug("too much")


def say_ready_and_wait(folder: Path) -> None:
    (folder / os.environ["LOCAL_RANK"]).write_text("")
    if os.environ["LOCAL_RANK"] == "0":
        while len(list(folder.iterdir())) < 2:
            time.sleep(0.05)
        os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)


def test_a_signal_before_there_is_anything_to_keep_ends_all(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(RunError, match=r"SIGINT.*--resume"):
        run_together(say_ready_and_wait, 2, {"folder": tmp_path})
    assert time.monotonic() - started < 30


def test_what_the_first_process_logs_is_logged_here(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "egt.training.run"):
        run_together(log_something, 2, {})
    assert caplog.messages == ["epoch 0 of 0"]


def test_each_process_knows_its_rank(tmp_path: Path) -> None:
    run_together(note_rank, 2, {"folder": tmp_path})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"0": "2", "1": "2"}


def test_processes_import_nothing_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = HostileFolder(tmp_path, "pickle", "tempfile", "torch")
    monkeypatch.chdir(hostile.path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    (tmp_path / "ranks").mkdir()
    run_together(note_rank, 2, {"folder": tmp_path / "ranks"})
    assert hostile.executed == []
    assert len(list((tmp_path / "ranks").iterdir())) == 2
    assert "PYTHONSAFEPATH" not in os.environ, "processes that the caller starts are the caller's business"


def test_an_error_of_any_process_is_raised_here() -> None:
    with pytest.raises(DataError, match="graph"):
        run_together(fail_in_the_second, 2, {})


def test_survivors_do_not_wait_for_one_that_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "_GRACE_SECONDS", 0.5)
    started = time.monotonic()
    with pytest.raises(RunError, match="code -9"):
        run_together(die_in_the_second, 2, {})
    assert time.monotonic() - started < 30


def test_a_signal_to_the_parent_reaches_all(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="SIGTERM"):
        run_together(stop_when_told, 2, {"folder": tmp_path})


def test_a_script_without_a_guard_says_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from egt.processes import refuse_import, run_together\nrefuse_import()\nrun_together(print, 2, {})\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "bootstrapping" not in ended.stderr, "the error of multiprocessing, which knows nothing of egt"
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("egt.errors.RunError: process 0 of 2")
    assert "__main__" in last


def test_what_cannot_be_sent_is_named() -> None:
    with pytest.raises(ConfigError, match=r"lambda.*trainer\.devices"):
        run_together(lambda: None, 2, {})
