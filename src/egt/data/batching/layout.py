"""How the nodes and pairs of a batch are stored: what a layout offers, the packed and the padded one.

Norms, linear maps, feed-forward blocks and residuals act on the last axis and never see the layout; attention, virtual
nodes and readouts do. In shapes, `nodes...` and `pairs...` stand for the leading axes of the layout: `(M,)` and
`(P,)` when packed, `(B, N)` and `(B, N, N)` when padded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, ClassVar, Protocol, Self

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


SquareFunction = Callable[[Tensor, Tensor | None], Tensor]


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
        """Return the layout with virtual nodes first in each graph, and the flat places of old nodes and old pairs."""

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

    def squarewise(self, function: SquareFunction, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Apply a function to all pairs of graphs of one size at a time; a `ConfigError` where there are not all pairs.

        The function takes x (B, N, N, d) and mask (B, N, N, 1) or None, here (pairs..., d) and (pairs..., 1), and
        returns (B, N, N, d').
        """

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
        i, j, graph = join_pairs(pairs)
        rows: Array = self.start[graph] + i * self.stride[graph] + j
        return rows


def join_pairs(pairs: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Return both ends of some pairs of each graph, (2, R_k), and the number of the graph, one graph after another."""
    i, j = np.concatenate(pairs, axis=1)
    return i, j, np.repeat(np.arange(len(pairs)), [each.shape[1] for each in pairs])


class Unpadded:
    """What layouts without padding share: the nodes of all graphs one after another.

    sizes: nodes of each graph, virtual ones included.
    """

    def __init__(self, sizes: Sequence[int], num_virtual: int, num_pairs: int) -> None:
        self.sizes = tuple(sizes)
        self.num_virtual = num_virtual
        self.num_graphs = len(self.sizes)
        self.num_nodes = sum(self.sizes)
        self.num_pairs = num_pairs
        self.pair_shape = (num_pairs,)
        self.real_nodes: Tensor | None = None
        self.real_pairs: Tensor | None = None

    @cached_property
    def size_tensor(self) -> Tensor:
        """(B,) nodes of each graph; where it is, other indices are made."""
        return torch.tensor(self.sizes, dtype=torch.int64)

    @cached_property
    def start(self) -> Tensor:
        """(B,) row of the first node of each graph."""
        return self.size_tensor.cumsum(0) - self.size_tensor

    @cached_property
    def node_indices(self) -> Indices:
        graph = torch.repeat_interleave(self.size_tensor, output_size=self.num_nodes)
        i = torch.arange(self.num_nodes, device=self.size_tensor.device) - self.start[graph]
        return Indices(graph, i, torch.zeros_like(i))

    def per_node(self, x: Tensor) -> Tensor:
        return x[self.node_indices.graph]

    @property
    def _virtual(self) -> Tensor:
        """(B q,) rows of the virtual nodes."""
        places = torch.arange(self.num_virtual, device=self.size_tensor.device)
        return (self.start.unsqueeze(1) + places).flatten()

    def virtual_nodes(self, h: Tensor) -> Tensor:
        return h.index_select(0, self._virtual).view(self.num_graphs, self.num_virtual, h.shape[-1])

    def with_virtual_rows(self, h: Tensor, rows: Tensor) -> Tensor:
        return h.index_copy(0, self._virtual, rows.flatten(0, 1))

    def node_rows(self, h: Tensor) -> Tensor:
        if not self.num_virtual:
            return h
        own = self.node_indices.i >= self.num_virtual
        return h[rows_where(own, self.num_nodes - self.num_graphs * self.num_virtual)]


class Packed(Unpadded):
    """Pair (i, j) of graph b is row i * N_b + j behind the pairs of the graphs before it.

    Runs of graphs of equal size are computed together. Any order of graphs is right; a batch sorted by size has the
    fewest runs and is the fastest.
    """

    has_all_pairs = True
    has_only_attended = False

    def __init__(self, sizes: Sequence[int], num_virtual: int = 0) -> None:
        super().__init__(sizes, num_virtual, sum(size * size for size in sizes))
        self.runs = [(len(list(run)), size) for size, run in groupby(self.sizes)]

    @cached_property
    def pair_indices(self) -> Indices:
        graph = torch.repeat_interleave(self.size_tensor.square(), output_size=self.num_pairs)
        first, second = [], []
        for count, size in self.runs:  # no division for each pair
            position = torch.arange(size, device=self.size_tensor.device)
            first.append(position.view(1, -1, 1).expand(count, size, size).reshape(-1))
            second.append(position.view(1, 1, -1).expand(count, size, size).reshape(-1))
        return Indices(graph, torch.cat(first), torch.cat(second))

    @property
    def pair_nodes(self) -> tuple[Tensor, Tensor]:
        index = self.pair_indices
        start = self.start[index.graph]
        return start + index.i, start + index.j

    def moved(self, move: Callable[[Tensor], Tensor]) -> Packed:
        return self._with(self.sizes, self.num_virtual, move(self.size_tensor))

    @staticmethod
    def _with(sizes: Sequence[int], num_virtual: int, size_tensor: Tensor) -> Packed:
        layout = Packed(sizes, num_virtual)
        layout.size_tensor = size_tensor
        return layout

    def with_virtual(self, num_virtual: int) -> tuple[Packed, Tensor, Tensor]:
        wide = self._with([size + num_virtual for size in self.sizes], num_virtual, self.size_tensor + num_virtual)
        node, sizes = self.node_indices, self.size_tensor
        nodes = torch.arange(self.num_nodes, device=sizes.device) + (node.graph + 1) * num_virtual
        # The pairs from one node stay side by side, behind its pairs with virtual nodes.
        start = wide._pair_start + num_virtual * (sizes + num_virtual + 1) - self._pair_start  # (B,)
        moved = (start[node.graph] + node.i * num_virtual).repeat_interleave(
            sizes[node.graph], output_size=self.num_pairs
        )
        return wide, nodes, torch.arange(self.num_pairs, device=sizes.device) + moved

    @property
    def _pair_start(self) -> Tensor:
        """(B,) row of the first pair of each graph."""
        return self.size_tensor.square().cumsum(0) - self.size_tensor.square()

    def with_virtual_pairs(self, x: Tensor, table: Tensor, pair_rows: Tensor) -> Tensor:
        """Put pairs with virtual nodes, of which this layout has q, in front of the others.

        x: (P', d) all pairs without them. table: (q + 1, q + 1, d) what pair (i, j) gets, index q for all other nodes.
        pair_rows: (P',) where the others go. Returns (P, d).
        """
        wide: Tensor = _WithVirtualPairs.apply(x, table, pair_rows, self)  # type: ignore[no-untyped-call]
        return wide

    def _nodes(self, x: Tensor) -> list[Tensor]:
        """Split a node tensor into its runs, each (graphs, n, ...). `split` spares the backward zero-filled buffers."""
        parts = x.split([count * size for count, size in self.runs])
        return [part.unflatten(0, run) for part, run in zip(parts, self.runs, strict=True)]

    def _pairs(self, x: Tensor) -> list[Tensor]:
        """Return the runs of a pair tensor, each (graphs, n, n, ...)."""
        parts = x.split([count * size * size for count, size in self.runs])
        return [part.unflatten(0, (count, size, size)) for part, (count, size) in zip(parts, self.runs, strict=True)]

    def dot(self, Q: Tensor, K: Tensor) -> Tensor:
        runs = zip(self._nodes(Q), self._nodes(K), strict=True)
        return torch.cat([torch.einsum("bihc,bjhc->bijh", q, k).flatten(0, 2) for q, k in runs])

    def softmax(self, logits: Tensor, allowed: Tensor | None) -> Tensor:
        masks = [None] * len(self.runs) if allowed is None else self._pairs(allowed)
        runs = zip(self._pairs(logits), masks, strict=True)
        return torch.cat([masked_softmax(x, mask, dim=2).flatten(0, 2) for x, mask in runs])

    def sum_keys(self, x: Tensor) -> Tensor:
        return torch.cat([run.sum(2).flatten(0, 1) for run in self._pairs(x)])

    def aggregate(self, A: Tensor, V: Tensor) -> Tensor:
        runs = zip(self._pairs(A), self._nodes(V), strict=True)
        return torch.cat([torch.einsum("bijh,bjhc->bihc", a, v).flatten(0, 1) for a, v in runs])

    def squarewise(self, function: SquareFunction, x: Tensor, mask: Tensor | None = None) -> Tensor:
        masks = [None] * len(self.runs) if mask is None else self._pairs(mask)
        return torch.cat([function(*both).flatten(0, 2) for both in zip(self._pairs(x), masks, strict=True)])

    def mean_nodes(self, h: Tensor) -> Tensor:
        return torch.cat([run[:, self.num_virtual :].mean(1) for run in self._nodes(h)])


class _WithVirtualPairs(torch.autograd.Function):
    """Pairs with virtual nodes in front of the others, size by size: each is written once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, pair_rows: Tensor, layout: Packed) -> Tensor:
        ctx.layout, ctx.pair_rows, q = layout, pair_rows, layout.num_virtual
        wide = x.new_empty(layout.num_pairs, x.shape[1]).index_copy_(0, pair_rows, x)
        for new in layout._pairs(wide):
            new[:, :q, :q] = table[:q, :q]
            new[:, :q, q:] = table[:q, q:]
            new[:, q:, :q] = table[q:, :q]
        return wide

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (d_wide,) = gradients
        q, runs = ctx.layout.num_virtual, ctx.layout._pairs(d_wide)
        d_table = d_wide.new_zeros(q + 1, q + 1, d_wide.shape[1])
        for run in runs:
            d_table[:q, :q] += run[:, :q, :q].sum(0)
            d_table[:q, q] += run[:, :q, q:].sum((0, 2))
            d_table[q, :q] += run[:, q:, :q].sum((0, 1))
        return d_wide.index_select(0, ctx.pair_rows), d_table, None, None


class PackedArrangement(DenseArrangement):
    """One graph after the other."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        sizes = [sample.graph.num_nodes for sample in samples]
        super().__init__(np.array(sizes))
        self.layout = Packed(sizes)

    def nodes(self, arrays: Sequence[Array], fill: int) -> Tensor:
        return torch.from_numpy(np.concatenate(arrays))

    def pairs(self, samples: Sequence[Sample]) -> dict[str, Tensor]:
        encodings = [sample.pair for sample in samples]
        flat = {name: [e[name].reshape(-1, *e[name].shape[2:]) for e in encodings] for name in encodings[0]}
        return {name: torch.from_numpy(np.concatenate(arrays)) for name, arrays in flat.items()}


@dataclass(frozen=True, eq=False)
class Padded:
    """Every graph takes N rows; the ones behind its own nodes are padding.

    sizes: (B,) nodes of each graph, virtual ones included. width: N. num_nodes: of all graphs without virtual ones, if
    it is known on the host.
    """

    sizes: Tensor
    width: int
    num_virtual: int = 0
    num_nodes: int | None = None
    has_all_pairs: ClassVar[bool] = True
    has_only_attended: ClassVar[bool] = False

    @property
    def num_graphs(self) -> int:
        return self.sizes.shape[0]

    @property
    def num_pairs(self) -> int:
        return self.num_graphs * self.width * self.width

    @property
    def pair_shape(self) -> tuple[int, ...]:
        return (self.num_graphs, self.width, self.width)

    @cached_property
    def real_nodes(self) -> Tensor:
        return torch.arange(self.width, device=self.sizes.device) < self.sizes.unsqueeze(1)

    @cached_property
    def real_pairs(self) -> Tensor:
        return self.real_nodes.unsqueeze(2) & self.real_nodes.unsqueeze(1)

    @property
    def node_indices(self) -> Indices:
        graph = torch.arange(self.num_graphs, device=self.sizes.device).view(-1, 1)
        i = torch.arange(self.width, device=self.sizes.device).view(1, -1)
        return Indices(graph, i, torch.zeros_like(i))

    @property
    def pair_indices(self) -> Indices:
        graph = torch.arange(self.num_graphs, device=self.sizes.device).view(-1, 1, 1)
        position = torch.arange(self.width, device=self.sizes.device)
        return Indices(graph, position.view(1, -1, 1), position.view(1, 1, -1))

    @property
    def pair_nodes(self) -> tuple[Tensor, Tensor]:
        index = self.pair_indices
        start = index.graph * self.width
        return (start + index.i).expand(self.pair_shape), (start + index.j).expand(self.pair_shape)

    def moved(self, move: Callable[[Tensor], Tensor]) -> Self:
        return replace(self, sizes=move(self.sizes))

    def with_virtual(self, num_virtual: int) -> tuple[Self, Tensor, Tensor]:
        wide = replace(self, sizes=self.sizes + num_virtual, width=self.width + num_virtual, num_virtual=num_virtual)
        rows = torch.arange(wide.num_graphs * wide.width, device=self.sizes.device)
        nodes = rows.view(-1, wide.width)[:, num_virtual:].reshape(-1)
        pairs = torch.arange(wide.num_pairs, device=self.sizes.device).view(wide.pair_shape)
        return wide, nodes, pairs[:, num_virtual:, num_virtual:].reshape(-1)

    def dot(self, Q: Tensor, K: Tensor) -> Tensor:
        return torch.einsum("bihc,bjhc->bijh", Q, K)

    def softmax(self, logits: Tensor, allowed: Tensor | None) -> Tensor:
        return masked_softmax(logits, allowed, dim=2)

    def sum_keys(self, x: Tensor) -> Tensor:
        return x.sum(2)

    def aggregate(self, A: Tensor, V: Tensor) -> Tensor:
        return torch.einsum("bijh,bjhc->bihc", A, V)

    def squarewise(self, function: SquareFunction, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return function(x, mask)

    def per_node(self, x: Tensor) -> Tensor:
        return x.unsqueeze(1)

    def mean_nodes(self, h: Tensor) -> Tensor:
        own = self.real_nodes[:, self.num_virtual :].unsqueeze(-1)
        total = torch.where(own, h[:, self.num_virtual :], 0.0).sum(1)
        return total / (self.sizes - self.num_virtual).unsqueeze(1)

    def virtual_nodes(self, h: Tensor) -> Tensor:
        return h[:, : self.num_virtual]

    def with_virtual_rows(self, h: Tensor, rows: Tensor) -> Tensor:
        return torch.cat([rows, h[:, self.num_virtual :]], dim=1)

    def node_rows(self, h: Tensor) -> Tensor:
        own = (self.real_nodes & (self.node_indices.i >= self.num_virtual)).flatten()
        return h.flatten(0, 1)[rows_where(own, int(own.sum()) if self.num_nodes is None else self.num_nodes)]


class PaddedArrangement(DenseArrangement):
    """All graphs in boxes of the size of the largest."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        sizes = np.array([sample.graph.num_nodes for sample in samples])
        self.width = int(sizes.max())
        super().__init__(np.full_like(sizes, self.width))
        self.layout = Padded(torch.from_numpy(sizes), self.width, num_nodes=int(sizes.sum()))

    def nodes(self, arrays: Sequence[Array], fill: int) -> Tensor:
        out = np.full((len(arrays), self.width, *arrays[0].shape[1:]), fill, arrays[0].dtype)
        for k, array in enumerate(arrays):
            out[k, : len(array)] = array
        return torch.from_numpy(out)

    def pairs(self, samples: Sequence[Sample]) -> dict[str, Tensor]:
        encodings = [sample.pair for sample in samples]
        found = {}
        for name, first in encodings[0].items():
            out = np.zeros((len(encodings), self.width, self.width, *first.shape[2:]), first.dtype)
            for k, encoding in enumerate(encodings):
                n = len(encoding[name])
                out[k, :n, :n] = encoding[name]
            found[name] = torch.from_numpy(out)
        return found
