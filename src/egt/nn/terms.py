"""The learned half of each input: terms that are summed into the node and the edge embedding, and their sums.

A term of nodes gives (nodes..., d_h), a term of pairs (pairs..., d_e); `width` is d_h or d_e, F a number of features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from egt.data.batching.batch import GraphBatch
from egt.data.encodings.encoding import Array, Sample
from egt.errors import ConfigError
from egt.nn.channels import AttentionContext, Channels
from egt.nn.randomness import Stream, derive, fresh_keys, graph_rows, kept, normal, random_bits

Absent = Literal["zero", "learned"]


def _keys(batch: GraphBatch) -> Tensor:
    """(B, 2) the keys of the graphs, given or fresh."""
    return fresh_keys(batch.num_graphs) if batch.random_keys is None else batch.random_keys


def rows_of(table: Tensor, index: Tensor) -> Tensor:
    """Look up rows of a small table, each of them many times. Returns (index..., width).

    On a CPU the gradient of `index_select` takes half the time of that of `embedding`; on a GPU that of `embedding` is
    fast, and adds up in the same order every time.
    """
    if table.device.type != "cpu":
        return functional.embedding(index, table)
    return table.index_select(0, index.flatten()).view(*index.shape, table.shape[-1])


def sum_of_rows(table: Tensor, index: Tensor, known: Tensor | None = None) -> Tensor:
    """Add up the rows of a small table along the last axis of the index, (..., F). Returns (..., width).

    Rows that are not known, (..., F) boolean, count nothing. They are added one after another: all of them at once
    would not stay in a processor's cache.
    """
    each = (rows_of(table, column) for column in index.unbind(-1))
    if known is not None:
        each = (rows * there.unsqueeze(-1) for rows, there in zip(each, known.unbind(-1), strict=True))
    return reduce(Tensor.add_, each)  # into the first, which is a copy


class CategoryTable(nn.Module):
    """One embedding table for several categorical features; their embeddings are summed.

    Row 0 stands for "no edge"; id c of feature f is row 1 + (sizes before f) + c. An unknown id (-1) adds nothing.
    `sizes` are the numbers of categories; `absent` "zero" keeps row 0 at zero, "learned" trains it.
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
        return sum_of_rows(torch.cat([weight[:1].detach(), weight[1:]]), index)  # row 0 stays zero

    def absent(self) -> Tensor | None:
        """(width,) row 0 if it is learned."""
        return self.table.weight[0] if self.table.padding_idx is None else None


