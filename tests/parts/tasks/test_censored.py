"""Labels that are bounds: no error on their right side, and metrics that say which rows they count."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from egt.data.batching.batch import GraphBatch
from egt.inference.evaluation import evaluate_answers
from egt.inference.uncertainty import calibrate, measure_coverage
from egt.parts.tasks.regression import Censored, Regression
from egt.parts.tasks.scores import BoundScores
from egt.parts.tasks.task import TargetScale, Task

NAN = float("nan")
Build = Callable[[Sequence[Sequence[float]]], GraphBatch]

LABELS = [[5.0, 5.0], [5.0, NAN], [NAN, 5.0], [NAN, NAN]]
"""5, >5, <5 and a missing label."""


@pytest.mark.parametrize(("loss", "power"), [("mae", 1), ("mse", 2)])
@pytest.mark.parametrize(("answer", "errors"), [(7.0, (2, 0, 2)), (2.0, (3, 3, 0)), (5.0, (0, 0, 0))])
def test_only_the_wrong_side_of_a_bound_is_an_error(
    graph_batch: Build, loss: str, power: int, answer: float, errors: Sequence[int]
) -> None:
    prediction = torch.full((4, 1), answer, requires_grad=True)
    total, count = Task(Censored(names=("y",), loss=loss), "graph").loss(prediction, graph_batch(LABELS))
    assert (total.item(), count.item()) == (sum(error**power for error in errors), 3)
    gradient = torch.autograd.grad(total, prediction)[0].flatten()
    slope = [0.0 if not error else math.copysign(power * error ** (power - 1), answer - 5) for error in errors]
    assert gradient.tolist() == [*slope, 0.0]


def test_without_bounds_it_is_a_regression(graph_batch: Build) -> None:
    labels = [[12.0, 3.0], [NAN, 5.0], [8.0, NAN]]
    scale = TargetScale.of(np.array(labels))
    prediction = torch.tensor([[0.5, -1.0], [2.0, 0.25], [-1.0, 1.0]])
    plain = Task(Regression(names=("a", "b")), "graph", scale)
    bounded = Task(Censored(names=("a", "b"), standardize=True), "graph", scale)
    both = graph_batch(np.repeat(labels, 2, axis=1).tolist())
    assert bounded.part.scale(np.repeat(labels, 2, axis=1)) == scale
    total, count = bounded.loss(prediction, both)
    expected_total, expected_count = plain.loss(prediction, graph_batch(labels))
    assert total.item() == pytest.approx(expected_total.item())
    assert count.item() == expected_count.item()
    scores, expected = bounded.scores(), plain.scores()
    scores.update(prediction, bounded.targets(both))
    expected.update(prediction, torch.tensor(labels))
    found = scores.compute()
    assert {name: found[name] for name in expected.compute()} == pytest.approx(expected.compute(), nan_ok=True)
    assert math.isnan(found["bounds_kept"])


def test_metrics_count_measured_labels_and_bounds_apart(graph_batch: Build) -> None:
    task = Task(Censored(names=("y",)), "graph", TargetScale(mean=(1.0,), std=(2.0,)))
    scores, more = task.scores(), task.scores()
    scores.update(torch.tensor([[3.0], [3.0], [3.0], [3.0]]), torch.tensor(LABELS))  # 7 in the unit of the labels
    more.update(torch.tensor([[3.5]]), torch.tensor([[7.5, NAN]]))
    scores.absorb(more)
    found = scores.compute()
    assert (found["mae"], found["num_labels"]) == (2.0, 1)
    assert found["num_bounds"] == 3
    assert found["bounds_kept"] == pytest.approx(2 / 3)


def test_each_target_has_its_own_bounds() -> None:
    scores = BoundScores()
    scores.update(torch.tensor([[6.0, 1.0], [6.0, 1.0]]), torch.tensor([[5.0, NAN, 0.0, 0.0], [6.5, 6.5, 2.0, NAN]]))
    one, other = scores.by_target()
    assert (one["bounds_kept"], one["mae"], other["bounds_kept"], other["mae"]) == (1.0, 0.5, 0.0, 1.0)


def test_answers_of_an_ensemble_are_evaluated_alike() -> None:
    part = Censored(names=("y",), standardize=True)
    task = Task(part, "graph", TargetScale(mean=(1.0,), std=(2.0,)))
    found = evaluate_answers(task, np.full((4, 1), 7.0), np.array(LABELS), num_graphs=4)
    assert found.loss == pytest.approx((1.0 + 0.0 + 1.0) / 3)
    assert (found.metrics["mae"], found.metrics["num_bounds"]) == (2.0, 2)


def test_intervals_rest_on_measured_labels() -> None:
    part = Censored(names=("y",))
    truth = np.array([[float(k)] * 2 for k in range(20)] + [[1.0, NAN]] * 30)
    calibration = calibrate(part, np.zeros((50, 1)), truth)
    assert calibration is not None
    assert calibration.scores[0][0].count == 20
    assert measure_coverage(part, calibration, np.zeros((50, 1)), truth)["targets"]["y"]["num_labels"] == 20


def test_labels_are_shown_with_their_signs() -> None:
    part = Censored(names=("a", "b"))
    assert part.true_columns(np.array([5.25, NAN, NAN, 1e-3])) == {"a_true": ">5.25", "b_true": "<0.001"}
    assert part.true_columns(np.array([7.0, 7.0, NAN, NAN])) == {"a_true": "7", "b_true": ""}


def test_the_uninformed_answer_takes_bounds_for_numbers() -> None:
    part = Censored(names=("y",))
    assert part.uninformed([np.array([4.0, 4.0]), np.array([6.0, NAN]), np.array([NAN, 8.0])]).tolist() == [6.0]
