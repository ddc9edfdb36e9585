"""GraphBatch -> Channels: the sum of all node terms, the sum of all pair terms, and who attends whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add

import torch
from torch import Tensor, nn

from egt.data.batching.batch import GraphBatch
from egt.errors import ConfigError
from egt.nn.channels import AttentionContext, Channels
from egt.nn.terms import EdgeTerm


def everyone(batch: GraphBatch) -> Tensor | None:
    """Let every real node attend every real node. Returns (pairs..., 1) boolean, None when nothing is masked."""
    if not batch.layout.has_all_pairs:
        raise ConfigError("the edge-list layout holds only edges; global attention needs packed or padded")
    real = batch.layout.real_pairs
    return None if real is None else real.unsqueeze(-1)


def neighbors(batch: GraphBatch) -> Tensor | None:
    """Let node i attend j where the edge i -> j exists, and itself. (pairs..., 1) boolean, None where all pairs do."""
    if batch.layout.has_only_attended:
        return None
    index = batch.layout.pair_indices
    allowed = (index.i == index.j).expand(batch.layout.pair_shape).flatten()
    allowed = allowed.index_fill(0, batch.edge_pairs, True).view(*batch.layout.pair_shape, 1)
    real = batch.layout.real_pairs
    return allowed if real is None else torch.logical_and(allowed, real.unsqueeze(-1))


def chosen(batch: GraphBatch) -> Tensor | None:
    """Let node i attend j where the pair was chosen. (P, 1) boolean, None where all were."""
    return None if batch.layout.has_only_attended else (batch.pair["pairs"] != 0).unsqueeze(-1)


class Embed(nn.Module):
    """h0 = sum of node terms, e0 = sum of pair terms; `mask` gives who may attend whom."""

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
        first, *others = self.pair_terms
        e = first(batch)
        for term in others:
            e = term.added_to(e, batch) if isinstance(term, EdgeTerm) else e + term(batch)
        degree = batch.node.get("out_degree")
        context = AttentionContext(batch.layout, self.mask(batch), batch.random_keys, degree)
        return Channels(h, e, context, batch.queries, batch.edge_pairs)
