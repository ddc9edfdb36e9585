"""Regression: numbers per graph, node or edge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from egt.parts import register
from egt.tasks.task import TargetScale, TaskPart, mean_of_known, sum_known

if TYPE_CHECKING:
    from torch import Tensor

    from egt.tasks.scores import ErrorScores


@register
class Regression(TaskPart):
    """Numbers; the `loss` is the mean absolute or squared error.

    `standardize` trains on (y - mean) / std of the training targets and answers in their unit.
    """

    kind: Literal["regression"] = "regression"
    loss: Literal["mae", "mse"] = "mae"
    standardize: bool = False

    @property
    def deciding_metric(self) -> str:
        """See `TaskPart.deciding_metric`."""
        return {"mae": "mae", "mse": "rmse"}[self.loss]

    @property
    def higher_is_better(self) -> bool:
        """See `TaskPart.higher_is_better`: errors are to be small."""
        return False

    def scale(self, targets: Iterable[NDArray[np.float64]]) -> TargetScale | None:
        """See `TaskPart.scale`."""
        return TargetScale.of(targets) if self.standardize else None

    def uninformed(self, targets: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the mean of each target; see `TaskPart.uninformed`."""
        return mean_of_known(targets)

    def loss_sum(self, prediction: Tensor, target: Tensor) -> Tensor:
        """See `TaskPart.loss_sum`."""

        def loss(y_hat: Tensor, y: Tensor) -> Tensor:
            error = y_hat - y
            return error.abs() if self.loss == "mae" else error.square()

        return sum_known(loss, prediction.float(), target)

    def scores(self) -> ErrorScores:
        """See `TaskPart.scores`."""
        from egt.tasks.scores import ErrorScores

        return ErrorScores()
