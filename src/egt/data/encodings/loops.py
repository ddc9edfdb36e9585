"""Hop distances, and singular triplets -> the SVD encoding, with one sign rule for all vectors.

Vectors of eigen- and singular value decompositions are defined up to their sign. The loops are compiled
(`native/csrc/loops.h`) and take many graphs at once: calling them for each would take longer than a molecule does.
`egt.data.encodings.plain_loops` computes the same where there is no compiler.


One sign rule for every encoding made of eigenvectors or singular vectors, which are defined up to their sign.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.encodings import plain_loops
from egt.graph import Graph
from egt.native.library import Graphs, library

Vector = NDArray[np.float64]

Matrix = NDArray[np.float64]

Encodings = list[NDArray[np.float32] | None]

_ENTRIES_AT_ONCE = 1_000_000
"""Entries of matrices that are in memory together: those of all molecules that are prepared at once."""


def _address(array: NDArray[Any]) -> int:
    """Return where the numbers of a contiguous array are."""
    address: int = array.ctypes.data
    return address


class _Together:
    """The edges of some graphs, one after another, as the library takes them."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self.num_nodes = np.array([graph.num_nodes for graph in graphs], np.int64)
        self._num_edges = np.array([graph.num_edges for graph in graphs], np.int64)
        self._edges = np.concatenate([np.zeros((2, 0), np.int64), *(graph.edge_index for graph in graphs)], 1)
        places = map(_address, (self.num_nodes, self._num_edges, *self._edges))
        self.passed = ctypes.byref(Graphs(len(graphs), *places))


def _split(rows: NDArray[Any], counts: NDArray[np.int64]) -> list[NDArray[Any]]:
    """Return the rows of each graph. counts: (graphs,) how many there are."""
    return [rows[start:end] for start, end in pairwise([0, *np.cumsum(counts).tolist()])]


def signs_of_pairs(weights: Matrix, u: Matrix, v: Matrix) -> Vector:
    """(K,) signs of the pairs of columns of u and v (N, K), with weights (W, N); all contiguous."""
    native = library()
    if native is None:
        return plain_loops.signs_of_pairs(weights, u, v)
    signs = np.empty(u.shape[1])
    native.egt_signs(len(weights), *u.shape, *map(_address, (weights, u, v, signs)))
    return signs


def encode_triplets(weights: Matrix, u: Matrix, s: Vector, v: Matrix, rank: int) -> NDArray[np.float32]:
    """Return the encoding (N, 2 rank) of K triplets, from large to small; what is missing, or is noise, is zero."""
    native = library()
    if native is None:
        return plain_loops.encode_triplets(weights, u, s, v, rank)
    given = [np.ascontiguousarray(array) for array in (weights, u, s, v)]
    encoding = np.zeros((len(u), 2 * rank), np.float32)
    native.egt_encode_triplets(len(weights), *u.shape, rank, *map(_address, given), _address(encoding))
    return encoding


def encode_eigenvectors(weights: Matrix, values: Vector, vectors: Matrix, rank: int) -> NDArray[np.float32]:
    """Encode symmetric matrices, each the sum of lambda x x^T: s = |lambda|, u = x, v = sign(lambda) x.

    Of lambda and -lambda the positive one comes first, whatever rounding did to them.

    Args:
        weights: (..., W, N) of the sign rule.
        values: (..., K) eigenvalues.
        vectors: (..., N, K) their vectors.
        rank: how many of them are encoded; columns of missing ones are zero.

    Returns:
        (..., N, 2 rank).
    """
    native = library()
    if native is None:
        return plain_loops.encode_eigenvectors(weights, values, vectors, rank)
    weights, values, vectors = (np.ascontiguousarray(array) for array in (weights, values, vectors))
    *several, num_nodes, num_columns = vectors.shape
    encoding = np.zeros((*several, num_nodes, 2 * rank), np.float32)
    native.egt_encode_eigenvectors(
        *(int(np.prod(several)), weights.shape[-2], num_nodes, num_columns, rank),
        *map(_address, (weights, values, vectors, encoding)),
    )
    return encoding


