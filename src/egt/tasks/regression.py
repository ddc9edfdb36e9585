"""Regression: numbers per graph, node or edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from egt.batching.batch import GraphBatch
from egt.tasks.distance import DistanceObjective
from egt.tasks.scale import TargetScale
from egt.tasks.scores import ErrorScores
from egt.tasks.task import Level, count_labels, targets


class RegressionTask:
    """Mean absolute or squared error, on targets standardized by `scale`; predictions come back in their unit.

    Args:
        level: whose numbers are predicted.
        loss: "mae" or "mse".
        scale: mean and std of the training targets, or the identity.
        auxiliary: objectives beside this one.
    """

    def __init__(
        self,
        level: Level,
        loss: Literal["mae", "mse"],
        scale: TargetScale,
        auxiliary: Sequence[DistanceObjective] = (),
    ) -> None:
        self.level, self.kind, self.scale, self.auxiliary = level, loss, scale, auxiliary
        self.metric = {"mae": "mae", "mse": "rmse"}[loss]

    def loss(self, prediction: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """See `Task.loss`."""
        mean, std = self._scale(prediction.device)
        target = (targets(batch, self.level) - mean) / std
        error = (prediction.float() - target)[~target.isnan()]
        each = error.abs() if self.kind == "mae" else error.square()
        return each.sum(), count_labels(batch, self.level)

    def scores(self) -> ErrorScores:
        """See `Task.scores`."""
        return ErrorScores(*self._scale(torch.device("cpu")))

    def decode(self, prediction: Tensor) -> Tensor:
        """See `Task.decode`: values in the unit of the targets."""
        mean, std = self._scale(prediction.device)
        return mean + std * prediction.float()

    def _scale(self, device: torch.device) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.scale.mean, device=device), torch.tensor(self.scale.std, device=device)
