"""Numbers, bounds and yes/no in one task: each keeps its loss and its metrics, and weights do what they say."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from egt.inference.evaluation import evaluate_answers
from egt.inference.uncertainty import Calibration, bounds_of, calibrate, measure_coverage
from egt.parts.tasks.classification import Binary, Multiclass
from egt.parts.tasks.mixed import Mixed
from egt.parts.tasks.regression import Censored, Gaussian, Regression
from egt.parts.tasks.task import TargetScale, Task

NAN = float("nan")
NUMBERS = Regression(names=("logS", "logP"), standardize=True)
YES = Binary(names=("toxic",), class_names=("no", "yes"))


def joined(*parts: Any, **settings: Any) -> Mixed:
    names = tuple(name for part in parts for name in part.names)
    return Mixed(names=names, parts=parts, **{"target_weights": None, **settings})


def rows(count: int = 40, seed: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return outputs and labels of two numbers and a class; some labels are missing."""
    random = np.random.default_rng(seed)
    outputs = random.normal(size=(count, 3))
    numbers = 3 + 2 * outputs[:, :2] + random.normal(size=(count, 2))
    labels = np.column_stack([numbers, random.random(count) < 1 / (1 + np.exp(-outputs[:, 2]))])
    labels[random.random(labels.shape) < 0.2] = NAN
    return outputs, labels


def test_losses_metrics_and_answers_are_those_of_the_parts() -> None:
    outputs, labels = rows()
    task = joined(NUMBERS, YES)
    scale = task.scale([labels])
    assert scale is not None
    assert scale == TargetScale((*NUMBERS.scale([labels[:, :2]]).mean, 0.0), (*NUMBERS.scale([labels[:, :2]]).std, 1.0))
    prediction, whole = torch.tensor(outputs), Task(task, "graph", scale)
    alone = Task(NUMBERS, "graph", NUMBERS.scale([labels[:, :2]])), Task(YES, "graph")
    places = slice(0, 2), slice(2, 3)
    decoded = whole.decode(prediction).numpy()
    for one, place in zip(alone, places, strict=True):
        np.testing.assert_allclose(decoded[:, place], one.decode(prediction[:, place]).numpy())
        np.testing.assert_allclose(whole.encode(decoded)[:, place], outputs[:, place], atol=1e-5)
    found = evaluate_answers(whole, decoded, labels, num_graphs=40)
    each = [
        evaluate_answers(one, decoded[:, place], labels[:, place], num_graphs=40)
        for one, place in zip(alone, places, strict=True)
    ]
    counts = [each[0].metrics["num_labels"], each[1].metrics["num_labels"]]
    assert found.loss == pytest.approx((each[0].loss * counts[0] + each[1].loss * counts[1]) / sum(counts), rel=1e-5)
    assert found.metrics["num_labels"] == sum(counts)
    assert found.metrics["roc_auc"] == each[1].metrics["roc_auc"]
    assert found.metrics["spearman"] == pytest.approx(each[0].metrics["spearman"])
    skills = [found.by_target[name]["r2"] for name in NUMBERS.names] + [2 * each[1].metrics["roc_auc"] - 1]
    assert found.metrics["skill"] == pytest.approx(np.mean(skills))
    assert "rmse" not in found.metrics  # of two units
    assert list(found.by_target) == ["logS", "logP", "toxic"]
    row = task.columns(decoded[0].astype(np.float32))
    assert list(row) == ["logS", "logP", "toxic", "toxic_no_probability", "toxic_yes_probability"]
    assert task.true_columns(np.array([1.5, NAN, 1.0])) == {"logS_true": 1.5, "logP_true": "", "toxic_true": "yes"}


def test_no_target_drowns() -> None:
    """Constant answers have the loss 1, to which targets add the more, the more labels, but not in proportion.

    Numbers add four times what the likelihood of yes/no does.
    """
    random = np.random.default_rng(0)
    labels = np.column_stack([100 * random.normal(size=1000), random.random(1000) < 0.1])
    labels[100:, 0] = NAN
    task = joined(Regression(names=("rare",)), Binary(names=("common",)), target_weights="balanced").fitted([labels])
    answer = torch.tensor(task.uninformed([labels]))[None].repeat(1000, 1)
    each = task.losses(answer, torch.tensor(labels)).sum(0)
    assert float(each.sum()) / 1100 == pytest.approx(1)
    share = labels[:, 1].mean()
    entropy = -share * math.log(share) - (1 - share) * math.log(1 - share)
    assert float(each[1] / each[0]) == pytest.approx(math.sqrt(10) * entropy / 4, rel=1e-3)


def test_fitted_weights_stay_and_a_target_without_labels_has_none() -> None:
    labels = np.column_stack([np.arange(8.0), np.full(8, NAN)])
    task = joined(Regression(names=("a",)), Binary(names=("b",)), target_weights="balanced")
    fitted = task.fitted([labels])
    assert fitted.target_weights is not None
    assert fitted.fitted([10 * labels]).target_weights == fitted.target_weights
    assert fitted.target_weights[1] == 0
    assert fitted.target_weights[0] > 0


