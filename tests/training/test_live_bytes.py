"""What is alive at once is counted: outputs, what the backward pass keeps, and no view twice."""

from __future__ import annotations

import torch

from egt.training.memory import LiveBytes


def test_the_peak_is_what_is_alive_at_once() -> None:
    with LiveBytes() as live:
        a = torch.zeros(1000)  # 4,000 bytes
        b = a.view(10, 100).T  # a view
        b += 1
        c = a + 1
        del c
        a + 2  # takes its place
    assert live.heap_peak == 8000
    assert live.pool_peak == 0


def test_the_backward_pass_keeps_what_it_needs() -> None:
    weight = torch.ones(1000, requires_grad=True)
    with LiveBytes([weight]) as live:
        loss = weight.exp().sin().sum()  # exp keeps its output, sin its input: the same tensor
        before = live.peak
        loss.backward()
    assert before == 8004  # the output of sin was alive with its sum
    assert live.peak == 4004 + 2 * 4000 + 4  # kept, and the gradients behind cos and its product


def test_outputs_of_the_kernel_are_counted_apart() -> None:
    @torch.library.custom_op("egt::twice_for_a_test", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    with LiveBytes() as live:
        twice(torch.zeros(500))
    assert (live.heap_peak, live.pool_peak, live.peak) == (2000, 2000, 4000)
