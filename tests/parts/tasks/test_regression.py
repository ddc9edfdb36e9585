"""Regression: errors on known labels only, in the unit of the targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from egt.data.batching.batch import GraphBatch
from egt.errors import DataError
from egt.parts.tasks.regression import Regression
from egt.parts.tasks.scores import ErrorScores
from egt.parts.tasks.task import TargetScale, Task

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
    expected = {"mae": 3.0, "rmse": pytest.approx(math.sqrt(10)), "r2": -1.5, "num_labels": 2}
    found = scores.compute()
    assert {name: found[name] for name in expected} == expected


def test_r2_and_spearman_equal_scikit_learn_and_scipy_for_each_target() -> None:
    metrics, stats = pytest.importorskip("sklearn.metrics"), pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    target = rng.integers(0, 9, (200, 2)).astype(np.float64)  # with ties
    prediction = target + rng.normal(size=(200, 2)).round(1)
    target[rng.random((200, 2)) < 0.2] = NAN
    scores = ErrorScores()
    scores.update(torch.tensor(prediction), torch.tensor(target))
    each = scores.by_target()
    for k, found in enumerate(each):
        known = ~np.isnan(target[:, k])
        label, answer = target[known, k], prediction[known, k]
        assert found["r2"] == pytest.approx(metrics.r2_score(label, answer))
        assert found["spearman"] == pytest.approx(stats.spearmanr(label, answer).statistic)
        assert found["mae"] == pytest.approx(metrics.mean_absolute_error(label, answer))
        assert found["rmse"] == pytest.approx(metrics.root_mean_squared_error(label, answer))
        assert found["num_labels"] == known.sum()
    assert scores.compute()["r2"] == pytest.approx(np.mean([found["r2"] for found in each]))


def test_what_does_not_vary_has_no_rank_correlation() -> None:
    scores = ErrorScores()
    scores.update(torch.zeros(3, 1), torch.tensor([[1.0], [2.0], [3.0]]))
    assert math.isnan(scores.compute()["spearman"])
    assert scores.compute()["r2"] == pytest.approx(1 - 14 / 2)


def test_scale_leaves_out_missing_labels_and_survives_constant_targets() -> None:
    rows = [np.array([1.0, 5.0, NAN]), np.array([[3.0, 5.0, NAN], [NAN, 5.0, NAN]])]
    assert TargetScale.of(rows) == TargetScale(mean=(2.0, 5.0, 0.0), std=(1.0, 1.0, 1.0))


def test_a_batch_without_targets_is_told_apart(graph_batch: Build) -> None:
    with pytest.raises(DataError, match="no node_targets"):
        Task(Regression(names=("y",)), "node").loss(torch.zeros(1, 1), graph_batch([[1.0]]))


def test_without_a_look_at_the_graph_the_mean_is_answered() -> None:
    rows = [np.array([[1.0, NAN, NAN]]), np.array([[2.0, 4.0, NAN], [6.0, NAN, NAN]])]
    np.testing.assert_allclose(Regression(names=("a", "b", "c")).uninformed(rows), [3.0, 4.0, NAN])
