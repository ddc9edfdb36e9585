"""Counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from egt.tasks.task import Row, TaskPart, number
from numpy.typing import NDArray

from egt.parts import register

if TYPE_CHECKING:
    from egt.tasks.scores import Scores
    from torch import Tensor


@register
class Poisson(TaskPart):
    """Counts, by the Poisson likelihood; the model gives the logarithm of the rate."""

    kind: Literal["poisson"] = "poisson"

    @property
    def deciding_metric(self) -> str:
        """See `TaskPart.deciding_metric`."""
        return "mae"

    def loss_sum(self, prediction: Tensor, target: Tensor) -> Tensor:
        """See `TaskPart.loss_sum`."""
        log_rate = prediction.float()
        return (log_rate.exp() - target * log_rate)[~target.isnan()].sum()

    def decode(self, prediction: Tensor) -> Tensor:
        """The rate; see `TaskPart.decode`."""
        return prediction.float().exp()

    def scores(self) -> Scores:
        """See `TaskPart.scores`."""
        from egt_moments.rate_scores import RateScores

        return RateScores()

    def columns(self, values: NDArray[np.float32]) -> Row:
        """The rate, and the most likely count; see `TaskPart.columns`."""
        row: Row = {}
        for name, rate in zip(self.names, values, strict=True):
            row |= {name: number(rate), f"{name}_count": int(rate)}
        return row
