"""Several processes: whole copies of the model or parts of it, the result is that of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from egt.config.run import RunConfig, TrainerConfig
from egt.errors import RunError
from egt.training.callbacks import Callback
from egt.training.run import Run, train_on
from egt.training.run_folder import StepSums, checkpoints_of
from egt.training.state import Engine, State
from tests.accelerator import show
from tests.training.tiny import tiny_config, tiny_samples


class Held(Callback):
    """Notes how many numbers of the weights the first process holds."""

    def on_start(self, state: State) -> None:
        parameters: list[Any] = list(state.model.parameters())
        held = sum(p.to_local().numel() if hasattr(p, "to_local") else p.numel() for p in parameters)
        (state.folder / "held").write_text(f"{held} {state.model.num_parameters()}")


class StopAt(Callback):
    """Stops the run after a step, as a user's own code may."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, state: State, step: StepSums) -> None:
        if state.progress.step == self.step:
            raise RunError("enough")


def two(strategy: str, **trainer: Any) -> RunConfig:
    """A run of two processes in which one has nothing to do in some steps; some batches come in parts."""
    settings = {"max_epochs": 2, "accumulate": 2, "devices": 2, "ema_decay": 0.9, "gradient_clip": 0.5}
    data = {"batch_size": 4, "pair_budget": 100}
    return tiny_config(data=data, trainer={**settings, "strategy": strategy, **trainer})


def train(config: RunConfig, folder: Path, **options: Any) -> Run:
    samples, validation = tiny_samples(config, 25), tiny_samples(config, 3, seed=4)
    return train_on(config, samples, validation, folder, show_progress=False, **options)


def curve(result: Run) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if "second" not in k} for row in result.history]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["32", "bf16"])
def test_parts_of_a_model_train_as_whole_copies_do(tmp_path: Path, precision: str) -> None:
    copies = train(two("ddp", precision=precision), tmp_path / "ddp", callbacks=[Held()])
    parts = train(two("fsdp", precision=precision), tmp_path / "fsdp", callbacks=[Held()])
    held, numbers = map(int, (tmp_path / "ddp/held").read_text().split())
    assert held == numbers
    held, numbers = map(int, (tmp_path / "fsdp/held").read_text().split())
    assert 0.5 * numbers <= held < 0.6 * numbers  # halves, rounded up
    tolerance = 1e-5 if precision == "32" else 1e-2
    assert copies.weights.keys() == parts.weights.keys()
    for name, weight in copies.weights.items():
        torch.testing.assert_close(parts.weights[name], weight, atol=tolerance, rtol=0)
    for mine, theirs in zip(curve(copies), curve(parts), strict=True):
        assert mine == pytest.approx(theirs, rel=tolerance)


@pytest.mark.slow
def test_parts_continue_exactly_and_their_checkpoints_are_those_of_copies(tmp_path: Path) -> None:
    often = {"checkpoint_minutes": 1e-6}
    alone = train(two("fsdp", **often), tmp_path / "alone")
    with pytest.raises(RunError, match="enough"):
        train(two("fsdp", **often), tmp_path / "stopped", callbacks=[StopAt(5)])
    kept = checkpoints_of(tmp_path / "stopped").latest()
    assert kept is not None
    assert kept[0]["progress"]["step"] == 5
    resumed = train(two("fsdp", **often), tmp_path / "stopped", resume=True)
    assert curve(alone) == curve(resumed)
    assert all(torch.equal(weight, resumed.weights[name]) for name, weight in alone.weights.items())
    # The files are the same whatever the processes held: whole copies go on from there.
    longer = train(two("ddp", **often, max_epochs=3), tmp_path / "stopped", resume=True)
    assert len(longer.history) == 3


def test_a_run_says_how_products_are_rounded_on_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", chosen.append)
    Engine(TrainerConfig(max_epochs=1, precision="tf32"))
    assert chosen == []  # the CPU is left alone
    show(monkeypatch)
    engines = [Engine(TrainerConfig(max_epochs=1, precision=name)) for name in ("tf32", "32")]
    assert chosen == ["high", "highest"]
    assert {engine.dtype for engine in engines} == {torch.float32}


@pytest.mark.slow
def test_layers_with_parameters_that_no_gradient_reaches_train_in_two_processes(tmp_path: Path) -> None:
    """Nodes alone are read behind the last layer, which also updates edges."""
    config = two("ddp", max_epochs=1)
    model = {
        **config.model.model_dump(),
        "layer": {"kind": "gatedgcn"},
        "scope": "neighbors",
        "edge_width": config.model.node_width,
    }
    content = config.model_dump() | {"model": model}
    content["data"]["layout"] = "edge_list"
    content["task"]["auxiliary"] = []
    assert len(train(RunConfig.model_validate(content), tmp_path / "run").history) == 1
