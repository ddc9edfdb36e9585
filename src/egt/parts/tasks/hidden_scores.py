"""How well hidden features and distances are predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

if TYPE_CHECKING:
    from egt.parts.tasks.pretrain import Column


class HiddenScores:
    """`feature_accuracy` of hidden categories, `distance_accuracy`, and `value_rmse`; those that the graphs have.

    Args:
        columns: of the targets.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = columns
        self.sums = {column.kind: torch.zeros(2, dtype=torch.float64) for column in columns}  # score, labels

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """See `Scores.update`."""
        prediction, target = prediction.detach().cpu(), target.cpu()
        for column, truth in zip(self.columns, target.unbind(1), strict=True):
            known = ~truth.isnan()
            outputs = prediction[known, column.start : column.start + column.size].double()
            right = (
                (outputs[:, 0] - truth[known]).square()
                if column.kind == "value"
                else (outputs.argmax(-1) == truth[known]).double()
            )
            self.sums[column.kind] += torch.stack([right.sum(), known.sum().double()])

    def absorb(self, other: Self) -> None:
        """See `Scores.absorb`."""
        self.sums = {kind: sums + other.sums[kind] for kind, sums in self.sums.items()}

    def compute(self) -> dict[str, float]:
        """See `Scores.compute`."""
        means = {kind: (sums[0] / sums[1]).item() for kind, sums in self.sums.items()}
        scores = {
            {"category": "feature_accuracy", "distance": "distance_accuracy", "value": "value_rmse"}[kind]: (
                mean**0.5 if kind == "value" else mean
            )
            for kind, mean in means.items()
        }
        return {**scores, "num_labels": float(sum(sums[1].item() for sums in self.sums.values()))}
