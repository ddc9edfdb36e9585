"""The edge-list layout: one row of the edge channel per existing edge, per node with itself, and per query pair.

For EGT-Constrained on large sparse graphs: the cost grows with the edges, and nothing of size N^2 exists. A model that
chooses its pairs (`egt.pairs`) has a row for each of them. Query pairs of link prediction have a row that is updated
and read like that of an edge, and are not attended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from egt.data.batching.layout import Indices, SquareFunction, Unpadded, join_pairs
from egt.data.encodings.encoding import Array, Sample
from egt.errors import ConfigError

_CHUNK = 1 << 14  # how many rows are multiplied out at a time; a product over all rows at once would dwarf the channels


class EdgeList(Unpadded):
    """Rows are sorted by query node: all pairs (i, j) of node i stand together.

    query, key: (P,) rows of the nodes i (ascending) and j in the node channel. has_only_attended: whether there are no
    query pairs besides those that are attended.
    """

    has_all_pairs = False

    def __init__(
        self,
        sizes: Sequence[int],
        query: Tensor,
        key: Tensor,
        num_virtual: int = 0,
        *,
        has_only_attended: bool = True,
    ) -> None:
        super().__init__(sizes, num_virtual, query.shape[0])
        self.query, self.key = query, key
        self.has_only_attended = has_only_attended

    @cached_property
    def row_start(self) -> Tensor:
        """(M + 1,) the first pair of each node, and the number of all."""
        return torch.searchsorted(self.query, torch.arange(self.num_nodes + 1, device=self.query.device))

    @cached_property
    def pair_indices(self) -> Indices:
        graph = self.node_indices.graph[self.query]
        return Indices(graph, self.query - self.start[graph], self.key - self.start[graph])

    @property
    def pair_nodes(self) -> tuple[Tensor, Tensor]:
        return self.query, self.key

    def moved(self, move: Callable[[Tensor], Tensor]) -> EdgeList:
        return self._of(move(self.size_tensor), move(self.query), move(self.key), self.num_virtual)

    def _of(self, size_tensor: Tensor, query: Tensor, key: Tensor, num_virtual: int) -> EdgeList:
        sizes = [size - self.num_virtual + num_virtual for size in self.sizes]
        layout = EdgeList(sizes, query, key, num_virtual, has_only_attended=self.has_only_attended)
        layout.size_tensor = size_tensor
        return layout

    def with_virtual(self, num_virtual: int) -> tuple[EdgeList, Tensor, Tensor]:
        """Virtual nodes attend, and are attended by, every node of their graph: 2 q N + q^2 more rows each.

        They come first among the nodes of a graph, so their pairs come first in it, and first in each row.
        """
        device = self.query.device
        node = self.node_indices
        nodes = torch.arange(self.num_nodes, device=device) + (node.graph + 1) * num_virtual
        sizes = [size + num_virtual for size in self.sizes]
        wide_start = self.start + num_virtual * torch.arange(self.num_graphs, device=device)
        virtual = (wide_start.unsqueeze(1) + torch.arange(num_virtual, device=device)).flatten()  # (B q,)
        counts, total = (self.size_tensor + num_virtual).repeat_interleave(num_virtual), num_virtual * sum(sizes)
        queries = virtual.repeat_interleave(counts, output_size=total)  # each virtual node with all of its graph
        first = (counts.cumsum(0) - counts).repeat_interleave(counts, output_size=total)
        keys = wide_start.repeat_interleave(num_virtual).repeat_interleave(counts, output_size=total)
        keys = keys + torch.arange(len(queries), device=device) - first
        own = nodes.repeat_interleave(num_virtual)  # each old node with every virtual one
        its = (wide_start[node.graph].unsqueeze(1) + torch.arange(num_virtual, device=device)).flatten()
        query = torch.cat([nodes[self.query], queries, own])
        key = torch.cat([nodes[self.key], keys, its])
        place = torch.cat(self._wide_places(num_virtual, total))
        query, key = (torch.empty_like(place).scatter_(0, place, ends) for ends in (query, key))
        wide = self._of(self.size_tensor + num_virtual, query, key, num_virtual)
        return wide, nodes, place[: self.num_pairs]

    def _wide_places(self, num_virtual: int, total: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return where the pairs, the `total` pairs from virtual nodes, and those to them are in `with_virtual`."""
        device, graph = self.query.device, self.node_indices.graph
        counts = num_virtual * (self.size_tensor + num_virtual)  # (B,) pairs from the virtual nodes of each graph
        until = counts.cumsum(0)
        rows = self.row_start[:-1] + num_virtual * torch.arange(self.num_nodes, device=device) + until[graph]  # (M,)
        old = torch.arange(self.num_pairs, device=device) + num_virtual * (self.query + 1) + until[graph[self.query]]
        ahead = self.row_start[self.start] + num_virtual * self.start  # (B,) pairs of nodes of graphs in front
        new = ahead.repeat_interleave(counts, output_size=total) + torch.arange(total, device=device)
        return old, new, (rows.unsqueeze(1) + torch.arange(num_virtual, device=device)).flatten()

    def dot(self, Q: Tensor, K: Tensor) -> Tensor:
        scores: Tensor = _PairDot.apply(Q, K, self.query, self.key)  # type: ignore[no-untyped-call]
        return scores

    def softmax(self, logits: Tensor, allowed: Tensor | None) -> Tensor:
        if allowed is not None:
            logits = logits.masked_fill(~allowed, torch.finfo(logits.dtype).min)
        rows = self.query.unsqueeze(1).expand_as(logits)
        top = logits.detach().new_full((self.num_nodes, logits.shape[1]), -torch.inf)
        top = top.scatter_reduce(0, rows, logits.detach(), "amax")
        weights = (logits - top.index_select(0, self.query)).exp()
        weights = weights / self.sum_keys(weights).index_select(0, self.query)
        return weights if allowed is None else weights * allowed

    def sum_keys(self, x: Tensor) -> Tensor:
        return x.new_zeros(self.num_nodes, x.shape[1]).index_add(0, self.query, x)

    def aggregate(self, A: Tensor, V: Tensor) -> Tensor:
        total: Tensor = _PairSum.apply(A, V, self.query, self.key)  # type: ignore[no-untyped-call]
        return total

    def squarewise(self, function: SquareFunction, x: Tensor, mask: Tensor | None = None) -> Tensor:
        raise ConfigError("a list of pairs has no matrices of all pairs; set data.layout to packed")

    def mean_nodes(self, h: Tensor) -> Tensor:
        own = (self.node_indices.i >= self.num_virtual).unsqueeze(1)
        total = h.new_zeros(self.num_graphs, h.shape[1]).index_add(0, self.node_indices.graph, h * own)
        return total / (self.size_tensor - self.num_virtual).unsqueeze(1)


