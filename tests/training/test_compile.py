"""`trainer.compile`: the compiled layers are the plain ones, and the run is the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from egt.parts.schedules import ConstantRate
from egt.training.run import train_on
from tests.training.tiny import tiny_config, tiny_samples


@pytest.mark.slow
def test_a_compiled_run_learns_the_same(tmp_path: Path) -> None:
    results = []
    for compiled in (False, True):
        config = tiny_config(
            model={"num_layers": 1, "masking": {"probability": 0.0}, "attention_dropout": 0.0},
            trainer={"max_epochs": 2, "compile": compiled, "select": "last"},
            schedule=ConstantRate(),
        )
        results.append(train_on(config, tiny_samples(config, 20), None, folder=tmp_path / str(compiled)))
    plain, compiled_run = results
    assert set(compiled_run.weights) == set(plain.weights)  # no trace of the compiler in the names
    for name, weight in plain.weights.items():
        torch.testing.assert_close(compiled_run.weights[name], weight, rtol=1e-3, atol=1e-4, msg=name)


def test_packed_batches_are_not_compiled() -> None:
    with pytest.raises(ValidationError, match=r"trainer\.compile.*data\.layout"):
        tiny_config(data={"layout": "packed"}, trainer={"compile": True})
