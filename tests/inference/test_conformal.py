"""Intervals and sets hold the truth as often as they promise; with other scores they do not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from egt.inference.uncertainty import (
    MOST_KEPT,
    Calibration,
    Floats,
    Scores,
    class_scores,
    holds,
    sizes,
)

DIVISIONS = 20


def test_the_quantile_is_the_score_at_the_rank_of_the_coverage() -> None:
    scores = Scores.of(np.arange(19.0, 0.0, -1.0))  # 1 to 19, in any order
    assert [scores.quantile(c) for c in (0.05, 0.5, 0.9, 0.95)] == [1.0, 10.0, 18.0, 19.0]
    assert scores.quantile(0.96) == math.inf  # 20 * 0.96 > 19: too few labels to promise so much
    assert Scores.of(np.zeros(0)).quantile(0.5) == math.inf


def test_of_many_scores_those_kept_give_nearly_the_same_quantile_and_never_a_smaller_one() -> None:
    values = np.random.default_rng(0).exponential(size=12_345)
    kept, all_of_them = Scores.of(values), Scores(tuple(np.sort(values).tolist()), len(values))
    assert len(kept.ranked) == MOST_KEPT
    assert kept.ranked[-1] == values.max()
    for coverage in (0.1, 0.5, 0.9, 0.99, 0.9995):
        exact, found = all_of_them.quantile(coverage), kept.quantile(coverage)
        assert exact <= found <= all_of_them.quantile(min(coverage + 0.0011, 1 - 1e-4))


def average_coverage(factor: float, *, classes: bool) -> float:
    """Over many divisions into calibration and test; `factor` tampers with the scores."""
    found = []
    for seed in range(DIVISIONS):
        rng = np.random.default_rng(seed)
        if classes:
            values, truth = imbalanced(rng)
            scores = class_scores(values[:400], truth[:400])
        else:
            values = rng.normal(size=(800, 2))
            truth = values + rng.standard_t(3, size=(800, 2)) * (1.0, 20.0)
            scores = Calibration.of_numbers(values[:400], truth[:400]).scores
        tampered = [[Scores(tuple(factor * x for x in each.ranked), each.count) for each in row] for row in scores]
        bounds = Calibration("set" if classes else "interval", tampered).bounds(values[400:], 0.9)
        found.append(holds(bounds, truth[400:]).mean(0))
    means: Floats = np.mean(found, axis=0)
    return float(means.min()) if factor < 1 else float(means[np.abs(means - 0.9).argmax()])


def imbalanced(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """(800, 1, 2) honest probabilities of a rare class, and its labels."""
    rare = rng.beta(0.5, 2.5, size=(800, 1))
    truth = (rng.random((800, 1)) < rare).astype(np.float64)
    return np.stack([1 - rare, rare], axis=2), truth


@pytest.mark.parametrize("classes", [False, True])
def test_they_hold_nine_of_ten_on_average_and_tampered_scores_do_not(classes: bool) -> None:
    assert 0.88 <= average_coverage(1.0, classes=classes) <= 0.92
    assert average_coverage(0.7, classes=classes) < 0.88


def test_rare_classes_are_held_as_often_as_frequent_ones() -> None:
    found = []
    for seed in range(DIVISIONS):
        values, truth = imbalanced(np.random.default_rng(seed))
        calibration = Calibration("set", class_scores(values[:400], truth[:400]))
        inside = holds(calibration.bounds(values[400:], 0.9), truth[400:])[:, 0]
        found.append([inside[truth[400:, 0] == label].mean() for label in (0, 1)])
    assert np.abs(np.mean(found, axis=0) - 0.9).max() < 0.02


def test_classes_of_like_size_share_their_scores_and_an_absent_one_is_in_every_set() -> None:
    values = np.full((12, 1, 3), 1 / 3)
    balanced = np.arange(12.0)[:, None] % 3
    assert [len(groups) for groups in class_scores(values, balanced)] == [1]
    groups = class_scores(values, np.where(balanced == 2, np.nan, balanced))[0]
    assert [each.count for each in groups] == [4, 4, 0]
    calibration = Calibration("set", [groups])
    np.testing.assert_array_equal(calibration.bounds(values[:1], 0.5), [[[True, True, True]]])
    np.testing.assert_array_equal(calibration.bounds(np.array([[[0.9, 0.1, 0.0]]]), 0.5), [[[True, False, True]]])


def test_missing_labels_count_nowhere() -> None:
    values, truth = np.zeros((3, 2)), np.array([[1.0, np.nan], [-3.0, 2.0], [np.nan, np.nan]])
    calibration = Calibration.of_numbers(values, truth)
    assert [groups[0].ranked for groups in calibration.scores] == [(1.0, 3.0), (2.0,)]
    bounds = calibration.bounds(values, 0.5)
    np.testing.assert_array_equal(bounds[0], [[-3, 3], [-2, 2]])
    np.testing.assert_array_equal(sizes(bounds)[0], [6, 4])
    np.testing.assert_array_equal(holds(bounds, truth + 1), [[1, np.nan], [1, 0], [np.nan, np.nan]])
