"""The learned half of each input: terms that are summed into the node and the edge embedding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from egt.batching.batch import GraphBatch
from egt.batching.layout import Indices
from egt.nn.randomness import Stream, derive, fresh_keys, kept, random_bits

Absent = Literal["zero", "learned"]


def _keys(batch: GraphBatch) -> Tensor:
    """(B, 2) the keys of the graphs, given or fresh."""
    return fresh_keys(batch.num_graphs) if batch.random_keys is None else batch.random_keys


def rows_of(table: Tensor, index: Tensor) -> Tensor:
    """Look up the rows of a small table of which each is asked for many times. Returns (index..., width).

    On a CPU the gradient of `index_select` takes half the time of that of `embedding`; on a GPU the latter adds up rows
    without waiting for each other, and in the same order every time.
    """
    if table.device.type != "cpu":
        return functional.embedding(index, table)
    return table.index_select(0, index.flatten()).view(*index.shape, table.shape[-1])


def sum_of_rows(table: Tensor, index: Tensor, known: Tensor | None = None) -> Tensor:
    """Add up the rows of a small table along the last axis of the index, (..., F). Returns (..., width).

    Rows that are not known, (..., F) boolean, count nothing. One is added after another: all of them at once would not
    stay in a processor's cache.
    """
    each = (rows_of(table, column) for column in index.unbind(-1))
    if known is not None:
        each = (rows * there.unsqueeze(-1) for rows, there in zip(each, known.unbind(-1), strict=True))
    return reduce(Tensor.add_, each)  # into the first, which nobody else has


class CategoryTable(nn.Module):
    """One embedding table for several categorical features; their embeddings are summed.

    Row 0 stands for "no edge"; id c of feature f is row 1 + (sizes before f) + c. An unknown id (-1) adds nothing.

    Args:
        sizes: number of categories of each feature.
        width: of the embedding.
        absent: "zero" keeps row 0 at zero, "learned" trains it.
    """

    offset: Tensor

    def __init__(self, sizes: Sequence[int], width: int, absent: Absent = "zero") -> None:
        super().__init__()
        self.table = nn.Embedding(1 + sum(sizes), width, padding_idx=0 if absent == "zero" else None)
        self.register_buffer("offset", 1 + torch.tensor([0, *sizes[:-1]]).cumsum(0), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (..., F). Returns (..., width)."""
        known, weight = ids >= 0, self.table.weight
        index = (ids + self.offset) * known
        if self.table.padding_idx is None:
            return sum_of_rows(weight, index, known)
        return sum_of_rows(torch.cat([weight[:1].detach(), weight[1:]]), index)  # row 0 is zero, and stays it

    def absent(self) -> Tensor | None:
        """(width,) row 0 if it is learned."""
        return self.table.weight[0] if self.table.padding_idx is None else None


