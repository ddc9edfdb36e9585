"""Accumulators of metrics over a split. Sums are exact enough for millions of labels: float64 on the CPU.

An accumulator takes decoded or raw predictions with their targets; missing labels (NaN) are left out. `absorb` adds
what another process saw, so the result does not depend on how a split was divided.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

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
        """The metrics by name, and `num_labels` on which they were computed; NaN where there was no label."""


class ErrorScores:
    """`mae` and `rmse` in the unit of the targets, over all labels of all targets."""

    def __init__(self) -> None:
        self.sums = torch.zeros(3, dtype=torch.float64)  # |error|, error^2, labels

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """See `Scores.update`."""
        error = prediction.detach().cpu().double() - target.cpu().double()
        error = error[~target.cpu().isnan()]
        self.sums += torch.stack([error.abs().sum(), error.square().sum(), torch.tensor(float(error.numel()))])

    def absorb(self, other: Self) -> None:
        """See `Scores.absorb`."""
        self.sums = self.sums + other.sums

    def compute(self) -> dict[str, float]:
        """See `Scores.compute`."""
        absolute, squared, labels = self.sums.tolist()
        return {
            "mae": absolute / labels if labels else float("nan"),
            "rmse": float(np.sqrt(squared / labels)) if labels else float("nan"),
            "num_labels": labels,
        }


class ClassScores:
    """`accuracy`, `weighted_accuracy` (mean recall of the classes that occur) and, for two classes, `f1` of class 1.

    All are pooled over every label of the split, from one confusion matrix.

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
        occurs = of_class > 0
        scores = {
            "accuracy": float(right.sum() / labels) if labels else float("nan"),
            "weighted_accuracy": float((right[occurs] / of_class[occurs]).mean()) if labels else float("nan"),
        }
        if len(confusion) == 2:
            # 2 TP / (2 TP + FP + FN); without any positive label or answer there is nothing to score.
            found = of_class[1] + as_class[1]
            scores["f1"] = float(2 * right[1] / found) if found else float("nan")
        return {**scores, "num_labels": labels}


class RankingScores:
    """`roc_auc` and `average_precision`, each the mean over the targets that have labels of both classes.

    `num_targets` says how many those were. Logits are ranked as they are: a sigmoid would tie the confident ones.
    """

    def __init__(self) -> None:
        self.logits: list[NDArray[np.float32]] = []
        self.targets: list[NDArray[np.float32]] = []

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """See `Scores.update`."""
        self.logits.append(prediction.detach().float().cpu().numpy())
        self.targets.append(target.float().cpu().numpy())

    def absorb(self, other: Self) -> None:
        """See `Scores.absorb`."""
        self.logits += other.logits
        self.targets += other.targets

    def compute(self) -> dict[str, float]:
        """See `Scores.compute`."""
        areas, precisions, labels = [], [], 0
        columns = zip(np.concatenate(self.logits).T, np.concatenate(self.targets).T, strict=True) if self.logits else ()
        for logit, target in columns:
            known = ~np.isnan(target)
            labels += int(known.sum())
            positive = target[known] > 0.5
            if positive.any() and not positive.all():
                areas.append(roc_auc(logit[known], positive))
                precisions.append(average_precision(logit[known], positive))
        return {
            "roc_auc": float(np.mean(areas)) if areas else float("nan"),
            "average_precision": float(np.mean(precisions)) if areas else float("nan"),
            "num_targets": float(len(areas)),
            "num_labels": float(labels),
        }


def _cumulative(score: NDArray[Any], positive: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """True and false positives at each distinct threshold, from the highest score down."""
    order = np.argsort(-score, kind="stable")
    last_of_tie = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    hits = np.cumsum(positive[order])[last_of_tie]
    return hits, last_of_tie + 1 - hits


def roc_auc(score: NDArray[Any], positive: NDArray[np.bool_]) -> float:
    """The chance that a positive scores above a negative, ties counting half. score, positive: (n,)."""
    hits, alarms = (np.append(0, counts) for counts in _cumulative(score, positive))
    return float(np.sum(np.diff(alarms) * (hits[1:] + hits[:-1])) / 2 / hits[-1] / alarms[-1])


def average_precision(score: NDArray[Any], positive: NDArray[np.bool_]) -> float:
    """sum_n (R_n - R_{n-1}) P_n over the distinct thresholds. score, positive: (n,)."""
    hits, alarms = _cumulative(score, positive)
    return float(np.sum(np.diff(hits, prepend=0) * (hits / (hits + alarms))) / hits[-1])
