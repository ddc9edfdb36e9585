"""How a run is computed, from its settings and the machine."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from egt.assemble import build_model
from egt.config.load import override
from egt.config.presets import preset
from egt.inference import execution as module
from egt.inference.execution import Execution, execution
from egt.nn.kernels import fused, passes
from egt.training.footprint import synthetic_batch


@pytest.fixture(autouse=True)
def a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available", lambda: True)


@pytest.mark.parametrize(
    ("settings", "device", "expected"),
    [
        ([], "cpu", Execution("packed", True)),
        ([], "cuda", Execution("padded", False)),
        (["data.layout=packed"], "cuda", Execution("packed", False)),
        (["data.layout=padded"], "cpu", Execution("padded", False)),
        (["data.layout=edge_list", "model.scope=neighbors", "task.auxiliary=[]"], "cpu", Execution("edge_list", False)),
        (["trainer.compile=true"], "cpu", Execution("padded", False)),
        (["trainer.precision=bf16"], "cpu", Execution("packed", False, torch.bfloat16)),
        (["trainer.precision=16"], "cuda", Execution("padded", False, torch.float16)),
    ],
)
def test_layout_and_kernel(settings: list[str], device: str, expected: Execution) -> None:
    assert execution(override(preset("zinc-100k"), settings), device) == expected


def test_compiler_and_half_precision_are_for_training() -> None:
    config = override(preset("zinc-100k"), ["trainer.compile=true", "trainer.precision=bf16"])
    assert execution(config, training=False) == Execution("packed", True)


def test_without_a_compiler_there_is_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available", lambda: False)
    assert execution(preset("zinc-100k")) == Execution("packed", False)


@pytest.mark.parametrize("settings", [[], ["data.layout=padded"], ["trainer.precision=bf16"]])
def test_the_kernel_runs_where_it_is_said_to(settings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if not fused.available():
        pytest.skip("no compiler")
    calls = []

    def noted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return fused.pair_pass(*args, **kwargs)

    monkeypatch.setattr(passes, "pair_pass", noted)
    config = override(preset("zinc-100k"), settings)
    how = execution(config)
    model = build_model(config, fused=how.fused).train()
    with torch.autocast("cpu", torch.bfloat16, enabled=how.dtype != torch.float32):
        model(synthetic_batch(config, (5, 7), how.layout))
    assert len(calls) == (4 if how.fused else 0)