class NodeCategoryEmbedding(nn.Module):
    """Categorical node features.

    Args:
        sizes: number of categories of each feature.
        width: d_h.
    """

    def __init__(self, sizes: Sequence[int], width: int) -> None:
        super().__init__()
        self.categories = CategoryTable(sizes, width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (nodes..., d_h)."""
        out: Tensor = self.categories(batch.node_categories)
        return out


class NodeValueProjection(nn.Module):
    """Continuous node features, W x + b.

    Args:
        num_values: number of features.
        width: d_h.
        dropout: chance of a feature of a node to be 0 in a training step; the others grow by 1 / (1 - dropout).
    """

    def __init__(self, num_values: int, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.W = nn.Linear(num_values, width)

    @property
    def drops(self) -> bool:
        """Whether features are dropped in training."""
        return self.dropout > 0

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (nodes..., d_h)."""
        out: Tensor = self.W(self.dropped(batch) if self.training and self.dropout else batch.node_values)
        return out

    def dropped(self, batch: GraphBatch) -> Tensor:
        """Return the features with some of them at 0. Returns (nodes..., F)."""
        keys = derive(_keys(batch), 0, Stream.NODE_VALUES)
        keep = kept(keys, batch.layout.node_indices, batch.node_values.shape[-1], self.dropout)
        return batch.node_values * keep / (1 - self.dropout)


class GraphValueProjection(nn.Module):
    """Continuous features of the whole graph, W x + b, handed to each of its nodes.

    Args:
        num_values: number of features.
        width: d_h.
    """

    def __init__(self, num_values: int, width: int) -> None:
        super().__init__()
        self.W = nn.Linear(num_values, width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (nodes..., d_h)."""
        rows: Tensor = self.W(batch.graph_values)  # (B, d_h)
        return batch.layout.per_node(rows).expand(*batch.node_categories.shape[:-1], -1)


class SignedProjection(nn.Module):
    """A projection of encodings whose columns have an arbitrary sign, flipped at random per graph during training.

    The sign of column k of every block is drawn once per graph, so that u_k and v_k of an SVD flip together.

    DISCREPANCY: the paper flips "the signs of gamma_i", which reads as one sign per node; both codes flip per graph
    and singular pair, as here.

    Args:
        name: the encoding to read, "svd" or "laplacian".
        rank: number of columns of a block.
        num_blocks: 2 for an SVD (U and V), 1 for eigenvectors.
        width: d_h.
    """

    def __init__(self, name: str, rank: int, num_blocks: int, width: int) -> None:
        super().__init__()
        self.name, self.rank, self.num_blocks = name, rank, num_blocks
        self.W_enc = nn.Linear(num_blocks * rank, width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (nodes..., d_h)."""
        encoding = batch.node[self.name]
        if self.training:
            encoding = encoding * batch.layout.per_node(self.signs(batch).repeat(1, self.num_blocks))
        out: Tensor = self.W_enc(encoding)
        return out

    def signs(self, batch: GraphBatch) -> Tensor:
        """(B, rank) of -1 and 1."""
        keys = _keys(batch)
        graphs = torch.arange(batch.num_graphs, device=batch.graph_ids.device)
        zero = torch.zeros_like(graphs)
        bits = random_bits(derive(keys, 0, Stream.SIGNS), Indices(graphs, zero, zero), self.rank)
        return torch.where(bits < 0, 1.0, -1.0)  # of unsigned numbers, the upper half


class DegreeTables(nn.Module):
    """In- and out-degree of each node, from two tables.

    Args:
        max_degree: larger degrees share the last row.
        width: d_h.
    """

    def __init__(self, max_degree: int, width: int) -> None:
        super().__init__()
        self.max_degree = max_degree
        self.outgoing = nn.Embedding(max_degree + 1, width)
        self.incoming = nn.Embedding(max_degree + 1, width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (nodes..., d_h)."""
        outgoing, incoming = batch.node["degree"].clamp(max=self.max_degree).unbind(-1)
        out: Tensor = self.outgoing(outgoing) + self.incoming(incoming)
        return out


class EdgeTerm(nn.Module):
    """What all terms of edges share: a row for each edge, and one value, or nothing, for all other pairs."""

    def rows(self, batch: GraphBatch) -> Tensor:
        """Return the rows of the edges, (E, d_e)."""
        raise NotImplementedError

    def elsewhere(self) -> Tensor | None:
        """Return the value for non-edges, (d_e,); None for nothing."""
        raise NotImplementedError

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (pairs..., d_e)."""
        rows, absent = self.rows(batch), self.elsewhere()
        everywhere = (rows.new_zeros(rows.shape[-1]) if absent is None else absent).expand(batch.layout.num_pairs, -1)
        return everywhere.index_copy(0, batch.edge_pairs, rows).view(*batch.layout.pair_shape, -1)

    def added_to(self, e: Tensor, batch: GraphBatch) -> Tensor:
        """Return e + term, both (pairs..., d_e); where non-edges get nothing, only the edges are touched."""
        if self.elsewhere() is not None:
            term: Tensor = self(batch)
            return e + term
        return e.flatten(0, -2).index_add(0, batch.edge_pairs, self.rows(batch)).view_as(e)


class EdgeCategoryEmbedding(EdgeTerm):
    """Categorical edge features; non-edges get row 0.

    DISCREPANCY: non-edges get a fixed zero vector in the PyTorch code and a learned row in the TensorFlow code;
    `absent` chooses.

    Args:
        sizes: number of categories of each feature.
        width: d_e.
        absent: what a non-edge gets.
    """

    def __init__(self, sizes: Sequence[int], width: int, absent: Absent = "zero") -> None:
        super().__init__()
        self.categories = CategoryTable(sizes, width, absent)

    def rows(self, batch: GraphBatch) -> Tensor:
        """See `EdgeTerm.rows`."""
        out: Tensor = self.categories(batch.edge_categories)
        return out

    def elsewhere(self) -> Tensor | None:
        """See `EdgeTerm.elsewhere`."""
        return self.categories.absent()


class EdgeValueProjection(EdgeTerm):
    """Continuous edge features, W x + b; a non-edge gets the bias b ("learned", as x = 0) or nothing ("zero").

    Args:
        num_values: number of features.
        width: d_e.
        absent: what a non-edge gets.
    """

    def __init__(self, num_values: int, width: int, absent: Absent = "zero") -> None:
        super().__init__()
        self.W = nn.Linear(num_values, width)
        self.absent = absent

    def rows(self, batch: GraphBatch) -> Tensor:
        """See `EdgeTerm.rows`."""
        out: Tensor = self.W(batch.edge_values)
        return out

    def elsewhere(self) -> Tensor | None:
        """See `EdgeTerm.elsewhere`."""
        return self.W.bias if self.absent == "learned" else None


class DistanceTable(nn.Module):
    """Shortest-path distance, one row for each of 0..k and one for "farther than k or unreachable".

    Args:
        max_hops: k.
        width: d_e.
    """

    def __init__(self, max_hops: int, width: int) -> None:
        super().__init__()
        self.max_hops = max_hops
        self.table = nn.Embedding(max_hops + 2, width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (pairs..., d_e)."""
        distance = batch.pair["distance"].clamp(max=self.max_hops + 1)
        return rows_of(self.table.weight, distance.to(torch.int64))


class ReachabilityProjection(nn.Module):
    """K stacked 0/1 matrices, the k-th being "reachable in at most k steps", and one affine map. K = 1 is adjacency.

    DISCREPANCY: the paper embeds the clipped distance; this is what the TensorFlow code does. A node and its
    neighbors look alike (distance 0 and 1), and a self-loop of the data counts once (the code would add it up).

    Args:
        num_hops: K.
        width: d_e.
    """

    def __init__(self, num_hops: int, width: int) -> None:
        super().__init__()
        self.num_hops = num_hops
        self.W = nn.Linear(num_hops, width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (pairs..., d_e)."""
        distance = batch.pair["distance"].clamp(1, self.num_hops + 1).to(torch.int64)
        # Distance t has ones in the slots t..K: W times that is a sum over the last columns, one row for each t.
        rows = self.W.weight.T.flip(0).cumsum(0).flip(0) + self.W.bias
        return rows_of(torch.cat([rows, self.W.bias.unsqueeze(0)]), distance - 1)


class PairProjection(nn.Module):
    """An encoding of pairs, W x + b.

    Args:
        name: the encoding to read.
        num_values: its columns.
        width: d_e.
    """

    def __init__(self, name: str, num_values: int, width: int) -> None:
        super().__init__()
        self.name = name
        self.W = nn.Linear(num_values, width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (pairs..., d_e)."""
        out: Tensor = self.W(batch.pair[self.name])
        return out


class SharedVector(nn.Module):
    """One learned vector for every node, for graphs whose nodes have no features.

    Args:
        width: d_h.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.randn(width))

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (nodes..., d_h)."""
        return self.vector.expand(*batch.node_categories.shape[:-1], -1)
