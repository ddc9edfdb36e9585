"""Key dropout: a node that nobody else attends for one layer of one step."""

from __future__ import annotations

import torch
from torch import Tensor

from egt.batching.layout import Indices
from egt.nn.channels import AttentionContext
from egt.nn.dropout import RandomMasking, check_probability
from egt.nn.randomness import Stream, derive, kept


class KeyDropout(RandomMasking):
    """Random masking that also withholds whole keys (sources): one draw for each graph, key and layer.

    All queries and heads share the draw, except that a node always attends itself: no row loses all its keys this way.
    The gate of a withheld key is closed too. Centrality sums count each other kept key 1 / (1 - p) times:

        s_i = ln(1 + g_ii + sum_{j != i} k_j g_ij / (1 - p)),  k_j = 0 with probability p, else 1

    so that the mean of the sum is the one without dropout.

    Args:
        probability: chance of a single entry to be withheld (see `RandomMasking`).
        num_heads: H.
        layer: number of the layer.
        gates: whether the masking of single entries closes gates.
        key_probability: p, chance of a key to be withheld.
    """

    def __init__(self, probability: float, num_heads: int, layer: int, *, gates: bool, key_probability: float) -> None:
        super().__init__(probability, num_heads, layer, gates=gates)
        check_probability(key_probability)
        self.key_probability = key_probability

    def forward(
        self, context: AttentionContext, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor | None, Tensor | None]:
        """See `RandomMasking.forward`; in training the second result says how often a gate counts."""
        attended, counted = super().forward(context, dtype)
        if not self.training or self.key_probability == 0:
            return attended, counted
        pair = context.layout.pair_indices
        keys = derive(context.keys, self.layer, Stream.KEY_DROPOUT)
        own = (pair.i == pair.j).unsqueeze(-1)  # (pairs..., 1)
        keep = own | kept(keys, Indices(pair.graph, pair.j, torch.zeros_like(pair.j)), 1, self.key_probability)
        times = torch.where(own, 1.0, keep.to(dtype) * (1 / (1 - self.key_probability)))
        return keep if attended is None else keep & attended, times if counted is None else times * counted

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"{super().extra_repr()}, key_probability={self.key_probability}"
