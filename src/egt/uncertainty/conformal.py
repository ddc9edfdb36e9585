"""Split conformal prediction: intervals and sets that hold the truth as often as they promise.

A score says how far a label is from its prediction: |y - prediction| / unit of a number, 1 - p(label) of a class. The
unit is 1, or the deviation that the model predicts. Of n scores of rows that it was not fitted to, take the k-th
smallest,

    q = s_(k),  k = ceil((n + 1) coverage).

A new row that is exchangeable with them has a score of at most q with a chance of at least `coverage`, whatever the
model is. So prediction +- q unit, and the set of classes with 1 - p <= q, hold its label as often.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_KEPT = 1_000
"""Scores kept per group: more of them would only refine coverages beyond three digits."""
_IMBALANCE = 2.0
"""How many times more frequent the largest class may be than the smallest before each has scores of its own."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """The scores of the labels of one group: a target, or a class of a target.

    Fields:
        ranked: (m,) in ascending order; of more than `MOST_KEPT` labels, scores at equal distances in rank.
        count: n, how many labels they stand for.
    """

    ranked: tuple[float, ...]
    count: int

    @classmethod
    def of(cls, values: Floats) -> Scores:
        """Rank the scores of a group. values: (n,)."""
        count = len(values)
        kept = min(count, MOST_KEPT)
        places = -(-np.arange(1, kept + 1) * count // max(kept, 1)) - 1  # ceil(j n / m) - 1
        return cls(tuple(np.sort(values)[places].tolist()), count)

    def quantile(self, coverage: float) -> float:
        """Return q; infinite where there are too few labels for such a coverage."""
        rank = math.ceil(round((self.count + 1) * coverage, 9))
        if rank > self.count:
            return math.inf
        return self.ranked[-(-rank * len(self.ranked) // self.count) - 1]  # the first one kept from this rank on


def labels_needed(coverage: float) -> int:
    """Return the least n with a finite quantile: ceil((n + 1) coverage) <= n."""
    return math.ceil(round(coverage / (1 - coverage), 6))


def number_scores(values: Floats, truth: Floats, unit: Floats | float = 1.0) -> list[list[Scores]]:
    """Return the scores |y - prediction| / unit, one group for each target.

    Args:
        values: (rows, T) predictions.
        truth: (rows, T) labels, NaN where one is missing.
        unit: (rows, T) of each prediction.
    """
    residual = np.abs(truth - values) / unit
    return [[Scores.of(column[~np.isnan(column)])] for column in residual.T]


def class_scores(probabilities: Floats, truth: Floats) -> list[list[Scores]]:
    """Return the scores 1 - p(label) of each target: of all its labels, or of each class where some are rare.

    Rare classes would hardly count among all labels: a set could leave them out every time and keep its promise. Groups
    by class keep it for the rows of each.

    Args:
        probabilities: (rows, T, C).
        truth: (rows, T) numbers of classes, NaN where a label is missing.
    """
    num_classes = probabilities.shape[2]
    found = []
    for target in range(truth.shape[1]):
        known = np.flatnonzero(~np.isnan(truth[:, target]))
        labels = truth[known, target].astype(np.int64)
        scores = 1 - probabilities[known, target, labels]
        counts = np.bincount(labels, minlength=num_classes)
        groups = [labels == label for label in range(num_classes)]
        if counts.max() <= _IMBALANCE * counts.min():
            groups = [np.ones(len(known), dtype=bool)]
        found.append([Scores.of(scores[group]) for group in groups])
    return found


def intervals(values: Floats, scores: list[list[Scores]], coverage: float, unit: Floats | float = 1.0) -> Floats:
    """(rows, T, 2) the lowest and highest number of each interval. values, unit: (rows, T)."""
    width = _quantiles(scores, 1, coverage)[:, 0] * unit
    return np.stack([values - width, values + width], axis=2)


def sets(probabilities: Floats, scores: list[list[Scores]], coverage: float) -> NDArray[np.bool_]:
    """(rows, T, C) whether a class is in the set. probabilities: (rows, T, C)."""
    inside: NDArray[np.bool_] = 1 - probabilities <= _quantiles(scores, probabilities.shape[2], coverage)
    return inside


def _quantiles(scores: list[list[Scores]], width: int, coverage: float) -> Floats:
    """(T, width) q of each target, and of each of its classes where they have their own."""
    return np.stack([np.broadcast_to([each.quantile(coverage) for each in groups], (width,)) for groups in scores])


def holds(bounds: NDArray[np.bool_] | Floats, truth: Floats) -> Floats:
    """(rows, T) 1 where an interval or set holds the label, 0 where not, NaN where there is no label.

    Args:
        bounds: (rows, T, C) sets, or (rows, T, 2) intervals.
        truth: (rows, T) labels.
    """
    if bounds.dtype == bool:
        labels = np.nan_to_num(truth).astype(np.int64)
        inside = np.take_along_axis(bounds, labels[..., None], axis=2)[..., 0]
    else:
        inside = (bounds[..., 0] <= truth) & (truth <= bounds[..., 1])
    return np.where(np.isnan(truth), np.nan, inside)


def sizes(bounds: NDArray[np.bool_] | Floats) -> Floats:
    """(rows, T) the widths of intervals, or the numbers of classes in sets."""
    return bounds.sum(2).astype(np.float64) if bounds.dtype == bool else bounds[..., 1] - bounds[..., 0]
