"""Accumulators of metrics over a split. Sums are exact enough for millions of labels: float64 on the CPU.

An accumulator takes decoded or raw predictions with their targets; missing labels (NaN) are left out. `absorb` adds
what another process saw, so the result does not depend on how a split was divided.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

NAN = float("nan")

Array = NDArray[Any]


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
    """Metrics that exist for each target."""

    def by_target(self) -> list[dict[str, float]]:
        """Return what `compute` gives, of each target alone, in their order."""


class _KeptScores:
    """Predictions and targets of a split, kept for metrics that are not sums."""

    def __init__(self) -> None:
        self.predictions: list[Array] = []
        self.targets: list[Array] = []

    def update(self, prediction: Tensor, target: Tensor) -> None:
        self.predictions.append(prediction.detach().cpu().double().numpy())
        self.targets.append(target.detach().cpu().double().numpy())

    def absorb(self, other: Self) -> None:
        self.predictions += other.predictions
        self.targets += other.targets

    def by_target(self) -> list[dict[str, float]]:
        if not self.targets:
            return []
        found = []
        for prediction, target in zip(np.concatenate(self.predictions).T, np.concatenate(self.targets).T, strict=True):
            known = ~np.isnan(target)
            found.append({**self.score(prediction[known], target[known]), "num_labels": float(known.sum())})
        return found

    def score(self, prediction: Array, target: Array) -> dict[str, float]:
        """Return the metrics of one target. Both are (n,), and no label is missing."""
        raise NotImplementedError


class ErrorScores(_KeptScores):
    """`rmse` and `mae` in the unit of the targets, over all labels of all targets.

    `r2` and `spearman` are means over the targets whose labels are not all the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sums = np.zeros(3)  # |error|, error^2, labels

    def update(self, prediction: Tensor, target: Tensor) -> None:
        super().update(prediction, target)
        error = prediction.detach().cpu().double() - target.cpu().double()
        error = error[~target.cpu().isnan()]
        self.sums += (error.abs().sum().item(), error.square().sum().item(), error.numel())

    def absorb(self, other: Self) -> None:
        super().absorb(other)
        self.sums = self.sums + other.sums

    def compute(self) -> dict[str, float]:
        absolute, squared, labels = self.sums.tolist()
        each = self.by_target()
        return {
            "rmse": float(np.sqrt(squared / labels)) if labels else NAN,
            "mae": absolute / labels if labels else NAN,
            "r2": _mean(scores["r2"] for scores in each),
            "spearman": _mean(scores["spearman"] for scores in each),
            "num_labels": labels,
        }

    def score(self, prediction: Array, target: Array) -> dict[str, float]:
        """Return the four metrics of one target."""
        return {
            "rmse": float(np.sqrt(_mean((prediction - target) ** 2))),
            "mae": _mean(np.abs(prediction - target)),
            "r2": r2(prediction, target),
            "spearman": spearman(prediction, target),
        }


