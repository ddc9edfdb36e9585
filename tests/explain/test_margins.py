"""What is explained of a class does not saturate, and is its probability in other words."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from egt.explain.importance import margins
from egt.parts.tasks.classification import Binary, Multiclass
from egt.parts.tasks.regression import Regression
from egt.parts.tasks.task import TargetScale, Task, TaskPart


@pytest.mark.parametrize("part", [Multiclass(names=("y",), num_classes=3), Binary(names=("a", "b", "c"))])
def test_log_odds_are_those_of_the_probability(part: TaskPart) -> None:
    task, outputs = Task(part, "graph"), torch.randn(5, 3)
    torch.testing.assert_close(margins(task, outputs).sigmoid(), task.decode(outputs))


def test_a_certain_class_still_moves() -> None:
    outputs = torch.tensor([[40.0, 0.0, 0.0]], requires_grad=True)
    task = Task(Multiclass(names=("y",), num_classes=3), "graph")
    assert task.decode(outputs)[0, 0] == 1  # has no gradient that a float32 could hold
    found = margins(task, outputs)[0, 0]
    assert found.item() == pytest.approx(40 - 0.6931, abs=1e-3)
    [slope] = torch.autograd.grad(found, outputs)
    assert slope[0].tolist() == pytest.approx([1, -0.5, -0.5])


def test_numbers_are_in_their_unit() -> None:
    task = Task(Regression(names=("y",)), "graph", TargetScale((5.0,), (2.0,)))
    assert margins(task, torch.tensor([[1.0]])).item() == 7


def test_outputs_that_are_no_logits_are_read_from_the_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(Binary(names=("y",)), "graph")

    def decode(outputs: Tensor) -> Tensor:
        return outputs / 10

    monkeypatch.setattr(task, "decode", decode)
    torch.testing.assert_close(margins(task, torch.tensor([[5.0]])), torch.tensor([[0.0]]))
