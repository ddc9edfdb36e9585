"""Classification into one of several classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from egt.batching.batch import GraphBatch
from egt.tasks.distance import DistanceObjective
from egt.tasks.scores import ClassScores
from egt.tasks.task import Level, count_labels, targets

_MISSING = -100


class MulticlassTask:
    """Softmax cross-entropy, each label weighted by its class.

    The weighted sum is divided by the number of labels, missing ones and padding left out. DISCREPANCY: the
    TensorFlow code divides by the number of all positions, padding included; with Adam the scale hardly matters.

    Args:
        level: whose class is predicted.
        num_classes: C.
        metric: the score that decides.
        class_weights: (C,) fixed weights, None for equal ones.
        auxiliary: objectives beside this one.
    """

    def __init__(
        self,
        level: Level,
        num_classes: int,
        metric: Literal["accuracy", "weighted_accuracy", "f1"],
        class_weights: Sequence[float] | None = None,
        auxiliary: Sequence[DistanceObjective] = (),
    ) -> None:
        self.level, self.num_classes, self.metric = level, num_classes, metric
        self.class_weights, self.auxiliary = class_weights, auxiliary

    def loss(self, prediction: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """See `Task.loss`."""
        classes = targets(batch, self.level)[:, 0].nan_to_num(nan=_MISSING).long()
        weight = None if self.class_weights is None else torch.tensor(self.class_weights, device=prediction.device)
        total = functional.cross_entropy(prediction.float(), classes, weight, ignore_index=_MISSING, reduction="sum")
        return total, count_labels(batch, self.level)

    def scores(self) -> ClassScores:
        """See `Task.scores`."""
        return ClassScores(self.num_classes)

    def decode(self, prediction: Tensor) -> Tensor:
        """See `Task.decode`: the probability of each class."""
        return prediction.float().softmax(-1)