class BoundScores(ErrorScores):
    """The same on labels that are measured, and `bounds_kept`, the share of the others that answers keep.

    `num_labels` and `num_bounds` say on how many each stands. Targets have two columns each: see `Censored`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bounds: list[Array] = []  # (rows, T) of each batch: 1 where a bound is kept, 0 where not, NaN elsewhere

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """See `Scores.update`; target: (rows, 2 T)."""
        ends = target.cpu().double()
        low, high = ends[:, ::2], ends[:, 1::2]
        answer = prediction.detach().cpu().double()
        kept = ~((answer < low) | (answer > high))
        measured, missing = low == high, low.isnan() & high.isnan()
        super().update(answer, low.masked_fill(~measured, NAN))
        self.bounds.append(kept.double().masked_fill(measured | missing, NAN).numpy())

    def absorb(self, other: Self) -> None:
        super().absorb(other)
        self.bounds += other.bounds

    def compute(self) -> dict[str, float]:
        return {**super().compute(), **self._kept(np.concatenate(self.bounds) if self.bounds else np.zeros(0))}

    def by_target(self) -> list[dict[str, float]]:
        each = super().by_target()
        kept: Iterable[Array] = np.concatenate(self.bounds).T if self.bounds else []
        return [{**scores, **self._kept(column)} for scores, column in zip(each, kept, strict=True)]

    def _kept(self, bounds: Array) -> dict[str, float]:
        return {"bounds_kept": _mean(bounds.reshape(-1)), "num_bounds": float((~np.isnan(bounds)).sum())}


class MeanScores(ErrorScores):
    """The same of answers that have a deviation for each target behind the numbers."""

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """See `Scores.update`; prediction: (rows, 2 T)."""
        super().update(prediction[:, : target.shape[1]], target)


class ClassScores:
    """Scores of one of `num_classes` classes, pooled over every label of the split (`class_scores`).

    `recall` is what the mean recall of the classes is called; the paper says `weighted_accuracy`.
    """

    def __init__(self, num_classes: int, recall: str = "balanced_accuracy") -> None:
        self.recall = recall
        self.confusion = np.zeros((num_classes, num_classes), np.int64)  # [target, predicted]

    def update(self, prediction: Tensor, target: Tensor) -> None:
        known = ~target[:, 0].isnan()
        self.confusion += confusion_matrix(
            target[known, 0].long().cpu().numpy(),
            prediction.detach()[known].argmax(-1).cpu().numpy(),
            len(self.confusion),
        )

    def absorb(self, other: Self) -> None:
        self.confusion = self.confusion + other.confusion

    def compute(self) -> dict[str, float]:
        scores = class_scores(self.confusion)
        scores = {self.recall if name == "balanced_accuracy" else name: value for name, value in scores.items()}
        return {**scores, "num_labels": float(self.confusion.sum())}


class RankingScores(_KeptScores):
    """Scores of labels 0 and 1, each the mean over the targets that have one.

    `roc_auc`, `average_precision`, `balanced_accuracy` and `mcc` (Matthews) need labels of both classes; `num_targets`
    says how many targets have them. `accuracy` needs labels, `f1` (of class 1) a label or answer 1. Logits are ranked
    as they are: a sigmoid would tie the confident ones. The answer is 1 from a probability of one half.
    """

    names = ("roc_auc", "average_precision", "accuracy", "balanced_accuracy", "f1", "mcc")

    def compute(self) -> dict[str, float]:
        each = self.by_target()
        means = {name: _mean(scores[name] for scores in each) for name in self.names}
        ranked = sum(not np.isnan(scores["roc_auc"]) for scores in each)
        return {**means, "num_targets": float(ranked), "num_labels": sum(scores["num_labels"] for scores in each)}

    def score(self, prediction: Array, target: Array) -> dict[str, float]:
        """Return the six metrics of one target, NaN where its labels do not define one. prediction: logits."""
        positive = target > 0.5
        scores = class_scores(confusion_matrix(positive, prediction >= 0, 2))
        if positive.any() and not positive.all():
            scores["roc_auc"] = roc_auc(prediction, positive)
            scores["average_precision"] = average_precision(prediction, positive)
        else:
            scores |= dict.fromkeys(("roc_auc", "average_precision", "balanced_accuracy", "mcc"), NAN)
        return {name: scores[name] for name in self.names}


def confusion_matrix(label: Array, answer: Array, num_classes: int) -> NDArray[np.int64]:
    """Count the pairs of a label and an answer, both (n,). Returns (C, C)."""
    return np.bincount(label * num_classes + answer, minlength=num_classes**2).reshape(num_classes, num_classes)


def class_scores(confusion: NDArray[np.int64]) -> dict[str, float]:
    """Return the scores of answers that are classes, from their confusion matrix (C, C), [label, answer].

    `accuracy`; `balanced_accuracy`: the mean recall of the classes that occur; `f1`: of two classes that of class 1, of
    more the mean over those that occur or are answered; `mcc`: the correlation of labels and answers (Matthews), 0
    where all of either are of one class.
    """
    right, of_class, as_class = np.diag(confusion).astype(float), confusion.sum(1), confusion.sum(0)
    labels = float(confusion.sum())
    if not labels:
        return dict.fromkeys(("accuracy", "balanced_accuracy", "f1", "mcc"), NAN)
    recall = _mean(right[of_class > 0] / of_class[of_class > 0])
    found = of_class + as_class  # 2 TP + FP + FN
    f1 = np.divide(2 * right, found, out=np.full(len(found), NAN), where=found > 0)
    spread = np.sqrt((labels**2 - (of_class**2.0).sum()) * (labels**2 - (as_class**2.0).sum()))
    return {
        "accuracy": float(right.sum() / labels),
        "balanced_accuracy": recall,
        "f1": float(f1[1]) if len(f1) == 2 else _mean(f1),
        "mcc": float((right.sum() * labels - of_class.astype(float) @ as_class) / spread) if spread else 0.0,
    }


def _mean(values: Iterable[float]) -> float:
    """Return the mean of the numbers that are there; NaN without any."""
    found = values if isinstance(values, np.ndarray) else np.array([*values], np.float64)
    known = found[~np.isnan(found)]
    return float(known.mean()) if len(known) else NAN


def r2(prediction: Array, target: Array) -> float:
    """1 - squared errors / squared deviations from the mean; NaN if the targets do not vary. Both are (n,)."""
    deviations = float(((target - target.mean()) ** 2).sum()) if len(target) else 0.0
    return 1 - float(((prediction - target) ** 2).sum()) / deviations if deviations else NAN


def spearman(prediction: Array, target: Array) -> float:
    """Correlate the ranks, those of ties being their mean; NaN if either does not vary. Both are (n,)."""
    if len(target) < 2 or np.ptp(target) == 0 or np.ptp(prediction) == 0:
        return NAN
    return float(np.corrcoef(_ranks(prediction), _ranks(target))[0, 1])


def _ranks(values: Array) -> Array:
    """(n,) ranks from 0, ties with their mean."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count) - 1
    return (last - (count - 1) / 2)[place]


def cumulative(score: Array, positive: Array) -> tuple[Array, Array]:
    """Count true and false positives at each distinct threshold, from the highest score down; score, positive: (n,)."""
    order = np.argsort(-score, kind="stable")
    last_of_tie = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    hits = np.cumsum(positive[order])[last_of_tie]
    return hits, last_of_tie + 1 - hits


def roc_auc(score: Array, positive: Array) -> float:
    """Return the chance that a positive scores above a negative, ties counting half. score, positive: (n,)."""
    hits, alarms = (np.append(0, counts) for counts in cumulative(score, positive))
    return float(np.sum(np.diff(alarms) * (hits[1:] + hits[:-1])) / 2 / hits[-1] / alarms[-1])


def average_precision(score: Array, positive: Array) -> float:
    """sum_n (R_n - R_{n-1}) P_n over the distinct thresholds. score, positive: (n,)."""
    hits, alarms = cumulative(score, positive)
    return float(np.sum(np.diff(hits, prepend=0) * (hits / (hits + alarms))) / hits[-1])
