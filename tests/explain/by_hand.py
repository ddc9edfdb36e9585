"""Attention that is written down by hand, so that every number about it is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egt.graph import Graph
from egt.inference.attention_capture import Attention


def chain(size: int, **fields: object) -> Graph:
    """Nodes in a row."""
    ends = np.arange(size - 1)
    return Graph.undirected(num_nodes=size, edge_index=np.stack([ends, ends + 1]), **fields)


def attention(
    graph: Graph, softmax: Sequence[object], gates: float | Sequence[object] = 1.0, num_virtual: int = 0
) -> Attention:
    """The attention of a graph from its matrices, (L, H, n, n)."""
    S = np.asarray(softmax, np.float32)
    num_layers, num_heads, size, _ = S.shape
    G = np.broadcast_to(np.asarray(gates, np.float32), S.shape)
    index = np.stack(np.divmod(np.arange(size * size), size))
    flat = num_layers, num_heads, size * size
    edges = np.zeros((num_layers + 1, size * size, 2), np.float32)
    edges[..., 0] = 1.0
    return Attention(
        graph,
        tuple(range(num_layers)),
        num_virtual,
        index,
        S.reshape(flat),
        G.reshape(flat),
        (S * G).reshape(flat),
        np.ones((num_layers, num_heads, size), np.float32),
        edges,
    )
