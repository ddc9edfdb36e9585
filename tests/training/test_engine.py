"""One process of a run: what its optimizer does and which loggers it has."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from egt.assemble import build_model
from egt.schedules.constant import ConstantRate
from egt.training.fit import fit
from tests.training.tiny import tiny_config, tiny_samples


def one_step(out: Path, **optimizer: float) -> dict[str, torch.Tensor]:
    """The weights after a single step."""
    config = tiny_config(
        optimizer=optimizer, schedule=ConstantRate(), trainer={"max_epochs": None, "max_steps": 1, "select": "last"}
    )
    return dict(fit(config, tiny_samples(config, 8), None, out_dir=out, show_progress=False).weights)


def test_weight_decay_takes_its_share_of_every_weight(tmp_path: Path) -> None:
    """AdamW: w <- (1 - lr * decay) w - lr * update, with the update of Adam."""
    lr, decay = 0.01, 3.0
    torch.manual_seed(7)
    start = build_model(tiny_config()).state_dict()
    plain = one_step(tmp_path / "plain", lr=lr)
    decayed = one_step(tmp_path / "decayed", lr=lr, weight_decay=decay)
    assert any(not torch.equal(start[name], plain[name]) for name in start)
    for name, weight in start.items():
        torch.testing.assert_close(decayed[name], plain[name] - lr * decay * weight, rtol=1e-5, atol=1e-7)


def test_tensorboard_gets_every_epoch(tmp_path: Path) -> None:
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    config = tiny_config(trainer={"max_epochs": 2})
    samples = tiny_samples(config, 8)
    result = fit(config, samples, samples, out_dir=tmp_path, show_progress=False)
    events = reading.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("val_loss")]
    assert found == [(row["step"], pytest.approx(row["val_loss"])) for row in result.history]


class Recorder:
    """A run of Weights & Biases that keeps what it is told."""

    def __init__(self, **settings: Any) -> None:
        self.settings, self.rows = settings, list[dict[str, Any]]()
        self.config = self

    def log(self, metrics: dict[str, Any], **_: Any) -> None:
        self.rows.append(metrics)

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


@pytest.mark.parametrize("mode", [None, "offline"])
def test_weights_and_biases_is_used_where_its_environment_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str | None
) -> None:
    from lightning.pytorch.loggers import wandb as loggers

    runs: list[Recorder] = []

    def init(**settings: Any) -> Recorder:
        runs.append(Recorder(**settings))
        return runs[-1]

    stub = ModuleType("wandb")
    stub.__spec__ = ModuleSpec("wandb", None)
    inner = ModuleType("wandb.sdk"), ModuleType("wandb.sdk.lib"), ModuleType("wandb.wandb_run")
    stub.__dict__.update(init=init, run=None, require=lambda *_: None)
    inner[1].__dict__["RunDisabled"] = type("RunDisabled", (), {})
    inner[2].__dict__["Run"] = Recorder
    for module in (stub, *inner):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(loggers, "_WANDB_AVAILABLE", True)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    if mode is not None:
        monkeypatch.setenv("WANDB_MODE", mode)
    config = tiny_config(trainer={"max_epochs": 2})
    samples = tiny_samples(config, 8)
    result = fit(config, samples, samples, out_dir=tmp_path, show_progress=False)
    assert len(runs) == (mode is not None)
    for run in runs:
        assert (run.settings["name"], run.settings["project"], run.settings["dir"]) == ("tiny", "egt", str(tmp_path))
        assert [row["val_loss"] for row in run.rows] == [row["val_loss"] for row in result.history]