def encode_undirected(graphs: Sequence[Graph], entries: Sequence[Vector], rank: int) -> Encodings:
    """Return the encoding (N, 2 rank) of each graph whose adjacency matrix is symmetric; None for others.

    Args:
        graphs: best from small to large: those of one size that follow each other are decomposed at once.
        entries: (E,) of each: what the matrix has for its edges, beside ones on its diagonal.
        rank: of the encodings.
    """
    found: Encodings = []
    for some in _in_memory_at_once([graph.num_nodes for graph in graphs]):
        found += _encode_undirected(graphs[some], entries[some], rank)
    return found


def _in_memory_at_once(sizes: Sequence[int]) -> Iterator[slice]:
    """Yield runs of graphs whose matrices are in memory together."""
    start = total = 0
    for k, size in enumerate(sizes):
        total += size * size
        if total > _ENTRIES_AT_ONCE and k > start:
            yield slice(start, k)
            start, total = k, size * size
    yield slice(start, len(sizes))


def _encode_undirected(graphs: Sequence[Graph], entries: Sequence[Vector], rank: int) -> Encodings:
    found: Encodings = [None] * len(graphs)
    undirected = [(k, A, weights) for k, (A, weights) in enumerate(_adjacency(graphs, entries)) if weights is not None]
    for _, alike in groupby(undirected, lambda one: len(one[1])):
        numbers, matrices, weights = zip(*alike, strict=True)
        encoded = encode_eigenvectors(np.stack(weights), *np.linalg.eigh(np.stack(matrices)), rank)
        for k, encoding in zip(numbers, encoded, strict=True):
            found[k] = encoding
    return found


def _adjacency(graphs: Sequence[Graph], entries: Sequence[Vector]) -> list[tuple[Matrix, Matrix | None]]:
    """Return the adjacency matrix (N, N) of each graph with ones on the diagonal, and the weights of the sign rule.

    These are (3, N) ones, degrees and sums of degrees over neighbors; None where the matrix is not symmetric.
    """
    native = library()
    if native is None:
        return [plain_loops.adjacency(graph, each) for graph, each in zip(graphs, entries, strict=True)]
    given, all_entries = _Together(graphs), np.concatenate([np.zeros(0), *entries])
    sizes = given.num_nodes
    A, weights, undirected = np.zeros((sizes**2).sum()), np.empty(3 * sizes.sum()), np.zeros(len(graphs), np.bool_)
    native.egt_undirected_adjacency(given.passed, *map(_address, (all_entries, A, weights, undirected)))
    parts = zip(_split(A, sizes**2), _split(weights, 3 * sizes), undirected.tolist(), strict=True)
    return [
        (of_graph.reshape(n, n), its_weights.reshape(3, n) if symmetric else None)
        for n, (of_graph, its_weights, symmetric) in zip(sizes.tolist(), parts, strict=True)
    ]


def hop_distances(graphs: Sequence[Graph], max_hops: int) -> list[NDArray[np.uint8]]:
    """Return the hop distances (N, N) of each graph, along the direction of its edges; `max_hops + 1` if farther.

    64 nodes are handled by one machine word: the cost is E N / 64 for each hop.
    """
    native = library()
    if native is None:
        return [plain_loops.hop_distances(graph, max_hops) for graph in graphs]
    given = _Together(graphs)
    distances = np.empty((given.num_nodes**2).sum(), np.uint8)
    native.egt_hop_distances(given.passed, max_hops, _address(distances))
    parts = _split(distances, given.num_nodes**2)
    return [part.reshape(n, n) for part, n in zip(parts, given.num_nodes.tolist(), strict=True)]


def canonical_signs(weights: Matrix, u: Matrix, v: Matrix | None = None) -> NDArray[np.float64]:
    """Choose the sign of each column u_k, or pair (u_k, v_k), independently of how the nodes are numbered.

    A pair may only be flipped jointly. Its sign is that of the first odd moment that is not negligible, out of
    `sum_i w_i m_i` for each row w of the weights and each m in u^3, v^3, u^2 v, u v^2. Where all of them vanish, as
    they do when a symmetry of the graph maps u_k to -u_k, the first of the largest entries is positive.

    Args:
        weights: (W, N) quantities of the nodes that follow a renumbering: first ones, then for example degrees.
        u: (N, K) left vectors.
        v: (N, K) right vectors; None if there are none, or if they are u or -u (their moments say the same).

    Returns:
        (K,) of 1.0 and -1.0.
    """
    left = np.ascontiguousarray(u)
    right = left if v is None else np.ascontiguousarray(v)
    return signs_of_pairs(np.ascontiguousarray(weights), left, right)
