"""A run that was stopped, politely or not, ends where it would have ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import pytest
import torch

from egt.data.batching.batch import GraphBatch
from egt.data.encodings.encoding import Sample
from egt.errors import RunError
from egt.training import callbacks, loop, state
from egt.training.loop import Work, train_step
from egt.training.run import Run, train_on
from egt.training.run_folder import StepSums
from tests.training.tiny import tiny_config, tiny_samples

ROOT = Path(__file__).resolve().parents[2]


class Interrupting(Sequence[Sample]):
    """Samples that send a signal to the run when the n-th of them is read."""

    def __init__(self, samples: Sequence[Sample], after: int, number: signal.Signals) -> None:
        self.samples, self.left, self.number = samples, after, number

    def __len__(self) -> int:
        return len(self.samples)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | Sequence[Sample]:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)
        return self.samples[index]


def same(first: Run, second: Run) -> bool:
    curves = [[{k: v for k, v in row.items() if "second" not in k} for row in r.history] for r in (first, second)]
    equal = all(torch.equal(first.weights[name], second.weights[name]) for name in first.weights)
    return equal and curves[0] == curves[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("mode", ["exact", "buckets"])
def test_an_interrupted_run_keeps_its_state_and_continues_exactly(
    tmp_path: Path, number: signal.Signals, mode: str
) -> None:
    config = tiny_config(
        data={"batching": mode}, trainer={"ema_decay": 0.9}, model={"key_dropout": 0.2, "drop_path": 0.3}
    )
    samples, validation = tiny_samples(config, 37), tiny_samples(config, 11, seed=1)
    options: dict[str, Any] = {"show_progress": False}
    alone = train_on(config, samples, validation, folder=tmp_path / "alone", **options)
    out = tmp_path / "stopped"
    for after in (129, 154):  # labels and sizes are looked at first, 111 times; then 37 samples in each epoch
        with pytest.raises(RunError, match=rf"{number.name}.*--resume"):
            train_on(config, Interrupting(samples, after, number), validation, folder=out, resume=True, **options)
    assert same(alone, train_on(config, samples, validation, folder=out, resume=True, **options))


@pytest.mark.parametrize("trainer", [{"ema_decay": 0.9}, {"max_epochs": None, "max_steps": 7}])
def test_a_run_that_is_stopped_in_its_validation_does_it_again(tmp_path: Path, trainer: dict[str, Any]) -> None:
    config = tiny_config(trainer=trainer, data={"batch_size": 4})
    samples, validation = tiny_samples(config, 17), tiny_samples(config, 11, seed=1)
    options: dict[str, Any] = {"show_progress": False}
    alone = train_on(config, samples, validation, folder=tmp_path / "alone", **options)
    out, steps = tmp_path / "stopped", []
    for after in (16, 16, 41):  # 13 reads look at labels; then a validation has 23, of sizes and of samples
        interrupting = Interrupting(validation, after, signal.SIGTERM)
        with pytest.raises(RunError, match="SIGTERM") as stopped:
            train_on(config, samples, interrupting, folder=out, resume=True, **options)
        steps.append(int(str(stopped.value).split("step ")[1].split(";")[0]))
    assert steps[:2] == [5, 5]  # the first validation, twice; nothing is trained before the second
    assert steps[2] > 5
    assert same(alone, train_on(config, samples, validation, folder=out, resume=True, **options))


def test_a_signal_after_the_last_step_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny_config(trainer={"max_epochs": 1})
    samples = tiny_samples(config, 6)
    monkeypatch.setattr(callbacks, "write_history", lambda *_: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(RunError, match=r"SIGTERM.*--resume"):
        train_on(config, samples, samples, folder=tmp_path, show_progress=False)


def test_a_finished_run_can_be_made_longer_and_equals_the_long_one(tmp_path: Path) -> None:
    short, long = (tiny_config(trainer={"max_epochs": epochs}) for epochs in (2, 4))
    samples, validation = tiny_samples(short, 37), tiny_samples(short, 11, seed=1)
    whole = train_on(long, samples, validation, folder=tmp_path / "whole", show_progress=False)
    first = train_on(short, samples, validation, folder=tmp_path / "parts", show_progress=False)
    again = train_on(short, samples, validation, folder=tmp_path / "parts", resume=True, show_progress=False)
    assert same(first, again)
    assert same(whole, train_on(long, samples, validation, folder=tmp_path / "parts", resume=True, show_progress=False))


class Clock:
    """A clock that moves only when it is told."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_the_time_of_an_epoch_is_that_of_its_steps_without_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, events = Clock(), {7: signal.SIGTERM, 12: signal.SIGCONT}

    def timed(work: Work, batches: Sequence[GraphBatch]) -> StepSums:
        """Take a step in a second, after a pause of 45 minutes where one is due."""
        event = events.pop(work.state.progress.step, None)
        if event is not None:
            clock.now += 2700
            signal.raise_signal(event)
        sums = train_step(work, batches)
        clock.now += 1
        return sums

    monkeypatch.setattr(state, "time", clock)
    monkeypatch.setattr(loop, "train_step", timed)
    config = tiny_config()
    samples, validation = tiny_samples(config, 37), tiny_samples(config, 11, seed=1)
    options: dict[str, Any] = {"folder": tmp_path, "show_progress": False}
    with pytest.raises(RunError, match="SIGTERM"):
        train_on(config, samples, validation, **options)
    history = train_on(config, samples, validation, resume=True, **options).history
    assert [row["seconds"] for row in history] == [5, 5, 5]
    assert [row["graphs_per_second"] for row in history] == [pytest.approx(37 / 5)] * 3


def killed(kills: int, processes: int, epochs: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.restart.kill_runs"]
    command += ["--kills", str(kills), "--processes", str(processes), "--epochs", str(epochs)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def check(result: dict[str, Any], kills: int) -> None:
    steps = result["resumed_from"]
    assert len(steps) == kills
    assert all(later > earlier for earlier, later in zip([0, *steps], steps, strict=False)), steps
    assert steps[-1] < result["last_step"]
    assert result["equal"], result["ends"]


def test_kill_9_and_resume_ends_in_the_same_bits() -> None:
    check(killed(kills=2, processes=1, epochs=6), 2)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("processes", [1, 2])
def test_twenty_kills_end_in_the_same_bits(processes: int) -> None:
    check(killed(kills=20, processes=processes, epochs=40), 20)
