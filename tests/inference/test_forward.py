"""Samples through a model, without gradients: each once, in step where that is asked for, and ending when told to."""

from __future__ import annotations

import pytest

from egt.assemble import build_model
from egt.execution.processes import Processes
from egt.inference.forward import forward
from tests.training.tiny import tiny_config, tiny_samples


@pytest.mark.parametrize("in_step", [False, True])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_processes_share_a_split(in_step: bool, num_workers: int) -> None:
    config = tiny_config(data={"batch_size": 4})
    model, samples = build_model(config), tiny_samples(config, 13)
    calls: list[int] = []
    model.register_forward_hook(lambda *_: calls.append(1))
    seen, runs = list[int](), []
    for rank in range(3):
        options = {"in_step": in_step, "num_workers": num_workers}
        for numbers, batch, output in forward(model, config, samples, None, Processes(rank, 3), **options):
            seen += numbers.tolist()
            assert batch.graph_ids.tolist() == numbers.tolist()
            assert len(output) == len(numbers)
        runs.append(len(calls))
        calls.clear()
    assert sorted(seen) == list(range(13))
    assert runs == ([2, 2, 2] if in_step else [2, 1, 1])


def test_it_ends_when_told_to_and_the_model_is_as_before() -> None:
    config = tiny_config(data={"batch_size": 4})
    model, samples = build_model(config).train(), tiny_samples(config, 14)
    assert len(list(forward(model, config, samples, stop=lambda: True))) == 1
    assert model.training
