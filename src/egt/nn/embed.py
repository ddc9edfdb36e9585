"""GraphBatch -> Channels: the sum of all node terms, the sum of all pair terms, and who attends whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add

from torch import Tensor, nn

from egt.batching.batch import GraphBatch
from egt.nn.channels import AttentionContext, Channels
from egt.nn.masks import everyone


class Embed(nn.Module):
    """h0 = sum of node terms, e0 = sum of pair terms.

    Args:
        node_terms: each gives (nodes..., d_h).
        pair_terms: each gives (pairs..., d_e).
        mask: gives who may attend whom, `everyone` or `neighbors`.
    """

    def __init__(
        self,
        node_terms: Sequence[nn.Module],
        pair_terms: Sequence[nn.Module],
        mask: Callable[[GraphBatch], Tensor | None] = everyone,
    ) -> None:
        super().__init__()
        self.node_terms = nn.ModuleList(node_terms)
        self.pair_terms = nn.ModuleList(pair_terms)
        self.mask = mask

    def forward(self, batch: GraphBatch) -> Channels:
        """Return the channels entering the first layer."""
        h = reduce(add, (term(batch) for term in self.node_terms))
        e = reduce(add, (term(batch) for term in self.pair_terms))
        return Channels(h, e, AttentionContext(batch.layout, self.mask(batch), batch.random_keys), batch.queries)
