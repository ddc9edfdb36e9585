"""Who may attend whom: everyone, or (EGT-Constrained) neighbors only."""

from __future__ import annotations

import torch
from torch import Tensor

from egt.batching.batch import GraphBatch
from egt.batching.edge_list import EdgeList
from egt.errors import ConfigError


def everyone(batch: GraphBatch) -> Tensor | None:
    """Let every real node attend every real node. Returns (pairs..., 1) boolean, None when nothing is masked."""
    if isinstance(batch.layout, EdgeList):
        raise ConfigError("the edge-list layout holds only edges; global attention needs packed or padded")
    real = batch.layout.real_pairs
    return None if real is None else real.unsqueeze(-1)


def neighbors(batch: GraphBatch) -> Tensor | None:
    """Let node i attend j where the edge i -> j exists, and itself. (pairs..., 1) boolean, None on an edge list."""
    if isinstance(batch.layout, EdgeList):
        return None
    index = batch.layout.pair_indices
    allowed = (index.i == index.j).expand(batch.layout.pair_shape).flatten()
    allowed = allowed.index_fill(0, batch.edge_pairs, True).view(*batch.layout.pair_shape, 1)
    real = everyone(batch)
    return allowed if real is None else torch.logical_and(allowed, real)
