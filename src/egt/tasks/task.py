"""What every task offers: the loss to train on, the scores to report, and predictions in the user's terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from torch import Tensor

from egt.batching.batch import GraphBatch
from egt.errors import DataError
from egt.tasks.distance import DistanceObjective
from egt.tasks.scores import Scores

Level = Literal["graph", "node", "edge"]


class Task(Protocol):
    """Loss, metrics and decoding of one kind of target. Missing labels are NaN and count nowhere.

    A prediction has one row per graph, node or asked pair, as the model gives it.
    """

    level: Level
    auxiliary: Sequence[DistanceObjective]

    @property
    def metric(self) -> str:
        """The name of the score that decides, one of those in `Scores.compute`."""

    def loss(self, prediction: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """The loss summed over the labels of a batch, and their number: parts of a batch add up before the division.

        prediction: (rows, outputs).
        """

    def scores(self) -> Scores:
        """A fresh accumulator of the metrics of a split."""

    def decode(self, prediction: Tensor) -> Tensor:
        """Values in their unit, or probabilities. prediction: (rows, outputs). Returns the same shape."""


def targets(batch: GraphBatch, level: Level) -> Tensor:
    """(rows, T) the targets of the level that is predicted, row-aligned with the prediction."""
    values = {"graph": batch.graph_targets, "node": batch.node_targets, "edge": batch.edge_targets}[level]
    if values is None:
        raise DataError(
            f"the graphs of this batch have no {level}_targets; the model predicts one value per {level}, "
            "so training and evaluation need them (NaN where a label is missing)"
        )
    return values


def count_labels(batch: GraphBatch, level: Level) -> Tensor:
    """() int64: the targets that are not missing."""
    return (~targets(batch, level).isnan()).sum()
