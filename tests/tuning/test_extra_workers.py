"""More workers on this machine are the same command; they end with the search."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

import egt
from egt.tuning.tune import more_workers
from tests.hostile import HostileFolder
from tests.tuning.conftest import QUICK


class Process:
    """A process that ends with a code."""

    started: list[Process] = []  # noqa: RUF012
    code = 0

    def __init__(self, words: list[str], **options: Any) -> None:
        self.words, self.environment = words, options["env"]
        self.returncode, self.terminated = self.code, False
        self.started.append(self)

    def wait(self) -> int:
        return self.returncode

    def terminate(self) -> None:
        self.terminated = True


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    monkeypatch.setattr(Process, "started", [])
    monkeypatch.setattr(subprocess, "Popen", Process)
    return Process.started


def test_others_go_on_with_the_same_folder_and_share_the_cores(started: list[Process]) -> None:
    before = torch.get_num_threads()
    with more_workers(Path("s"), 2, 5.0, 9):
        assert torch.get_num_threads() == max(1, before // 3)
    assert torch.get_num_threads() == before
    assert len(started) == 2
    assert started[0].words[1:] == ["-P", "-m", "egt", "tune", "s", "--minutes", "5", "--json", "--trials", "9"]
    assert started[0].environment["OMP_NUM_THREADS"] == str(max(1, before // 3))


def test_they_are_stopped_when_the_search_fails(started: list[Process]) -> None:
    with pytest.raises(ZeroDivisionError), more_workers(Path("s"), 1, 5.0, None):
        raise ZeroDivisionError
    assert started[0].terminated


@pytest.mark.usefixtures("started")
def test_one_that_fails_is_said_and_the_search_is_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As a worker whose time is up before any trial is done, while this one finishes the first."""
    monkeypatch.setattr(Process, "code", 1)
    with more_workers(Path("s"), 1, 5.0, None):
        pass
    assert "1 of 1 other workers failed" in caplog.text


def test_they_import_nothing_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = HostileFolder(tmp_path, "cyclopts", "optuna", "torch", "runpy")
    monkeypatch.chdir(hostile.path)
    with more_workers(tmp_path / "no study", 1, 0.1, None):
        pass
    assert hostile.executed == []


@pytest.mark.slow
def test_two_workers_share_one_study(table: Path, tmp_path: Path) -> None:
    done = egt.tune(table, "y", set=QUICK, workers=2, trials=4, out=tmp_path / "s", progress=False)
    assert {each.state for each in done.trials} <= {"done", "pruned"}
    assert done.trials[0].state == "done"
    assert 4 <= len(done.trials) <= 5
