"""The accelerator without hardware sees what a real one would refuse, and when the host waits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from egt.data.batching.batch import LayoutName, collate
from egt.data.encodings.encoding import Sample
from egt.graph import Graph
from tests.accelerator import DEVICE, on_cpu, switched_on

WAITING: dict[str, Callable[[Tensor], object]] = {
    "a number": lambda x: x[0].item(),
    "a condition": lambda x: bool(x[0] > 0),
    "a copy": lambda x: x.cpu(),
    "places": lambda x: x.nonzero(),
    "a selection": lambda x: x[x > 1],
    "a part of unknown size": lambda x: x.masked_select(x > 1),
    "repetitions": lambda x: torch.repeat_interleave(x.long()),
    "an upload of a list": lambda x: torch.tensor([1.0], device=x.device),
    "an upload of a tensor": lambda x: torch.ones(3).to(x.device, non_blocking=True),
    "a copy into it": lambda x: x.copy_(torch.ones(3)),
}
PASSING: dict[str, Callable[[Tensor], object]] = {
    "arithmetic": lambda x: (x * 2 + torch.arange(3, device=x.device)).sum(),
    "a number of the host": lambda x: x * torch.tensor(2.0),
    "rows": lambda x: x[torch.arange(2, device=x.device)],
    "zeros in place of a selection": lambda x: torch.where(x > 1, x, 0.0),
    "repetitions of known size": lambda x: torch.repeat_interleave(x.long(), output_size=6),
    "an upload from pinned memory": lambda x: torch.ones(3).pin_memory().to(x.device, non_blocking=True),
}


def there() -> Tensor:
    return torch.tensor([1.0, 2.0, 3.0]).to(DEVICE)


@pytest.mark.parametrize("ask", WAITING.values(), ids=WAITING)
def test_the_host_waits_for(ask: Callable[[Tensor], object]) -> None:
    with switched_on() as device:
        x = there()
        device.waits.clear()
        ask(x)
        assert len(device.waits) == 1


@pytest.mark.parametrize("ask", PASSING.values(), ids=PASSING)
def test_the_host_does_not_wait_for(ask: Callable[[Tensor], object]) -> None:
    with switched_on() as device:
        x = there()
        device.waits.clear()
        ask(x)
        assert device.waits == []


def test_what_is_not_on_the_device_cannot_be_mixed_with_it() -> None:
    with switched_on(), pytest.raises(RuntimeError, match="tensors"):
        there() + torch.ones(3)


def test_there_is_no_float64() -> None:
    with switched_on(), pytest.raises(TypeError, match="float64"):
        there().double()


def test_gradients_are_there_too() -> None:
    with switched_on():
        x = there().requires_grad_()
        (x**2).sum().backward()
        assert x.grad is not None
        assert x.grad.device == DEVICE
        assert on_cpu(x.grad).tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("layout", ["packed", "padded", "edge_list"])
def test_a_batch_leaves_from_pinned_memory(layout: LayoutName) -> None:
    path = Graph.undirected(num_nodes=3, edge_index=np.array([[0, 1], [1, 2]]), graph_targets=[1.0])
    batch = collate([Sample(path), Sample(path)], layout)
    with switched_on() as device:
        moved = batch.to(DEVICE)
        indices = moved.layout.pair_indices
        assert device.waits == []
    assert {moved.graph_ids.device, moved.edge_pairs.device, indices.i.device} == {DEVICE}
    assert torch.equal(on_cpu(indices.i), batch.layout.pair_indices.i)
