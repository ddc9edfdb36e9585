"""The packed layout: graphs one after the other, (sum N, d_h) and (sum N^2, d_e), no padding at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from egt.data.batching.layout import DenseArrangement, Indices, masked_softmax
from egt.data.encodings.encoding import Array, Sample


class Packed:
    """Pair (i, j) of graph b is row i * N_b + j behind the pairs of the graphs before it.

    Runs of graphs of equal size are computed together. Any order of graphs is right; a batch sorted by size has the
    fewest runs and is the fastest.

    Args:
        sizes: nodes of each graph, virtual ones included.
        num_virtual: q.
    """

    has_all_pairs = True
    has_only_attended = False

    def __init__(self, sizes: Sequence[int], num_virtual: int = 0) -> None:
        self.sizes = tuple(sizes)
        self.num_virtual = num_virtual
        self.num_graphs = len(self.sizes)
        self.num_nodes = sum(self.sizes)
        self.num_pairs = sum(size * size for size in self.sizes)
        self.pair_shape = (self.num_pairs,)
        self.real_nodes: Tensor | None = None
        self.real_pairs: Tensor | None = None
        self.runs = [(len(list(run)), size) for size, run in groupby(self.sizes)]

    @cached_property
    def size_tensor(self) -> Tensor:
        """(B,) nodes of each graph; where it is, other indices are made."""
        return torch.tensor(self.sizes, dtype=torch.int64)

    @cached_property
    def node_indices(self) -> Indices:
        sizes = self.size_tensor
        graph = torch.repeat_interleave(sizes, output_size=self.num_nodes)
        start = sizes.cumsum(0) - sizes
        i = torch.arange(self.num_nodes, device=self.size_tensor.device) - start[graph]
        return Indices(graph, i, torch.zeros_like(i))

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
        start = (self.size_tensor.cumsum(0) - self.size_tensor)[index.graph]
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
        nodes = wide._nodes(torch.arange(wide.num_nodes, device=self.size_tensor.device))
        pairs = wide._pairs(torch.arange(wide.num_pairs, device=self.size_tensor.device))
        own = slice(num_virtual, None)
        return (
            wide,
            torch.cat([run[:, own].reshape(-1) for run in nodes]),
            torch.cat([run[:, own, own].reshape(-1) for run in pairs]),
        )

    def with_virtual_pairs(self, x: Tensor, table: Tensor) -> Tensor:
        """Put pairs with virtual nodes, of which this layout has q, in front of the others.

        x: (P', d) all pairs without them. table: (q + 1, q + 1, d) what pair (i, j) gets, index q for all other nodes.
        Returns (P, d).
        """
        wide: Tensor = _WithVirtualPairs.apply(x, table, self)  # type: ignore[no-untyped-call]
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

    def per_node(self, x: Tensor) -> Tensor:
        return x[self.node_indices.graph]

    def mean_nodes(self, h: Tensor) -> Tensor:
        return torch.cat([run[:, self.num_virtual :].mean(1) for run in self._nodes(h)])

    def virtual_nodes(self, h: Tensor) -> Tensor:
        return torch.cat([run[:, : self.num_virtual] for run in self._nodes(h)])

    def with_virtual_rows(self, h: Tensor, rows: Tensor) -> Tensor:
        parts = zip(rows.split([count for count, _ in self.runs]), self._nodes(h), strict=True)
        return torch.cat([torch.cat([new, old[:, self.num_virtual :]], 1).flatten(0, 1) for new, old in parts])

    def node_rows(self, h: Tensor) -> Tensor:
        return torch.cat([run[:, self.num_virtual :].flatten(0, 1) for run in self._nodes(h)])


class _WithVirtualPairs(torch.autograd.Function):
    """Pairs with virtual nodes in front of the others, size by size: no index for each pair, and each written once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, layout: Packed) -> Tensor:
        ctx.layout, q = layout, layout.num_virtual
        wide = x.new_empty(layout.num_pairs, x.shape[1])
        narrow = Packed([size - q for size in layout.sizes])
        for old, new in zip(narrow._pairs(x), layout._pairs(wide), strict=True):
            new[:, q:, q:] = old
            new[:, :q, :q] = table[:q, :q]
            new[:, :q, q:] = table[:q, q:]
            new[:, q:, :q] = table[q:, :q]
        return wide

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (d_wide,) = gradients
        q, runs = ctx.layout.num_virtual, ctx.layout._pairs(d_wide)
        d_table = d_wide.new_zeros(q + 1, q + 1, d_wide.shape[1])
        for run in runs:
            d_table[:q, :q] += run[:, :q, :q].sum(0)
            d_table[:q, q] += run[:, :q, q:].sum((0, 2))
            d_table[q, :q] += run[:, q:, :q].sum((0, 1))
        return torch.cat([run[:, q:, q:].flatten(0, 2) for run in runs]), d_table, None


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
