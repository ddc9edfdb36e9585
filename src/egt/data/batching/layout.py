"""What a layout of the node and edge channels offers to attention, virtual nodes and readouts.

Everything else (norms, linear maps, feed-forward blocks, residuals) acts on the last axis and never sees the layout.
In shapes, `nodes...` and `pairs...` stand for the leading axes of the layout: `(M,)` and `(P,)` when packed,
`(B, N)` and `(B, N, N)` when padded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

from egt.data.encodings.encoding import Array, Sample


@dataclass(frozen=True, eq=False)
class Indices:
    """Where each row of a channel sits: its graph and its position there; tensors broadcast to `rows...`."""

    graph: Tensor
    i: Tensor
    j: Tensor


class Layout(Protocol):
    """Where each node and each pair of each graph of a batch is stored."""

    @property
    def num_graphs(self) -> int:
        """B."""

    @property
    def num_virtual(self) -> int:
        """q: the first q nodes of each graph are virtual."""

    @property
    def has_all_pairs(self) -> bool:
        """Whether there is a row for every pair of nodes, and not only for edges."""

    @property
    def has_only_attended(self) -> bool:
        """Whether the rows are a list of pairs that are all attended; False where a mask says which."""

    @property
    def num_pairs(self) -> int:
        """How many rows the flattened edge channel has."""

    @property
    def pair_shape(self) -> tuple[int, ...]:
        """The leading axes of the edge channel."""

    @property
    def real_nodes(self) -> Tensor | None:
        """(nodes...) True where a node exists; None when all do."""

    @property
    def real_pairs(self) -> Tensor | None:
        """(pairs...) True where both nodes exist; None when all do."""

    @property
    def node_indices(self) -> Indices:
        """Graph and position i of each node (j is 0)."""

    @property
    def pair_indices(self) -> Indices:
        """Graph and positions i, j of each pair."""

    @property
    def pair_nodes(self) -> tuple[Tensor, Tensor]:
        """The flat rows of nodes i and j in the node channel, each (pairs...)."""

    def moved(self, move: Callable[[Tensor], Tensor]) -> Self:
        """Return the same layout with its indices where `move` brings them."""

    def with_virtual(self, num_virtual: int) -> tuple[Self, Tensor, Tensor]:
        """Return the layout with virtual nodes in front of each graph, and where the old rows go.

        Returns:
            The new layout; the flat position there of each old node; the same of each old pair.
        """

    def dot(self, Q: Tensor, K: Tensor) -> Tensor:
        """`<Q_i, K_j>` of every pair. Q, K: (nodes..., H, d_k). Returns (pairs..., H)."""

    def softmax(self, logits: Tensor, allowed: Tensor | None) -> Tensor:
        """Softmax over the allowed keys j of each query i; a row with nothing to attend gives zeros.

        logits: (pairs..., H). allowed: (pairs..., 1 or H) boolean, None when every key is.
        """

    def sum_keys(self, x: Tensor) -> Tensor:
        """`sum_j x_ij`. x: (pairs..., H). Returns (nodes..., H)."""

    def aggregate(self, A: Tensor, V: Tensor) -> Tensor:
        """`sum_j A_ij V_j`. A: (pairs..., H), V: (nodes..., H, d_k). Returns (nodes..., H, d_k)."""

    def per_node(self, x: Tensor) -> Tensor:
        """Return a value per graph, (B, ...), handed to each of its nodes: broadcasts to (nodes..., ...)."""

    def mean_nodes(self, h: Tensor) -> Tensor:
        """Return the mean over the real, non-virtual nodes of each graph. h: (nodes..., d). Returns (B, d)."""

    def virtual_nodes(self, h: Tensor) -> Tensor:
        """Return the virtual nodes of each graph. h: (nodes..., d). Returns (B, q, d)."""

    def with_virtual_rows(self, h: Tensor, rows: Tensor) -> Tensor:
        """Replace the virtual nodes of h by `rows`, (B, q, d); the inverse of `virtual_nodes`."""

    def node_rows(self, h: Tensor) -> Tensor:
        """Return the real nodes of all graphs in order, virtual ones left out. h: (nodes..., d). Returns (M, d)."""


def masked_softmax(logits: Tensor, allowed: Tensor | None, dim: int) -> Tensor:
    """Softmax over the allowed entries along `dim`; zeros where nothing is allowed, and never NaN."""
    if allowed is None:
        return logits.softmax(dim)
    # Large negatives live only here; the product removes what a row without any key would spread evenly.
    return logits.masked_fill(~allowed, torch.finfo(logits.dtype).min).softmax(dim) * allowed


def rows_where(mask: Tensor, count: int) -> Tensor:
    """(count,) the places where a flat mask holds. With their number known, the host need not wait as for `nonzero`."""
    rows = torch.arange(len(mask), device=mask.device)
    place = torch.where(mask, mask.cumsum(0) - 1, count)  # what does not hold goes behind the end
    return rows.new_empty(count + 1).scatter_(0, place, rows)[:count]


class Arrangement(Protocol):
    """Places for the nodes and pairs of a list of graphs."""

    @property
    def layout(self) -> Layout:
        """The layout these places belong to."""

    def nodes(self, arrays: Sequence[Array], fill: int) -> Tensor:
        """Arrays (N, ...) of all graphs as (nodes..., ...); padding holds `fill`."""

    def pairs(self, samples: Sequence[Sample]) -> dict[str, Tensor]:
        """Return the encodings of the pairs of all graphs, by name, as (pairs..., ...)."""

    def rows(self, pairs: Sequence[Array]) -> Array:
        """Return where some pairs of each graph, (2, R_k), stand in the flat edge channel."""


class DenseArrangement:
    """What packed and padded share: row = start + i * stride + j."""

    def __init__(self, stride: Array) -> None:
        self.stride = stride
        self.start = np.cumsum(stride * stride) - stride * stride

    def rows(self, pairs: Sequence[Array]) -> Array:
        """See `Arrangement`."""
        i, j, graph = numbered(pairs)
        rows: Array = self.start[graph] + i * self.stride[graph] + j
        return rows


def numbered(pairs: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Return both ends of some pairs of each graph, (2, R_k), and the number of the graph, one graph after another."""
    i, j = np.concatenate(pairs, axis=1)
    return i, j, np.repeat(np.arange(len(pairs)), [each.shape[1] for each in pairs])