def test_rows_weigh_what_their_last_column_says() -> None:
    outputs, labels = rows()
    once = joined(NUMBERS, YES)
    weighted = joined(NUMBERS, YES, row_weights=True)
    weight = np.tile([0.0, 1.0, 2.0, 0.5], 10)
    each = once.losses(torch.tensor(outputs), torch.tensor(labels))
    both = np.column_stack([labels, weight])
    total = weighted.loss_sum(torch.tensor(outputs), torch.tensor(both))
    assert float(total) == pytest.approx(float((each * torch.tensor(weight)[:, None]).sum()))
    assert weighted.label_width == once.label_width + 1
    assert weighted.count_labels(torch.tensor(both)) == once.count_labels(torch.tensor(labels))
    np.testing.assert_array_equal(weighted.numbers(both), labels)
    doubled, plain = (
        weighted.model_copy(update={"target_weights": "balanced"}).fitted([np.column_stack([labels, w])])
        for w in (np.full(40, 2.0), np.ones(40))
    )
    np.testing.assert_allclose(np.array(plain.target_weights) / np.array(doubled.target_weights), 2.0)


def test_a_single_part_with_weights_is_that_part() -> None:
    outputs, labels = rows()
    plain, mixed = NUMBERS, joined(NUMBERS, row_weights=True)
    scores, expected = mixed.scores(), plain.scores()
    scores.update(torch.tensor(outputs[:, :2]), torch.tensor(np.column_stack([labels[:, :2], np.ones(40)])))
    expected.update(torch.tensor(outputs[:, :2]), torch.tensor(labels[:, :2]))
    assert scores.compute() == expected.compute()
    assert (mixed.deciding_metric, mixed.higher_is_better) == (plain.deciding_metric, plain.higher_is_better)
    assert joined(YES, row_weights=True).has_classes


def test_bounds_and_yes_no_together() -> None:
    task = joined(Censored(names=("ic50",)), YES)
    labels = torch.tensor([[5.0, NAN, 1.0], [5.0, 5.0, NAN], [NAN, NAN, 0.0]])
    prediction = torch.tensor([[7.0, 0.0], [7.0, 0.0], [7.0, 0.0]])
    assert task.losses(prediction, labels).tolist() == [
        [0.0, pytest.approx(math.log(2))],
        [2.0, 0.0],
        [0.0, pytest.approx(math.log(2))],
    ]
    assert task.count_labels(labels) == 4
    scores = task.scores()
    scores.update(prediction, labels)
    found = scores.compute()
    assert (found["num_labels"], found["num_bounds"], found["bounds_kept"], found["mae"]) == (3, 1, 1.0, 2.0)


def test_numbers_get_intervals_and_classes_get_sets() -> None:
    outputs, labels = rows(400)
    whole = Task(joined(NUMBERS, YES), "graph", joined(NUMBERS, YES).scale([labels]))
    values = whole.decode(torch.tensor(outputs)).double().numpy()
    found = calibrate(whole.part, values, labels)
    assert found is not None
    assert found.kind == "mixed"
    assert found.temperatures[:2] == (1.0, 1.0)
    found = Calibration.from_json(json.dumps(found.to_json(whole.part.names)), "here")
    found.check_fits(whole.part, "here")
    numbers, classes = calibrate(NUMBERS, values[:, :2], labels[:, :2]), calibrate(YES, values[:, 2:], labels[:, 2:])
    bounds = bounds_of(whole.part, found, values)
    np.testing.assert_array_equal(bounds[:, :2], bounds_of(NUMBERS, numbers, values[:, :2]))
    np.testing.assert_array_equal(bounds[:, 2:], bounds_of(YES, classes, values[:, 2:]))
    row = whole.part.bound_columns(bounds[0])
    assert list(row) == ["logS_low", "logS_high", "logP_low", "logP_high", "toxic_set"]
    covered = measure_coverage(whole.part, found, values, labels)["targets"]
    assert {name: each["kind"] for name, each in covered.items()} == {
        "logS": "interval",
        "logP": "interval",
        "toxic": "set",
    }
    assert all(0.85 < each["coverage"] <= 1 for each in covered.values())


@pytest.mark.parametrize(
    ("parts", "settings", "named"),
    [
        ((Multiclass(num_classes=3),), {}, "multiclass"),
        ((Gaussian(names=("y",)),), {}, "gaussian"),
        ((YES,), {"target_weights": (1.0, 2.0)}, "target_weights"),
        ((YES,), {"names": ("other",)}, "names"),
        ((YES.model_copy(update={"class_weights": (1.0, 2.0)}),), {}, "class_weights"),
    ],
)
def test_what_does_not_fit_together_is_named(parts: Any, settings: dict[str, Any], named: str) -> None:
    names = tuple(name for part in parts for name in part.names)
    with pytest.raises(ValidationError, match=named):
        Mixed(**{"names": names, "parts": parts, **settings})
