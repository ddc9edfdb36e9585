"""AdamW does what torch's fused class does, bit by bit, and without its imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from egt.assemble import build_model
from egt.config.run import OptimizerConfig
from egt.parts.schedules import ConstantRate
from egt.training.run import train_on
from egt.training.state import AdamW, find_undecayed
from tests.training.tiny import tiny_config, tiny_samples


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_it_is_the_optimizer_of_torch(decay: float) -> None:
    torch.manual_seed(0)
    start = {"a": torch.randn(3, 4), "b": torch.randn(5), "unused": torch.randn(2)}
    mine, theirs = ({name: nn.Parameter(value.clone()) for name, value in start.items()} for _ in range(2))
    optimizer = AdamW(mine, OptimizerConfig(betas=(0.8, 0.9), eps=1e-6, weight_decay=decay))
    reference = torch.optim.AdamW(theirs.values(), 0.1, (0.8, 0.9), 1e-6, weight_decay=decay, fused=True)
    for step in range(5):
        optimizer.rate = reference.param_groups[0]["lr"] = 0.1 / (1 + step)
        for parameters in (mine, theirs):
            loss = (parameters["a"].square().sum() + parameters["b"].sin().sum()) * (step + 1)
            loss.backward()
        optimizer.step()
        reference.step()
        optimizer.zero_grad()
        reference.zero_grad()
    for name, parameter in mine.items():
        assert torch.equal(parameter, theirs[name])
        for key, value in reference.state[theirs[name]].items():
            assert torch.equal(optimizer.state[name][key], value)
    assert "unused" not in optimizer.state


def test_one_thread_takes_a_step_and_the_others_are_there_again(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    optimizer, seen = AdamW({"w": weight}, OptimizerConfig()), []

    def count(*_: object, **__: object) -> None:
        seen.append(torch.get_num_threads())
        raise RuntimeError("interrupted")

    monkeypatch.setattr("egt.training.state.adamw", count)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with pytest.raises(RuntimeError, match="interrupted"):
            optimizer.step()
        assert (seen, torch.get_num_threads()) == ([1], 3)
    finally:
        torch.set_num_threads(before)


def one_step(out: Path, **optimizer: float | str) -> dict[str, torch.Tensor]:
    """The weights after a single step."""
    config = tiny_config(
        optimizer=optimizer, schedule=ConstantRate(), trainer={"max_epochs": None, "max_steps": 1, "select": "last"}
    )
    return dict(train_on(config, tiny_samples(config, 8), None, folder=out, show_progress=False).weights)


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


def test_of_the_matrices_only_linear_maps_decay(tmp_path: Path) -> None:
    lr, decay = 0.01, 3.0
    torch.manual_seed(7)
    model = build_model(tiny_config())
    start, spared = model.state_dict(), find_undecayed(model)
    plain = one_step(tmp_path / "plain", lr=lr)
    decayed = one_step(tmp_path / "decayed", lr=lr, weight_decay=decay, decays="matrices")
    for name, weight in start.items():
        expected = plain[name] if name in spared else plain[name] - lr * decay * weight
        torch.testing.assert_close(decayed[name], expected, rtol=1e-5, atol=1e-7)
    kinds = {name: type(model.get_submodule(name.rpartition(".")[0])).__name__ for name in start}
    assert {kinds[name] for name in start if name not in spared} == {"Linear"}
    assert {"Embedding", "LayerNorm"} <= {kinds[name] for name in spared}
    assert all(name in spared for name in start if name.endswith("bias"))


def test_training_does_not_import_the_compiler() -> None:
    code = """
import sys, torch
from egt.config.run import OptimizerConfig
from egt.training.state import AdamW
import egt.training.run
weight = torch.nn.Parameter(torch.ones(2))
optimizer = AdamW({"w": weight}, OptimizerConfig())
weight.sum().backward()
optimizer.step()
assert not [name for name in ("torch._dynamo", "scipy.signal", "lightning") if name in sys.modules]
"""
    subprocess.run([sys.executable, "-c", code], check=True)
