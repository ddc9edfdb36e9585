"""The two residual channels of EGT and the context in which they attend."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from egt.data.batching.layout import Layout
from egt.nn.randomness import fresh_keys


@dataclass(frozen=True, eq=False)
class AttentionContext:
    """What a layer knows beside the channels: their layout, who may attend whom, and keys of random numbers.

    Fields:
        layout: where each node and pair is stored.
        allowed: (pairs..., 1) True where i may attend j; None when everyone attends everyone.
        random_keys: (B, 2) keys of the graphs (`egt.nn.randomness.graph_keys`); None draws fresh ones when needed.
        degree: (nodes..., 1) edges that leave each node; None where no layer reads it.
        owns_edges: whether only the next layer reads the edge channel it is given. In `torch.inference_mode` a fast
            path may then write the new edge channel over the old one: half the memory, and less of it to fetch.
        only_virtual_rows: whether only the virtual nodes are read behind the layer. A fast path may then leave all
            other rows of the node channel unchanged.
    """

    layout: Layout
    allowed: Tensor | None = None
    random_keys: Tensor | None = None
    degree: Tensor | None = None
    owns_edges: bool = False
    only_virtual_rows: bool = False

    @cached_property
    def keys(self) -> Tensor:
        """(B, 2) the keys of the graphs, given or fresh."""
        return fresh_keys(self.layout.num_graphs) if self.random_keys is None else self.random_keys

    def owned(self) -> AttentionContext:
        """Return the same context for a layer whose edge channel nobody else reads."""
        return self if self.owns_edges else replace(self, owns_edges=True)

    @classmethod
    def dense(cls, h: Tensor, sizes: Tensor | None = None) -> AttentionContext:
        """Return the context of plain dense tensors: everyone attends every real node.

        Args:
            h: (B, N, d_h) node channel.
            sizes: (B,) nodes of each graph, the rest is padding; None when there is none.
        """
        from egt.data.batching.padded import Padded  # for dense tensors alone

        if sizes is None:
            return cls(Padded(torch.full(h.shape[:1], h.shape[1], device=h.device), h.shape[1]))
        layout = Padded(sizes, h.shape[1])
        return cls(layout, layout.real_pairs.unsqueeze(-1))


@dataclass(frozen=True, eq=False)
class Channels:
    """Node and edge channels on their way through the layers.

    Fields:
        h: (nodes..., d_h) node channel.
        e: (pairs..., d_e) edge channel.
        context: layout, mask and keys.
        queries: (R,) flat rows of the query pairs.
        edges: (E,) flat rows of the edges.
    """

    h: Tensor
    e: Tensor
    context: AttentionContext
    queries: Tensor
    edges: Tensor

    @property
    def layout(self) -> Layout:
        """Where each node and pair is stored."""
        return self.context.layout

    def updated(self, h: Tensor, e: Tensor) -> Channels:
        """Return the channels after a layer; an edge channel that it made belongs to the layer after it."""
        return replace(self, h=h, e=e, context=self.context if e is self.e else self.context.owned())
