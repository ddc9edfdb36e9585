"""Experiment trackers: those that are installed and set up, or those that a run names."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from egt.errors import ConfigError
from egt.training.run import train_on
from tests.training.tiny import tiny_config, tiny_samples


def test_tensorboard_gets_every_epoch(tmp_path: Path) -> None:
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    config = tiny_config(trainer={"max_epochs": 2})
    samples = tiny_samples(config, 8)
    result = train_on(config, samples, samples, folder=tmp_path, show_progress=False)
    events = reading.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("val_loss")]
    assert found == [(row["step"], pytest.approx(row["val_loss"])) for row in result.history]


class Recorder:
    """A run of Weights & Biases that keeps what it is told."""

    def __init__(self, **settings: Any) -> None:
        self.settings, self.rows = settings, list[dict[str, Any]]()
        self.finished = False

    def log(self, metrics: dict[str, Any], **_: Any) -> None:
        self.rows.append(metrics)

    def finish(self) -> None:
        self.finished = True


@pytest.mark.parametrize("mode", [None, "offline"])
def test_weights_and_biases_is_used_where_its_environment_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str | None
) -> None:
    runs: list[Recorder] = []

    def init(**settings: Any) -> Recorder:
        runs.append(Recorder(**settings))
        return runs[-1]

    stub = ModuleType("wandb")
    stub.__spec__ = ModuleSpec("wandb", None)
    stub.__dict__.update(init=init)
    monkeypatch.setitem(sys.modules, "wandb", stub)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    if mode is not None:
        monkeypatch.setenv("WANDB_MODE", mode)
    config = tiny_config(trainer={"max_epochs": 2})
    samples = tiny_samples(config, 8)
    result = train_on(config, samples, samples, folder=tmp_path, show_progress=False)
    assert len(runs) == (mode is not None)
    for run in runs:
        assert (run.settings["name"], run.settings["project"], run.settings["dir"]) == ("tiny", "egt", str(tmp_path))
        assert [row["val_loss"] for row in run.rows] == [row["val_loss"] for row in result.history]
        assert run.finished


def test_a_run_names_its_trackers_or_none(tmp_path: Path) -> None:
    config = tiny_config(trainer={"max_epochs": 1, "trackers": []})
    samples = tiny_samples(config, 8)
    train_on(config, samples, samples, folder=tmp_path, show_progress=False)
    assert not (tmp_path / "tensorboard").exists()
    config = tiny_config(trainer={"max_epochs": 1, "trackers": ["wandb"]})
    with pytest.raises(ConfigError, match="wandb"):
        train_on(config, samples, samples, folder=tmp_path / "other", show_progress=False)