def _chunks(count: int) -> list[slice]:
    return [slice(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK)]


class _PairDot(torch.autograd.Function):
    """x_p = <Q_query(p), K_key(p)>, in chunks and without keeping what was gathered."""

    @staticmethod
    def forward(ctx: Any, Q: Tensor, K: Tensor, query: Tensor, key: Tensor) -> Tensor:
        ctx.save_for_backward(Q, K, query, key)
        x = Q.new_empty(len(query), Q.shape[1])
        for rows in _chunks(len(query)):
            torch.sum(Q.index_select(0, query[rows]) * K.index_select(0, key[rows]), dim=-1, out=x[rows])
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (dx,) = gradients
        Q, K, query, key = ctx.saved_tensors
        dQ, dK = torch.zeros_like(Q), torch.zeros_like(K)
        for rows in _chunks(len(query)):
            weight = dx[rows].unsqueeze(-1)
            dQ.index_add_(0, query[rows], weight * K.index_select(0, key[rows]))
            dK.index_add_(0, key[rows], weight * Q.index_select(0, query[rows]))
        return dQ, dK, None, None


class _PairSum(torch.autograd.Function):
    """out_i = sum over the pairs p of node i of A_p V_key(p), in chunks."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, V: Tensor, query: Tensor, key: Tensor) -> Tensor:
        ctx.save_for_backward(A, V, query, key)
        out = torch.zeros_like(V)
        for rows in _chunks(len(query)):
            out.index_add_(0, query[rows], A[rows].unsqueeze(-1) * V.index_select(0, key[rows]))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (dout,) = gradients
        A, V, query, key = ctx.saved_tensors
        dA, dV = torch.empty_like(A), torch.zeros_like(V)
        for rows in _chunks(len(query)):
            upstream = dout.index_select(0, query[rows])
            torch.sum(upstream * V.index_select(0, key[rows]), dim=-1, out=dA[rows])
            dV.index_add_(0, key[rows], A[rows].unsqueeze(-1) * upstream)
        return dA, dV, None, None


class EdgeListArrangement:
    """One row for each of the `Sample.listed_pairs`."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        sizes = [sample.graph.num_nodes for sample in samples]
        self.total = sum(sizes)
        self.start = np.cumsum(sizes) - sizes
        self.listed = [sample.listed_pairs for sample in samples]
        self.codes = self._codes(self.listed)
        query, key = (torch.from_numpy(ends) for ends in np.divmod(self.codes, self.total))
        attended = sum(_num_attended(sample) for sample in samples)
        self.layout = EdgeList(sizes, query, key, has_only_attended=len(self.codes) == attended)

    def _codes(self, pairs: Sequence[Array]) -> Array:
        i, j, graph = join_pairs(pairs)
        codes: Array = (self.start[graph] + i) * self.total + self.start[graph] + j
        return codes

    def nodes(self, arrays: Sequence[Array], fill: int) -> Tensor:
        return torch.from_numpy(np.concatenate(arrays))

    def pairs(self, samples: Sequence[Sample]) -> dict[str, Tensor]:
        """See `Arrangement`; of a sample that was prepared for all pairs the listed ones are taken."""
        rows = [
            dict(sample.listed) | {name: array[tuple(pairs)] for name, array in sample.pair.items()}
            for sample, pairs in zip(samples, self.listed, strict=True)
        ]
        for arrays in rows:
            if "pairs" in arrays:
                arrays["pairs"] = arrays["pairs"][:, 2]  # the layout holds the nodes, and the types remain
        return {name: torch.from_numpy(np.concatenate([arrays[name] for arrays in rows])) for name in rows[0]}

    def rows(self, pairs: Sequence[Array]) -> Array:
        return np.searchsorted(self.codes, self._codes(pairs))


def _num_attended(sample: Sample) -> int:
    """Count the pairs that were chosen, or the edges and each node with itself."""
    if (chosen := sample.listed.get("pairs")) is not None:
        return int(np.count_nonzero(chosen[:, 2]))
    i, j = sample.graph.edge_index
    return sample.graph.num_nodes + int(np.count_nonzero(i != j))
