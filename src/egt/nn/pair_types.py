"""What a chosen pair was chosen as, as a term of the edge channel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from egt.batching.batch import GraphBatch
from egt.nn.terms import rows_of


class PairTypes(nn.Module):
    """The sum of a learned vector for each type of a pair (`egt.encodings.chosen_pairs`).

    Args:
        num_types: how many types there are.
        width: d_e.
    """

    bits: Tensor

    def __init__(self, num_types: int, width: int) -> None:
        super().__init__()
        self.W = nn.Linear(num_types, width, bias=False)
        numbers = torch.arange(1 << num_types).unsqueeze(-1)
        self.register_buffer("bits", (numbers >> torch.arange(num_types) & 1).float(), persistent=False)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (P, d_e)."""
        table = self.W(self.bits)  # (2^T, d_e): one row for each set of types
        return rows_of(table, batch.pair["pairs"].to(torch.int64))
