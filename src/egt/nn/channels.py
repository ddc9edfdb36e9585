"""The two residual channels of EGT and the context in which they attend."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from egt.data.batching.layout import Layout, Padded
from egt.errors import ConfigError
from egt.nn.randomness import fresh_keys


@dataclass(frozen=True, eq=False)
class AttentionContext:
    """What a layer knows besides the channels: their layout, who may attend whom, and keys of random numbers.

    Fields:
        layout: where each node and pair is stored.
        allowed: (pairs..., 1) True where i may attend j; None when everyone attends everyone.
        random_keys: (B, 2) keys of the graphs (`egt.nn.randomness.graph_keys`); None draws fresh ones when needed.
        degree: (nodes..., 1) edges that leave each node; None where no layer reads it.
        owns_edges: whether only the next layer reads the edge channel it is given. In `torch.inference_mode` a fast
            path may then write the new edge channel over the old one: half the memory, and less of it to fetch.
        only_virtual_rows: whether only the virtual nodes are read behind the layer. A fast path may then leave all
            other rows of the node channel unchanged.
        clears_padding: whether rows of padding may hold anything, such as NaN, and are set to 0 before they are used.
    """

    layout: Layout
    allowed: Tensor | None = None
    random_keys: Tensor | None = None
    degree: Tensor | None = None
    owns_edges: bool = False
    only_virtual_rows: bool = False
    clears_padding: bool = False

    @cached_property
    def keys(self) -> Tensor:
        """(B, 2) the keys of the graphs, given or fresh."""
        return fresh_keys(self.layout.num_graphs) if self.random_keys is None else self.random_keys

    def owned(self) -> AttentionContext:
        """Return the same context for a layer whose edge channel only the next layer reads."""
        return self if self.owns_edges else replace(self, owns_edges=True)

    def without_padding(self, h: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        """Return both channels with zeros in the padding where it may hold anything."""
        nodes, pairs = self.layout.real_nodes, self.layout.real_pairs
        if not self.clears_padding or nodes is None or pairs is None:
            return h, e
        return torch.where(nodes.unsqueeze(-1), h, 0.0), torch.where(pairs.unsqueeze(-1), e, 0.0)

    @classmethod
    def dense(cls, h: Tensor, sizes: Tensor | None = None, mask: Tensor | None = None) -> AttentionContext:
        """Return the context of plain dense tensors; layers that share it share its random keys.

        Args:
            h: (B, N, d_h) node channel.
            sizes: (B,) nodes of each graph, the rest is padding, which is never attended and may hold anything; None
                when there is none.
            mask: (B, N, N) boolean, True where i may attend j; None where everyone attends every real node.
        """
        if h.ndim != 3:
            raise ConfigError(f"h has shape {tuple(h.shape)}; dense channels are (B, N, d_h) and (B, N, N, d_e)")
        B, N, _ = h.shape
        if sizes is not None and (sizes.shape != (B,) or sizes.is_floating_point() or sizes.dtype == torch.bool):
            raise ConfigError(
                f"sizes is {sizes.dtype} of shape {tuple(sizes.shape)}; it must be ({B},), the number of nodes of each "
                "graph (of a mask of nodes: mask.sum(1))"
            )
        if mask is not None and (mask.shape != (B, N, N) or mask.dtype != torch.bool):
            raise ConfigError(
                f"mask is {mask.dtype} of shape {tuple(mask.shape)}; it must be torch.bool of shape {(B, N, N)}, True "
                "where node i may attend node j (padding is given as sizes)"
            )
        layout = Padded(torch.full((B,), N, device=h.device) if sizes is None else sizes.to(h.device), N)
        allowed = None if mask is None else mask.unsqueeze(-1)
        if sizes is not None:
            real = layout.real_pairs.unsqueeze(-1)
            allowed = real if allowed is None else allowed & real
        return cls(layout, allowed, clears_padding=sizes is not None)


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