class NodeCategoryEmbedding(nn.Module):
    """Categorical node features (`CategoryTable`)."""

    def __init__(self, sizes: Sequence[int], width: int) -> None:
        super().__init__()
        self.categories = CategoryTable(sizes, width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (nodes..., d_h)."""
        return self.categories(batch.node_categories)


class NodeValueProjection(nn.Module):
    """Continuous node features, W x + b.

    In a training step each feature of each node is 0 with the chance `dropout`; the others grow by 1 / (1 - dropout).
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
        x = batch.node_values  # (nodes..., F)
        if self.training and self.dropout:
            keys = derive(_keys(batch), 0, Stream.NODE_VALUES)
            keep = kept(keys, batch.layout.node_indices, x.shape[-1], self.dropout)
            x = x * keep / (1 - self.dropout)
        return self.W(x)


class LabelProjection(nn.Module):
    """Shares of C classes around each node, W ((x - m) / s), m and s those of the training graph."""

    mean: Tensor
    std: Tensor

    def __init__(self, num_classes: int, width: int) -> None:
        super().__init__()
        self.W = nn.Linear(2 * num_classes, width, bias=False)
        self.register_buffer("mean", torch.zeros(2 * num_classes))
        self.register_buffer("std", torch.ones(2 * num_classes))

    def fit(self, samples: Sequence[Sample]) -> None:
        """Take the mean and the deviation from training graphs."""
        rows = np.concatenate([sample.node["known_labels"] for sample in samples])
        std = rows.std(0, dtype=np.float64)
        self.mean.copy_(torch.from_numpy(rows.mean(0, dtype=np.float64)))
        self.std.copy_(torch.from_numpy(np.where(std > 1e-6, std, 1.0)))

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (nodes..., d_h)."""
        return self.W((batch.node["known_labels"] - self.mean) / self.std)


class GraphValueProjection(nn.Module):
    """Continuous features of the whole graph, W x + b, added to each of its nodes."""

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

    The encoding called `name` has `num_blocks` blocks of `rank` columns: 2 of an SVD (U and V), 1 of eigenvectors. It
    may also come as it is (`flips` False), where one graph is all there is.
    """

    def __init__(self, name: str, rank: int, num_blocks: int, width: int, *, flips: bool = True) -> None:
        super().__init__()
        self.name, self.rank, self.num_blocks, self.flips = name, rank, num_blocks, flips
        self.W_enc = nn.Linear(num_blocks * rank, width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (nodes..., d_h)."""
        encoding = batch.node[self.name]
        if self.training and self.flips:
            encoding = encoding * batch.layout.per_node(self.signs(batch).repeat(1, self.num_blocks))
        return self.W_enc(encoding)

    def signs(self, batch: GraphBatch) -> Tensor:
        """(B, rank) of -1 and 1."""
        rows = graph_rows(batch.num_graphs, batch.graph_ids.device)
        bits = random_bits(derive(_keys(batch), 0, Stream.SIGNS), rows, self.rank)
        return torch.where(bits < 0, 1.0, -1.0)  # of unsigned numbers, the upper half


class DegreeTables(nn.Module):
    """In- and out-degree of each node, from two tables; degrees above `max_degree` share the last row."""

    def __init__(self, max_degree: int, width: int) -> None:
        super().__init__()
        self.max_degree = max_degree
        self.outgoing = nn.Embedding(max_degree + 1, width)
        self.incoming = nn.Embedding(max_degree + 1, width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (nodes..., d_h)."""
        outgoing, incoming = batch.node["degree"].clamp(max=self.max_degree).unbind(-1)
        return self.outgoing(outgoing) + self.incoming(incoming)


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
    """

    def __init__(self, sizes: Sequence[int], width: int, absent: Absent = "zero") -> None:
        super().__init__()
        self.categories = CategoryTable(sizes, width, absent)

    def rows(self, batch: GraphBatch) -> Tensor:
        """See `EdgeTerm.rows`."""
        return self.categories(batch.edge_categories)

    def elsewhere(self) -> Tensor | None:
        """See `EdgeTerm.elsewhere`."""
        return self.categories.absent()


class EdgeValueProjection(EdgeTerm):
    """Continuous edge features, W x + b; a non-edge gets the bias b ("learned", as x = 0) or nothing ("zero")."""

    def __init__(self, num_values: int, width: int, absent: Absent = "zero") -> None:
        super().__init__()
        self.W = nn.Linear(num_values, width)
        self.absent = absent

    def rows(self, batch: GraphBatch) -> Tensor:
        """See `EdgeTerm.rows`."""
        return self.W(batch.edge_values)

    def elsewhere(self) -> Tensor | None:
        """See `EdgeTerm.elsewhere`."""
        return self.W.bias if self.absent == "learned" else None


class DistanceTable(nn.Module):
    """Shortest-path distance, one row for each of 0..k = `max_hops` and one for "farther or unreachable"."""

    def __init__(self, max_hops: int, width: int) -> None:
        super().__init__()
        self.max_hops = max_hops
        self.table = nn.Embedding(max_hops + 2, width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (pairs..., d_e)."""
        distance = batch.pair["distance"].clamp(max=self.max_hops + 1)
        return rows_of(self.table.weight, distance.to(torch.int64))


class ReachabilityProjection(nn.Module):
    """K = `num_hops` stacked 0/1 matrices, the k-th "reachable in at most k steps", and one affine map; 1: adjacency.

    DISCREPANCY: the paper embeds the clipped distance; this is what the TensorFlow code does. A node and its
    neighbors look alike (distance 0 and 1), and a self-loop of the data counts once (the code would add it up).
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
    """The encoding of pairs called `name`, which has `num_values` columns, W x + b."""

    def __init__(self, name: str, num_values: int, width: int) -> None:
        super().__init__()
        self.name = name
        self.W = nn.Linear(num_values, width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (pairs..., d_e)."""
        return self.W(batch.pair[self.name])


class SharedVector(nn.Module):
    """One learned vector for every node, for graphs whose nodes have no features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.randn(width))

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (nodes..., d_h)."""
        return self.vector.expand(*batch.node_categories.shape[:-1], -1)


_MOST_FITTED = 1000  # how many training graphs the scale is taken from, evenly spread over them


class PairWalks(nn.Module):
    """e0_ij += W (s * r_ij) with r_ij = [I, P, ..., P^(K-1)]_ij, K = `num_steps`.

    If `scaled`, s_k is 1 over the standard deviation of step k over the training graphs (the mean stays); else 1.
    """

    scale: Tensor | None

    def __init__(self, num_steps: int, width: int, *, scaled: bool, bias: bool) -> None:
        super().__init__()
        self.num_steps = num_steps
        self.W = nn.Linear(num_steps, width, bias=bias)
        self.register_buffer("scale", torch.ones(num_steps) if scaled else None)

    def fit(self, samples: Sequence[Sample]) -> None:
        """Take the scale from training graphs; a step without any spread keeps 1."""
        if self.scale is None:
            return
        chosen = range(0, len(samples), -(-len(samples) // _MOST_FITTED))
        sums = np.zeros((3, self.num_steps))
        for k in chosen:
            rows = self.rows(samples[k])
            sums += (np.full(self.num_steps, len(rows)), rows.sum(0, np.float64), np.square(rows).sum(0, np.float64))
        mean, square = sums[1:] / np.maximum(sums[0], 1)
        std = np.sqrt(np.maximum(square - mean**2, 0.0))
        scale = np.divide(1.0, std, out=np.ones_like(std), where=std > 1e-6)
        self.scale.copy_(torch.from_numpy(scale))

    def rows(self, sample: Sample) -> Array:
        """Return the probabilities of all pairs of a graph, or of its listed ones. Returns (pairs, K)."""
        values = sample.pair["random_walk"] if "random_walk" in sample.pair else sample.listed["random_walk"]
        return values.reshape(-1, values.shape[-1])[:, : self.num_steps]

    def project(self, probabilities: Tensor) -> Tensor:
        """probabilities: (..., K or more). Returns (..., width)."""
        weight = self.W.weight if self.scale is None else self.W.weight * self.scale
        return functional.linear(probabilities[..., : self.num_steps], weight, self.W.bias)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (pairs..., d_e)."""
        return self.project(batch.pair["random_walk"])


class NodeWalks(PairWalks):
    """h0_i += W (s * r_ii), without a bias: r_ii holds a one."""

    def __init__(self, num_steps: int, width: int, *, scaled: bool) -> None:
        super().__init__(num_steps, width, scaled=scaled, bias=False)

    def rows(self, sample: Sample) -> Array:
        """Return the probabilities (N, K) of returns: a pair of a node with itself is where a walk of no steps is."""
        rows = super().rows(sample)
        own: Array = rows[rows[:, 0] == 1]
        return own

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (nodes..., d_h)."""
        pair = batch.layout.pair_indices
        own = (pair.i == pair.j).expand(batch.layout.pair_shape)
        diagonal = batch.pair["random_walk"][own]  # (nodes, K), in the order of the node channel
        return self.project(diagonal).view(*batch.node_categories.shape[:-1], -1)


class NumbersOfPairs(nn.Module):
    """e0_ij += W [b(x_ij), x_ij is missing] for F numbers x of each pair.

    b are K = `num_basis` Gaussians of each number, `exp(-(s_k (u - c_k))^2 / 2)`, where u is x in units of the range
    that it has in training, and c and s are learned; K = 0: the number itself. Of a missing number, NaN, b is zero.
    """

    range: Tensor

    def __init__(self, num_values: int, num_basis: int, width: int) -> None:
        super().__init__()
        self.num_basis = num_basis
        self.W = nn.Linear(num_values * (num_basis or 1) + num_values, width)
        if num_basis:
            centers = torch.linspace(0, 1, num_basis).repeat(num_values, 1)  # (F, K)
            self.c, self.s = nn.Parameter(centers), nn.Parameter(torch.full_like(centers, num_basis))
            self.register_buffer("range", torch.tensor([[0.0], [1.0]]).repeat(1, num_values))  # (2, F) low and high

    def numbers(self, batch: GraphBatch) -> Tensor:
        """Return (pairs..., F), or (pairs..., C, F) where C of each are averaged; NaN where missing."""
        raise NotImplementedError

    def numbers_of(self, sample: Sample) -> Array:
        """Return the numbers (n, F) that a graph has in training."""
        raise NotImplementedError

    def fit(self, samples: Sequence[Sample]) -> None:
        """Take the range of the numbers from training graphs: all but a hundredth of them at either end."""
        if not self.num_basis:
            return
        chosen = range(0, len(samples), -(-len(samples) // _MOST_FITTED))
        rows = np.concatenate([_sample_rows(self.numbers_of(samples[k])) for k in chosen]).astype(np.float64)
        for column, numbers in enumerate(rows.T):
            known = numbers[~np.isnan(numbers)]
            low, high = np.quantile(known, [0.01, 0.99]) if len(known) else (0.0, 1.0)
            self.range[:, column] = torch.tensor([low, high if high - low > 1e-6 else low + 1.0])

    def described(self, x: Tensor) -> Tensor:
        """x: (..., F) numbers. Returns (..., what W reads)."""
        missing = x.isnan()
        x = x.masked_fill(missing, 0.0)
        if not self.num_basis:
            return torch.cat([x, missing.to(x)], dim=-1)
        low, high = self.range
        u = ((x - low) / (high - low)).unsqueeze(-1)
        gaussians = (-0.5 * (self.s * (u - self.c)).square()).exp()
        gaussians = gaussians.masked_fill(missing.unsqueeze(-1), 0.0).flatten(-2)
        return torch.cat([gaussians, missing.to(x)], dim=-1)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (pairs..., d_e)."""
        return self.W(self.described(self.numbers(batch)))


_NUMBERS_FITTED = 10_000  # how many of the numbers of a graph the range is taken from


def _sample_rows(rows: Array) -> Array:
    return rows[:: -(-len(rows) // _NUMBERS_FITTED)]


class PairValueProjection(NumbersOfPairs):
    """Matrices over all pairs (`NumbersOfPairs`)."""

    def numbers(self, batch: GraphBatch) -> Tensor:
        """See `NumbersOfPairs.numbers`."""
        return batch.pair["pair_values"]

    def numbers_of(self, sample: Sample) -> Array:
        """See `NumbersOfPairs.numbers_of`."""
        values = sample.pair["pair_values"] if "pair_values" in sample.pair else sample.listed["pair_values"]
        return values.reshape(-1, values.shape[-1])


class DistanceBasis(NumbersOfPairs):
    """Distances of nodes with known positions (`NumbersOfPairs`), averaged over conformers.

    With `types`, nodes have an id t in the first category, and x_ij is `(1 + a_(t_i t_j)) d_ij + b_(t_i t_j)`.
    In training, normal numbers with the standard deviation `noise` are added to the positions.
    """

    def __init__(self, num_basis: int, width: int, *, types: int = 0, noise: float = 0.0) -> None:
        super().__init__(1, num_basis, width)
        self.types, self.noise = types, noise
        # Id -1, unknown, has the first row and column.
        self.of_types = nn.Parameter(torch.zeros((types + 1) ** 2, 2)) if types else None

    def offsets(self, batch: GraphBatch) -> Tensor:
        """Return r_j - r_i, (pairs..., C, D)."""
        places = batch.node["positions"]  # (nodes..., C, D)
        if self.training and self.noise:
            keys = derive(_keys(batch), 0, Stream.POSITIONS)
            width = places.shape[-2] * places.shape[-1]
            drawn = normal(keys, batch.layout.node_indices, width).expand(*places.shape[:-2], width)
            places = places + self.noise * drawn.view_as(places)
        places = places.flatten(0, -3)
        i, j = batch.layout.pair_nodes
        return places[j] - places[i]

    def numbers(self, batch: GraphBatch) -> Tensor:
        """Return (pairs..., C, 1)."""
        return self.distances(batch, self.offsets(batch)).unsqueeze(-1)

    def distances(self, batch: GraphBatch, r: Tensor) -> Tensor:
        """Return x of pairs, (pairs..., C), from their offsets r, (pairs..., C, D)."""
        d = r.square().sum(-1).sqrt()
        if self.of_types is not None:
            i, j = batch.layout.pair_nodes
            t = batch.node_categories[..., 0].flatten() + 1
            a, b = rows_of(self.of_types, t[i] * (self.types + 1) + t[j]).unbind(-1)
            missing = d.isnan()  # NaN times a gradient of zero would be NaN
            d = ((1 + a.unsqueeze(-1)) * d.masked_fill(missing, 0.0) + b.unsqueeze(-1)).masked_fill(missing, torch.nan)
        return d

    def numbers_of(self, sample: Sample) -> Array:
        """See `NumbersOfPairs.numbers_of`."""
        places = sample.node["positions"].swapaxes(0, 1)[:, :_NODES_FITTED]  # (C, N, D)
        return np.linalg.norm(places[:, :, None] - places[:, None], axis=-1).reshape(-1, 1)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (pairs..., d_e)."""
        return self.W(self.described(self.numbers(batch)).mean(-2))


class SignedVolumes(DistanceBasis):
    """Volumes spanned by what lies around a node, which tell an arrangement in space from its mirror image.

        v_ic = <a_ic, b_ic x c_ic>,     a_ic = sum_j (W b(x_ij))_c u_ij, and likewise b_ic and c_ic

    u_ij is the unit vector from i to j, and b(x_ij) describes the distance as in `DistanceBasis`. v is the same
    wherever the positions are moved and however they are rotated, and changes its sign in a mirror. It is averaged over
    conformers; nodes without a place add nothing.

    Args:
        num_volumes: how many c there are.
        num_basis, width, types, noise: as in `DistanceBasis`.
    """

    def __init__(self, num_volumes: int, num_basis: int, width: int, *, types: int = 0, noise: float = 0.0) -> None:
        super().__init__(num_basis, 3 * num_volumes, types=types, noise=noise)
        self.O = nn.Linear(num_volumes, width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (nodes..., d_h)."""
        layout = batch.layout
        r = self.offsets(batch)  # (pairs..., C, 3)
        weights = self.W(self.described(self.distances(batch, r).unsqueeze(-1)))  # (pairs..., C, 3 V)
        counts = ~r.isnan().any(-1, keepdim=True)
        if layout.real_pairs is not None:
            counts = counts & layout.real_pairs[..., None, None]
        u = functional.normalize(r.masked_fill(~counts, 0.0), dim=-1)
        around = weights.unsqueeze(-1) * u.unsqueeze(-2)  # (pairs..., C, 3 V, 3)
        summed = layout.sum_keys(around.flatten(-3)).unflatten(-1, (r.shape[-2], 3, -1, 3))
        a, b, c = summed.unbind(-3)  # (nodes..., C, V, 3)
        volumes = (a * torch.linalg.cross(b, c)).sum(-1).mean(-2)
        return self.O(volumes)


_NODES_FITTED = 300  # how many nodes of a graph the range of distances is taken from


class PairCategoryEmbedding(nn.Module):
    """Categorical features of all pairs, a learned row for each id and one for "missing"; their rows are summed."""

    first: Tensor

    def __init__(self, sizes: Sequence[int], width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(sum(sizes) + len(sizes), width)
        first = np.cumsum([1, *(size + 1 for size in sizes[:-1])])  # the row of id 0; before it that of -1
        self.register_buffer("first", torch.from_numpy(first), persistent=False)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (pairs..., d_e)."""
        return sum_of_rows(self.table.weight, batch.pair["pair_categories"] + self.first)


class PairTypes(nn.Module):
    """The sum of a learned vector for each type that a chosen pair was chosen as (`egt.data.encodings.encoding`)."""

    bits: Tensor

    def __init__(self, num_types: int, width: int) -> None:
        super().__init__()
        self.W = nn.Linear(num_types, width, bias=False)
        numbers = torch.arange(1 << num_types).unsqueeze(-1)
        self.register_buffer("bits", (numbers >> torch.arange(num_types) & 1).float(), persistent=False)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (P, d_e)."""
        table = self.W(self.bits)  # (2^T, d_e): one row for each set of types
        return rows_of(table, batch.pair["pairs"].to(torch.int64))


def everyone(batch: GraphBatch) -> Tensor | None:
    """Let every real node attend every real node. Returns (pairs..., 1) boolean, None when nothing is masked."""
    if not batch.layout.has_all_pairs:
        raise ConfigError("the edge-list layout holds only edges; global attention needs packed or padded")
    real = batch.layout.real_pairs
    return None if real is None else real.unsqueeze(-1)


def neighbors(batch: GraphBatch) -> Tensor | None:
    """Let node i attend j where the edge i -> j exists, and itself. (pairs..., 1) boolean, None where all pairs do."""
    if batch.layout.has_only_attended:
        return None
    index = batch.layout.pair_indices
    allowed = (index.i == index.j).expand(batch.layout.pair_shape).flatten()
    allowed = allowed.index_fill(0, batch.edge_pairs, True).view(*batch.layout.pair_shape, 1)
    real = batch.layout.real_pairs
    return allowed if real is None else torch.logical_and(allowed, real.unsqueeze(-1))


def chosen(batch: GraphBatch) -> Tensor | None:
    """Let node i attend j where the pair was chosen. (P, 1) boolean, None where all were."""
    return None if batch.layout.has_only_attended else (batch.pair["pairs"] != 0).unsqueeze(-1)


class Embed(nn.Module):
    """h0 = sum of node terms, e0 = sum of pair terms; `mask` gives who may attend whom."""

    def __init__(
        self,
        node_terms: Sequence[nn.Module],
        pair_terms: Sequence[nn.Module],
        mask: Callable[[GraphBatch], Tensor | None] = everyone,
    ) -> None:
        super().__init__()
        self.node_terms = nn.ModuleList(node_terms)
        self.pair_terms = nn.ModuleList(pair_terms)
        self.mask = mask

    def forward(self, batch: GraphBatch) -> Channels:
        """Return the channels entering the first layer."""
        h = reduce(add, (term(batch) for term in self.node_terms))
        first, *others = self.pair_terms
        e = first(batch)
        for term in others:
            e = term.added_to(e, batch) if isinstance(term, EdgeTerm) else e + term(batch)
        degree = batch.node.get("out_degree")
        context = AttentionContext(batch.layout, self.mask(batch), batch.random_keys, degree)
        return Channels(h, e, context, batch.queries, batch.edge_pairs)
