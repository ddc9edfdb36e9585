"""How a run is computed, from its settings and the machine."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from egt.assemble import build_model
from egt.config.load import override
from egt.errors import ConfigError
from egt.inference import backends as execution_module
from egt.inference import backends as module
from egt.inference.backends import CPU, PLAIN, Execution, execution
from egt.nn.kernels import layers, operators
from egt.paper.presets import preset
from egt.training.memory import synthetic_batch


@pytest.fixture(autouse=True)
def a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_module, "available", lambda: True)
    module._notice.cache_clear()


@pytest.mark.parametrize(
    ("settings", "device", "expected"),
    [
        ([], "cpu", Execution("packed", CPU)),
        ([], "cuda", Execution("padded", PLAIN)),
        (["data.layout=packed"], "cuda", Execution("packed", PLAIN)),
        (["data.layout=padded"], "cpu", Execution("padded", PLAIN)),
        (["data.layout=edge_list", "model.scope=neighbors", "task.auxiliary=[]"], "cpu", Execution("edge_list", CPU)),
        (["trainer.compile=true"], "cpu", Execution("padded", PLAIN)),
        (["trainer.precision=bf16"], "cpu", Execution("packed", PLAIN, torch.bfloat16)),
        (["trainer.precision=16"], "cuda", Execution("padded", PLAIN, torch.float16)),
    ],
)
def test_layout_and_kernel(settings: list[str], device: str, expected: Execution) -> None:
    assert execution(override(preset("zinc-100k"), settings), device) == expected


def test_compiler_and_half_precision_are_for_training() -> None:
    config = override(preset("zinc-100k"), ["trainer.compile=true", "trainer.precision=bf16"])
    assert execution(config, training=False) == Execution("packed", CPU)


def test_without_a_compiler_there_is_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_module, "available", lambda: False)
    assert execution(preset("zinc-100k")) == Execution("packed", PLAIN)


@pytest.mark.parametrize("settings", [[], ["data.layout=padded"], ["trainer.precision=bf16"]])
def test_the_kernel_runs_where_it_is_said_to(settings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if not operators.available():
        pytest.skip("no compiler")
    calls = []

    def noted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return operators.pair_pass(*args, **kwargs)

    monkeypatch.setattr(layers, "pair_pass", noted)
    config = override(preset("zinc-100k"), settings)
    how = execution(config)
    model = build_model(config, backend=how.backend).train()
    with torch.autocast("cpu", torch.bfloat16, enabled=how.dtype != torch.float32):
        model(synthetic_batch(config, (5, 7), how.layout))
    assert len(calls) == (4 if how.backend is CPU else 0)


@pytest.mark.parametrize(
    ("settings", "device", "message"),
    [
        (
            ["trainer.backend=cpu"],
            "cuda",
            "computes",
        ),
        (["trainer.backend=cpu", "data.layout=padded"], "cpu", "padded"),
        (["trainer.backend=cpu", "trainer.precision=bf16"], "cpu", "computes"),
    ],
)
def test_a_backend_that_cannot_compute_the_run_is_an_error(settings: list[str], device: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        execution(override(preset("zinc-100k"), settings), device)
    assert "leave it at 'auto'" in str(error.value)


def test_a_backend_can_be_chosen() -> None:
    assert execution(override(preset("zinc-100k"), ["trainer.backend=plain"])) == Execution("packed", PLAIN)
    assert execution(override(preset("zinc-100k"), ["trainer.backend=cpu"])) == Execution("packed", CPU)


def test_one_notice_says_why_the_kernel_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    config = override(preset("zinc-100k"), ["trainer.precision=bf16"])
    execution(config)
    execution(config)
    assert caplog.messages == [
        "the CPU kernel is not used: it computes in float32, and this run in bfloat16; plain PyTorch computes instead"
    ]


@pytest.mark.parametrize(
    ("settings", "device"),
    [([], "cpu"), ([], "cuda"), (["data.layout=padded"], "cpu"), (["trainer.backend=plain"], "cpu")],
)
def test_no_notice_where_nothing_else_was_to_be_expected(
    settings: list[str], device: str, caplog: pytest.LogCaptureFixture
) -> None:
    execution(override(preset("zinc-100k"), settings), device)
    assert caplog.messages == []
