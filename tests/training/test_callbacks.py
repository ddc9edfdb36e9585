"""Callbacks are told what happens in a run, in order, and that it ends however it ends."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from egt.errors import RunError
from egt.training.callbacks import Callback, LogLine
from egt.training.run import train_on
from egt.training.run_folder import StepSums
from egt.training.state import State
from tests.training.tiny import tiny_config, tiny_samples


class Diary(Callback):
    """Notes what it is told, and fails at a step if asked."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.fails_at, self.notes, self.graphs = fails_at, list[str](), 0.0

    def on_start(self, state: State) -> None:
        self.notes.append(f"start at {state.progress.step}")

    def on_step(self, state: State, step: StepSums) -> None:
        self.notes.append(f"step {state.progress.step}")
        self.graphs += step.graphs
        if state.progress.step == self.fails_at:
            raise RunError("enough")

    def on_epoch(self, state: State, row: Mapping[str, float]) -> None:
        assert row == state.progress.history[-1]
        assert len((state.folder / "metrics.csv").read_text().splitlines()) == 1 + len(state.progress.history)
        self.notes.append(f"epoch {row['epoch']}")

    def on_end(self, state: State) -> None:
        self.notes.append("end")


def test_they_are_told_what_happens_and_go_on_with_a_resumed_run(tmp_path: Path) -> None:
    config = tiny_config(trainer={"max_epochs": 2})
    samples = tiny_samples(config, 16)
    first, second, third = Diary(fails_at=3), Diary(), Diary()
    with pytest.raises(RunError, match="enough"):
        train_on(config, samples, samples, tmp_path, show_progress=False, callbacks=[first])
    assert first.notes == ["start at 0", "step 1", "step 2", "epoch 0", "step 3", "end"]
    train_on(config, samples, samples, tmp_path, resume=True, show_progress=False, callbacks=[second])
    assert second.notes == ["start at 2", "step 3", "step 4", "epoch 1", "end"]
    assert second.graphs == 16
    train_on(config, samples, samples, tmp_path, resume=True, show_progress=False, callbacks=[third])
    assert third.notes == []  # the run has ended long ago


@pytest.mark.parametrize("error", [FileNotFoundError("my.log"), ConnectionResetError("tracker"), EOFError()])
def test_an_error_of_a_callback_is_reported_as_itself(tmp_path: Path, error: Exception) -> None:
    class Broken(Callback):
        def on_step(self, state: State, step: StepSums) -> None:
            raise error

    config = tiny_config(data={"num_workers": 1})
    samples = tiny_samples(config, 16)
    with pytest.raises(type(error)) as raised:
        train_on(config, samples, samples, tmp_path, show_progress=False, callbacks=[Broken()])
    assert raised.value is error


def test_a_line_has_what_people_read_and_the_file_has_all(caplog: pytest.LogCaptureFixture) -> None:
    row = {"epoch": 0.0, "step": 9.0, "lr": 1e-3, "train_loss": 0.123456, "val_rmse": 2.0, "val_num_labels": 7.0}
    with caplog.at_level(logging.INFO, "egt.training.callbacks"):
        LogLine().on_epoch(cast(State, None), row)
    assert caplog.messages == ["epoch 1, train_loss 0.1235, val_rmse 2"]
