"""Accumulators of metrics over a split. Sums are exact enough for millions of labels: float64 on the CPU.

An accumulator takes decoded or raw predictions with their targets; missing labels (NaN) are left out. `absorb` adds
what another process saw, so the result does not depend on how a split was divided.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Scores(Protocol):
    """The metrics of a split, fed batch by batch."""

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """Add a batch. prediction: (rows, outputs) as the model gave it, target: (rows, T)."""

    def absorb(self, other: Self) -> None:
        """Add what another accumulator of the same task saw."""

    def compute(self) -> dict[str, float]:
        """Return the metrics by name, and `num_labels` on which they were computed; NaN where there was no label."""


@runtime_checkable
class TargetScores(Scores, Protocol):
    """Metrics that can be told for each target."""

    def by_target(self) -> list[dict[str, float]]:
        """Return what `compute` gives, of each target alone, in their order."""


class _Values:
    """Predictions and targets of a split, kept for metrics that are not sums."""

    def __init__(self) -> None:
        self.predictions: list[NDArray[np.float64]] = []
        self.targets: list[NDArray[np.float64]] = []

    def add(self, prediction: Tensor, target: Tensor) -> None:
        """Keep a batch."""
        self.predictions.append(prediction.detach().cpu().double().numpy())
        self.targets.append(target.detach().cpu().double().numpy())

    def absorb(self, other: _Values) -> None:
        """Keep what another one has kept."""
        self.predictions += other.predictions
        self.targets += other.targets

    def columns(self) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """For each target its predictions and labels, without those that are missing."""
        if not self.targets:
            return []
        pairs = zip(np.concatenate(self.predictions).T, np.concatenate(self.targets).T, strict=True)
        return [(prediction[~np.isnan(target)], target[~np.isnan(target)]) for prediction, target in pairs]


class ErrorScores:
    """`mae` and `rmse` in the unit of the targets, over all labels of all targets.

    `r2` and `spearman` are means over the targets whose labels are not all the same.
    """

    def __init__(self) -> None:
        self.sums = torch.zeros(3, dtype=torch.float64)  # |error|, error^2, labels
        self.values = _Values()

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """See `Scores.update`."""
        error = prediction.detach().cpu().double() - target.cpu().double()
        error = error[~target.cpu().isnan()]
        self.sums += torch.stack([error.abs().sum(), error.square().sum(), torch.tensor(float(error.numel()))])
        self.values.add(prediction, target)

    def absorb(self, other: Self) -> None:
        """See `Scores.absorb`."""
        self.sums = self.sums + other.sums
        self.values.absorb(other.values)

    def compute(self) -> dict[str, float]:
        """See `Scores.compute`."""
        absolute, squared, labels = self.sums.tolist()
        each = self.by_target()
        return {
            "mae": absolute / labels if labels else float("nan"),
            "rmse": float(np.sqrt(squared / labels)) if labels else float("nan"),
            "r2": _mean(scores["r2"] for scores in each),
            "spearman": _mean(scores["spearman"] for scores in each),
            "num_labels": labels,
        }

    def by_target(self) -> list[dict[str, float]]:
        """See `TargetScores.by_target`."""
        return [
            {
                "mae": _mean(np.abs(prediction - target)),
                "rmse": float(np.sqrt(_mean((prediction - target) ** 2))),
                "r2": r2(prediction, target),
                "spearman": spearman(prediction, target),
                "num_labels": float(len(target)),
            }
            for prediction, target in self.values.columns()
        ]


class MeanScores(ErrorScores):
    """The same of answers that have a deviation for each target behind the numbers."""

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """See `Scores.update`; prediction: (rows, 2 T)."""
        super().update(prediction[:, : target.shape[1]], target)


class ClassScores:
    """Scores of one of several classes, pooled over every label of the split, from one confusion matrix.

    `accuracy`; `weighted_accuracy`, also called `balanced_accuracy`: the mean recall of the classes that occur; `f1`:
    of two classes that of class 1, of more the mean over those that occur or are answered; `mcc` (Matthews), which
    is 0 where all labels or all answers are of one class.

    Args:
        num_classes: C.
    """

    def __init__(self, num_classes: int) -> None:
        self.confusion = torch.zeros(num_classes, num_classes, dtype=torch.int64)  # [target, predicted]

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """See `Scores.update`."""
        num_classes = len(self.confusion)
        known = ~target[:, 0].isnan()
        pairs = target[known, 0].long() * num_classes + prediction.detach()[known].argmax(-1)
        self.confusion += torch.bincount(pairs.cpu(), minlength=num_classes**2).view(num_classes, num_classes)

    def absorb(self, other: Self) -> None:
        """See `Scores.absorb`."""
        self.confusion = self.confusion + other.confusion

    def compute(self) -> dict[str, float]:
        """See `Scores.compute`."""
        confusion = self.confusion.numpy().astype(np.float64)
        right, of_class, as_class = np.diag(confusion), confusion.sum(1), confusion.sum(0)
        labels = float(confusion.sum())
        occurs, found = of_class > 0, of_class + as_class
        recall = _mean(right[occurs] / of_class[occurs])
        f1 = np.divide(2 * right, found, out=np.full(len(found), np.nan), where=found > 0)  # 2 TP / (2 TP + FP + FN)
        return {
            "accuracy": float(right.sum() / labels) if labels else float("nan"),
            "weighted_accuracy": recall,
            "balanced_accuracy": recall,
            "f1": float(f1[1]) if len(f1) == 2 else _mean(f1),
            "mcc": _matthews(right.sum(), of_class, as_class) if labels else float("nan"),
            "num_labels": labels,
        }


class RankingScores:
    """Scores of labels 0 and 1, each the mean over the targets that have one.

    `roc_auc`, `average_precision`, `balanced_accuracy` and `mcc` (Matthews) need labels of both classes; `num_targets`
    says how many targets have them. `accuracy` needs labels, `f1` (of class 1) a label or answer 1. Logits are ranked
    as they are: a sigmoid would tie the confident ones. The answer is 1 from a probability of one half.
    """

    names = ("roc_auc", "average_precision", "accuracy", "balanced_accuracy", "f1", "mcc")

    def __init__(self) -> None:
        self.values = _Values()

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """See `Scores.update`."""
        self.values.add(prediction, target)

    def absorb(self, other: Self) -> None:
        """See `Scores.absorb`."""
        self.values.absorb(other.values)

    def compute(self) -> dict[str, float]:
        """See `Scores.compute`."""
        each = self.by_target()
        means = {name: _mean(scores[name] for scores in each) for name in self.names}
        ranked = sum(not np.isnan(scores["roc_auc"]) for scores in each)
        return {**means, "num_targets": float(ranked), "num_labels": sum(scores["num_labels"] for scores in each)}

    def by_target(self) -> list[dict[str, float]]:
        """See `TargetScores.by_target`."""
        return [
            {**_binary_scores(logit, target > 0.5), "num_labels": float(len(target))}
            for logit, target in self.values.columns()
        ]


def _matthews(right: float, of_class: NDArray[Any], as_class: NDArray[Any]) -> float:
    """Correlate labels and answers; 0 where all of either are the same.

    Args:
        right: how many answers are.
        of_class: (C,) labels of each class.
        as_class: (C,) answers.
    """
    total = of_class.sum()
    spread = np.sqrt((total**2 - (of_class**2).sum()) * (total**2 - (as_class**2).sum()))
    return float((right * total - of_class @ as_class) / spread) if spread else 0.0


def _binary_scores(logit: NDArray[Any], positive: NDArray[np.bool_]) -> dict[str, float]:
    """Return the scores of one target, NaN where its labels do not define one. logit, positive: (n,)."""
    both = bool(positive.any() and not positive.all())
    answer = logit >= 0
    hits, alarms = float((answer & positive).sum()), float((answer & ~positive).sum())
    misses, rests = float((~answer & positive).sum()), float((~answer & ~positive).sum())
    found = 2 * hits + alarms + misses
    spread = (hits + alarms) * (hits + misses) * (rests + alarms) * (rests + misses)
    nan = float("nan")
    return {
        "roc_auc": roc_auc(logit, positive) if both else nan,
        "average_precision": average_precision(logit, positive) if both else nan,
        "accuracy": (hits + rests) / len(logit) if len(logit) else nan,
        "balanced_accuracy": (hits / (hits + misses) + rests / (rests + alarms)) / 2 if both else nan,
        "f1": 2 * hits / found if found else nan,
        "mcc": ((hits * rests - alarms * misses) / np.sqrt(spread) if spread else 0.0) if both else nan,
    }


def _mean(values: Iterable[float]) -> float:
    """Return the mean of the numbers that are there; NaN without any."""
    found = values if isinstance(values, np.ndarray) else np.array([*values], np.float64)
    known = found[~np.isnan(found)]
    return float(known.mean()) if len(known) else float("nan")


def r2(prediction: NDArray[Any], target: NDArray[Any]) -> float:
    """1 - squared errors / squared deviations from the mean; NaN if the targets do not vary. Both are (n,)."""
    deviations = float(((target - target.mean()) ** 2).sum()) if len(target) else 0.0
    return 1 - float(((prediction - target) ** 2).sum()) / deviations if deviations else float("nan")


def spearman(prediction: NDArray[Any], target: NDArray[Any]) -> float:
    """Correlate the ranks, those of ties being their mean; NaN if either does not vary. Both are (n,)."""
    if len(target) < 2 or np.ptp(target) == 0 or np.ptp(prediction) == 0:
        return float("nan")
    return float(np.corrcoef(_ranks(prediction), _ranks(target))[0, 1])


def _ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """(n,) ranks from 0, ties with their mean."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count) - 1
    ranks: NDArray[np.float64] = (last - (count - 1) / 2)[place]
    return ranks


def _cumulative(score: NDArray[Any], positive: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count true and false positives at each distinct threshold, from the highest score down."""
    order = np.argsort(-score, kind="stable")
    last_of_tie = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    hits = np.cumsum(positive[order])[last_of_tie]
    return hits, last_of_tie + 1 - hits


def roc_auc(score: NDArray[Any], positive: NDArray[np.bool_]) -> float:
    """Return the chance that a positive scores above a negative, ties counting half. score, positive: (n,)."""
    hits, alarms = (np.append(0, counts) for counts in _cumulative(score, positive))
    return float(np.sum(np.diff(alarms) * (hits[1:] + hits[:-1])) / 2 / hits[-1] / alarms[-1])


def average_precision(score: NDArray[Any], positive: NDArray[np.bool_]) -> float:
    """sum_n (R_n - R_{n-1}) P_n over the distinct thresholds. score, positive: (n,)."""
    hits, alarms = _cumulative(score, positive)
    return float(np.sum(np.diff(hits, prepend=0) * (hits / (hits + alarms))) / hits[-1])
