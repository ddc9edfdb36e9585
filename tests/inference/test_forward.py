"""Samples through a model, without gradients: each once, in step where that is asked for, and ending when told to."""

from __future__ import annotations

import pytest

from egt.assemble import build_model
from egt.inference import forward as module
from egt.inference.forward import forward
from egt.processes import Processes
from tests.training.tiny import tiny_config, tiny_samples


@pytest.mark.parametrize("in_step", [False, True])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_processes_share_a_split(in_step: bool, num_workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRAPHS_AT_ONCE", 4)
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


def test_small_training_batches_do_not_make_predictions_slow() -> None:
    config = tiny_config(data={"batch_size": 4})
    model, samples = build_model(config), tiny_samples(config, 40)
    assert [len(numbers) for numbers, *_ in forward(model, config, samples)] == [40]
    narrow = tiny_config(data={"batch_size": 4, "pair_budget": 200})  # the budget of pairs still holds
    for numbers, *_ in forward(model, narrow, samples):
        assert sum(samples[k].graph.num_nodes ** 2 for k in numbers) <= 200
