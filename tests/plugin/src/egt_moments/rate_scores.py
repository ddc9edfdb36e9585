"""The metrics of the task `poisson`."""

from __future__ import annotations

from egt.tasks.scores import ErrorScores
from torch import Tensor


class RateScores(ErrorScores):
    """`mae` and `rmse` of the rate against the counts."""

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """See `Scores.update`."""
        super().update(prediction.float().exp(), target)
