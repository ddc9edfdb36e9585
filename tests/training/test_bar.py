"""The progress bar says where a run is, how well it does, and how long it will take."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.progress import Progress

from egt.training import loop
from egt.training.callbacks import RunBar, _clock
from egt.training.run import train_on
from egt.training.run_folder import StepSums
from tests.training.tiny import tiny_config, tiny_samples


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float | None, str, str]]:
    """What the bar shows after each step: done, total, description and facts."""
    seen: list[tuple[float, float | None, str, str]] = []

    class Watched(RunBar):
        def on_step(self, *arguments: Any) -> None:
            super().on_step(*arguments)
            [task] = self.bar.tasks
            seen.append((task.completed, task.total, task.description, task.fields["facts"]))

    monkeypatch.setattr(loop, "RunBar", Watched)
    return seen


def test_it_counts_steps_and_shows_loss_metric_best_speed_and_time_left(
    tmp_path: Path, shown: list[tuple[float, float | None, str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny_config(trainer={"max_epochs": 3})
    result = train_on(config, tiny_samples(config, 37), tiny_samples(config, 11, seed=1), folder=tmp_path)
    assert [done for done, _, _, _ in shown] == list(range(1, 16))
    assert {total for _, total, _, _ in shown} == {15}
    assert [name for _, _, name, _ in shown] == [f"epoch {1 + k // 5}/3" for k in range(15)]
    assert re.fullmatch(r"loss [\d.e-]+ \| \d+ graphs/s \| \d+:\d\d left", shown[0][3])
    last = re.fullmatch(r"loss \S+ \| mae (\S+) \| best loss (\S+) \| \d+ graphs/s \| 0:00 left", shown[-1][3])
    assert last is not None, shown[-1][3]
    assert float(last[1]) == pytest.approx(result.history[1]["val_mae"], rel=1e-3)
    assert float(last[2]) == pytest.approx(min(row["val_loss"] for row in result.history[:2]), rel=1e-3)
    assert capsys.readouterr().out == ""  # standard output is for results


def test_a_resumed_run_judges_the_time_left_by_its_own_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = SimpleNamespace(step=90, epoch=9, sums=[1.0, 2.0, 0.0, 8.0], history=[], best=None)
    config = tiny_config(trainer={"max_epochs": 10})
    state: Any = SimpleNamespace(progress=progress, config=config, num_steps=100)
    clock = iter([0.0, 3.0])
    monkeypatch.setattr("egt.training.callbacks.time.monotonic", lambda: next(clock))
    monkeypatch.setattr(Progress, "start", lambda _: None)
    bar = RunBar("mae")
    bar.on_start(state)
    progress.step = 91
    bar.on_step(state, StepSums(0.5, 1.0, 0.0, 12.0))
    monkeypatch.undo()
    [task] = bar.bar.tasks
    assert (task.completed, task.total, task.description) == (91, 100, "epoch 10/10")
    assert task.fields["facts"] == "loss 0.5 | 4 graphs/s | 0:27 left"  # 12 graphs in 3 s; 9 steps of 3 s


def test_times_are_written_as_on_a_clock() -> None:
    assert [_clock(seconds) for seconds in (0.4, 61, 3599.6, 7322)] == ["0:00", "1:01", "1:00:00", "2:02:02"]
