"""Regression: errors on known labels only, in the unit of the targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from egt.batching.batch import GraphBatch
from egt.errors import DataError
from egt.tasks.regression import Regression
from egt.tasks.task import TargetScale, Task

NAN = float("nan")
Build = Callable[[Sequence[Sequence[float]]], GraphBatch]


def test_mae_sums_over_known_labels(graph_batch: Build) -> None:
    batch = graph_batch([[1.0, NAN], [2.0, 5.0]])
    total, count = Task(Regression(names=("a", "b")), "graph").loss(torch.zeros(2, 2), batch)
    assert (total.item(), count.item()) == (8.0, 3)


def test_mse_of_standardized_targets(graph_batch: Build) -> None:
    batch = graph_batch([[12.0], [NAN]])
    prediction = torch.tensor([[2.0], [9.0]], requires_grad=True)
    task = Task(Regression(names=("y",), loss="mse"), "graph", TargetScale(mean=(10.0,), std=(4.0,)))
    total, count = task.loss(prediction, batch)
    assert (total.item(), count.item()) == (1.5**2, 1)
    assert torch.autograd.grad(total, prediction)[0].tolist() == [[3.0], [0.0]]
    assert task.decode(prediction).tolist() == [[18.0], [46.0]]


def test_scores_are_in_the_unit_of_the_targets_and_say_how_many_labels(graph_batch: Build) -> None:
    batch = graph_batch([[12.0], [NAN], [8.0]])
    assert batch.graph_targets is not None
    scores = Task(Regression(names=("y",)), "graph", TargetScale(mean=(10.0,), std=(2.0,))).scores()
    scores.update(torch.tensor([[0.0], [1.0], [1.0]]), batch.graph_targets)
    assert scores.compute() == {"mae": 3.0, "rmse": pytest.approx(math.sqrt(10)), "num_labels": 2}


def test_scale_leaves_out_missing_labels_and_survives_constant_targets() -> None:
    rows = [np.array([1.0, 5.0, NAN]), np.array([[3.0, 5.0, NAN], [NAN, 5.0, NAN]])]
    assert TargetScale.of(rows) == TargetScale(mean=(2.0, 5.0, 0.0), std=(1.0, 1.0, 1.0))


def test_a_batch_without_targets_is_told_apart(graph_batch: Build) -> None:
    with pytest.raises(DataError, match="no node_targets"):
        Task(Regression(names=("y",)), "node").loss(torch.zeros(1, 1), graph_batch([[1.0]]))
