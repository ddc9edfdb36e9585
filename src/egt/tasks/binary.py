"""Binary and multi-label classification, some labels missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor
from torch.nn import functional

from egt.batching.batch import GraphBatch
from egt.tasks.distance import DistanceObjective
from egt.tasks.scores import RankingScores
from egt.tasks.task import Level, count_labels, targets


class BinaryTask:
    """Cross-entropy of each label on its logit; also link prediction, where the asked pairs are the rows.

    Args:
        level: whose labels are predicted.
        metric: the score that decides.
        auxiliary: objectives beside this one.
    """

    def __init__(
        self,
        level: Level,
        metric: Literal["roc_auc", "average_precision"],
        auxiliary: Sequence[DistanceObjective] = (),
    ) -> None:
        self.level, self.metric, self.auxiliary = level, metric, auxiliary

    def loss(self, prediction: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """See `Task.loss`."""
        target = targets(batch, self.level)
        known = ~target.isnan()
        each = functional.binary_cross_entropy_with_logits(prediction.float()[known], target[known], reduction="sum")
        return each, count_labels(batch, self.level)

    def scores(self) -> RankingScores:
        """See `Task.scores`."""
        return RankingScores()

    def decode(self, prediction: Tensor) -> Tensor:
        """See `Task.decode`: the probability of each label."""
        return prediction.float().sigmoid()
