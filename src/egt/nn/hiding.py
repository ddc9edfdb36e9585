"""Pre-training without labels: what is hidden of a batch, to be predicted."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from egt.data.batching.batch import GraphBatch
from egt.data.batching.layout import Indices
from egt.graph import UNKNOWN
from egt.nn.randomness import Stream, derive, graph_keys, kept


def hide(batch: GraphBatch, share: float, max_hops: int) -> GraphBatch:
    """Return a batch with some of its features and distances hidden, which are its targets.

    A share of the nodes and of the edges loses all its features: categories become unknown, values 0. Edges themselves
    stay. The same share of the pairs that are no edges loses what is known of the pair: its distance becomes "farther"
    (than `max_hops`, 0 hides none), other encodings 0. Both directions of a pair are hidden together. What is hidden
    follows from the random keys of the batch; without keys it is the same each time.

    The batch has as `queries` the hidden edges and then the other hidden pairs; as `node_targets`, (M, T_n), categories
    and then values; as `edge_targets`, (R, T_e), the same of edges and then the distance. NaN where nothing is hidden.
    """
    nodes, pairs = _draw(batch, share)
    edges = pairs[batch.edge_pairs]
    batch = _hide_features(batch, nodes, edges)
    return _hide_distances(batch, pairs, max_hops) if max_hops else batch


def _draw(batch: GraphBatch, share: float) -> tuple[Tensor, Tensor]:
    """Draw what is hidden: (nodes..., 1) and (pairs,) boolean; a pair and its reverse share the draw."""
    keys = batch.random_keys if batch.random_keys is not None else graph_keys(0, 0, batch.graph_ids)
    keys = derive(keys, 0, Stream.HIDDEN)
    pair = batch.layout.pair_indices
    ends = Indices(pair.graph, torch.minimum(pair.i, pair.j), torch.maximum(pair.i, pair.j))
    nodes = ~kept(keys, batch.layout.node_indices, 1, share)
    return nodes, ~kept(keys, ends, 1, share).flatten()


def _hide_features(batch: GraphBatch, nodes: Tensor, edges: Tensor) -> GraphBatch:
    """Move the features of some nodes, (nodes..., 1), and edges, (E,), into the targets."""
    rows = edges.unsqueeze(-1)
    node_targets = _known(batch.node_categories, batch.node_values).masked_fill(~nodes, torch.nan)
    return replace(
        batch,
        node_categories=batch.node_categories.masked_fill(nodes, UNKNOWN),
        node_values=batch.node_values.masked_fill(nodes, 0),
        edge_categories=batch.edge_categories.masked_fill(rows, UNKNOWN),
        edge_values=batch.edge_values.masked_fill(rows, 0),
        queries=batch.edge_pairs[edges],
        node_targets=batch.layout.node_rows(node_targets),
        edge_targets=_known(batch.edge_categories, batch.edge_values)[edges],
    )


def _known(categories: Tensor, values: Tensor) -> Tensor:
    """Put features side by side, NaN for unknown categories. Both (rows..., F). Returns (rows..., sum of F)."""
    ids = categories.to(torch.float32)
    return torch.cat([ids.masked_fill(categories == UNKNOWN, torch.nan), values.to(torch.float32)], dim=-1)


def _hide_distances(batch: GraphBatch, pairs: Tensor, max_hops: int) -> GraphBatch:
    """Hide what is known of those pairs, (pairs,), that are no edges, and make their distances targets."""
    distance, real = batch.pair["distance"].flatten(), batch.layout.real_pairs
    hidden = pairs & (distance > 1) if real is None else pairs & (distance > 1) & real.flatten()
    farther, rows = max_hops + 1, hidden.nonzero().squeeze(-1)
    known = batch.edge_targets
    assert known is not None
    table = known.new_full((len(known) + len(rows), known.shape[1] + 1), torch.nan)
    table[: len(known), :-1] = known
    table[len(known) :, -1] = distance[rows].clamp(max=farther).to(table.dtype)
    return replace(
        batch,
        pair={
            name: _fill(x, hidden.view(batch.layout.pair_shape), farther if name == "distance" else 0)
            for name, x in batch.pair.items()
        },
        queries=torch.cat([batch.queries, rows]),
        edge_targets=table,
    )


def _fill(x: Tensor, where: Tensor, value: int) -> Tensor:
    """Replace the rows of some pairs. x: (pairs...) or (pairs..., width), where: (pairs...)."""
    return x.masked_fill(where if x.ndim == where.ndim else where.unsqueeze(-1), value)
