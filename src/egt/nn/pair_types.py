"""What a chosen pair was chosen as, as a term of the edge channel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from egt.batching.batch import GraphBatch


class PairTypes(nn.Module):
    """The sum of a learned vector for each type of a pair (`egt.encodings.chosen_pairs`).

    Args:
        num_types: how many types there are.
        width: d_e.
    """

    bit: Tensor

    def __init__(self, num_types: int, width: int) -> None:
        super().__init__()
        self.W = nn.Linear(num_types, width, bias=False)
        self.register_buffer("bit", torch.arange(num_types), persistent=False)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (P, d_e)."""
        types = batch.pair["pairs"].unsqueeze(-1) >> self.bit & 1
        out: Tensor = self.W(types.to(self.W.weight.dtype))
        return out
