"""Loops over the nodes, edges and pairs of graphs: compiled (`native/csrc/loops.h`), or else `plain_loops`.

Distances and the SVD encoding take many graphs at once: calling them for each would take longer than a molecule does.
Eigenvectors and singular vectors are defined up to their sign; one rule chooses it for all encodings.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.encodings import plain_loops
from egt.graph import Graph, IntArray
from egt.native.library import Graphs, Neighbors, address, library

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Encodings = list[NDArray[np.float32] | None]

_ENTRIES_AT_ONCE = 1_000_000
"""Entries of matrices that are in memory together: those of all molecules that are prepared at once."""


class _Together:
    """The edges of some graphs, one after another, as the library takes them."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self.num_nodes = np.array([graph.num_nodes for graph in graphs], np.int64)
        self._num_edges = np.array([graph.num_edges for graph in graphs], np.int64)
        self._edges = np.concatenate([np.zeros((2, 0), np.int64), *(graph.edge_index for graph in graphs)], 1)
        places = map(address, (self.num_nodes, self._num_edges, *self._edges))
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
    native.egt_signs(len(weights), *u.shape, *map(address, (weights, u, v, signs)))
    return signs


def encode_triplets(weights: Matrix, u: Matrix, s: Vector, v: Matrix, rank: int) -> NDArray[np.float32]:
    """Return the encoding (N, 2 rank) of K triplets, from large to small; what is missing, or is noise, is zero."""
    native = library()
    if native is None:
        return plain_loops.encode_triplets(weights, u, s, v, rank)
    given = [np.ascontiguousarray(array) for array in (weights, u, s, v)]
    encoding = np.zeros((len(u), 2 * rank), np.float32)
    native.egt_encode_triplets(len(weights), *u.shape, rank, *map(address, given), address(encoding))
    return encoding


def encode_eigenvectors(weights: Matrix, values: Vector, vectors: Matrix, rank: int) -> NDArray[np.float32]:
    """Encode symmetric matrices, each the sum of lambda x x^T: s = |lambda|, u = x, v = sign(lambda) x.

    Of lambda and -lambda the positive one comes first, whatever rounding did to them. From weights (..., W, N) of the
    sign rule, values (..., K) and vectors (..., N, K), returns (..., N, 2 rank); columns of missing vectors are zero.
    """
    native = library()
    if native is None:
        return plain_loops.encode_eigenvectors(weights, values, vectors, rank)
    weights, values, vectors = (np.ascontiguousarray(array) for array in (weights, values, vectors))
    *several, num_nodes, num_columns = vectors.shape
    encoding = np.zeros((*several, num_nodes, 2 * rank), np.float32)
    native.egt_encode_eigenvectors(
        *(int(np.prod(several)), weights.shape[-2], num_nodes, num_columns, rank),
        *map(address, (weights, values, vectors, encoding)),
    )
    return encoding


def encode_undirected(graphs: Sequence[Graph], entries: Sequence[Vector], rank: int) -> Encodings:
    """Return the encoding (N, 2 rank) of each graph whose adjacency matrix is symmetric; None for others.

    `entries` (E,) of each are what the matrix has for its edges, beside ones on its diagonal. Graphs are best sorted by
    size: those of one size that follow each other are decomposed at once.
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
    native.egt_undirected_adjacency(given.passed, *map(address, (all_entries, A, weights, undirected)))
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
    native.egt_hop_distances(given.passed, max_hops, address(distances))
    parts = _split(distances, given.num_nodes**2)
    return [part.reshape(n, n) for part, n in zip(parts, given.num_nodes.tolist(), strict=True)]


def canonical_signs(weights: Matrix, u: Matrix, v: Matrix | None = None) -> NDArray[np.float64]:
    """Choose the sign, 1.0 or -1.0, of each column u_k, or pair (u_k, v_k), however the nodes are numbered.

    A pair may only be flipped jointly. Its sign is that of the first odd moment that is not negligible, out of `sum_i
    w_i m_i` for each row w of the weights and each m in u^3, v^3, u^2 v, u v^2. Where all of them vanish, as they do
    when a symmetry of the graph maps u_k to -u_k, the first of the largest entries is positive.

    weights: (W, N) quantities of the nodes that follow a renumbering: first ones, then for example degrees. u: (N, K)
    left vectors. v: (N, K) right vectors; None if there are none, or if they are u or -u (their moments say the same).
    """
    left = np.ascontiguousarray(u)
    right = left if v is None else np.ascontiguousarray(v)
    return signs_of_pairs(np.ascontiguousarray(weights), left, right)


DENSE = 1 / 6
"""The share of all pairs that are edges from which on a product of matrices is faster than a walk along edges."""


def _neighbors(start: IntArray, nodes: IntArray) -> Neighbors:
    """Return how a call takes neighbors; the arrays must live until it returns."""
    return Neighbors(len(start) - 1, address(start), address(nodes))


def draw_neighborhood(start: IntArray, keys: IntArray, roots: IntArray, limits: IntArray, seed: int) -> IntArray:
    """Return the roots and the neighbors that are drawn for them, hop by hop, sorted.

    At hop k each node that was new at the hop before brings along `limits[k]` of its neighbors, drawn without
    replacement (Knuth's selection sampling), or all it has if those are fewer or the limit is negative.

    The pairs of a graph are sorted by their first node: those of node i are `start[i]` to `start[i + 1]` of `keys`, the
    second nodes (P,), and one of them is the node itself. The draws follow from the seed, of 64 bits.
    """
    native = library()
    if native is None:
        return plain_loops.draw_neighborhood(start, keys, roots, limits, seed)
    roots, reached = np.ascontiguousarray(roots), np.zeros(len(start) - 1, np.bool_)
    native.egt_draw_neighborhood(
        *(_neighbors(start, keys), len(roots), address(roots), len(limits), address(limits), seed, address(reached))
    )
    return np.flatnonzero(reached)


def inner_pairs(start: IntArray, keys: IntArray, nodes: IntArray) -> IntArray:
    """Return the rows of the pairs whose nodes are both among some nodes, which come sorted. The pairs as above."""
    native = library()
    if native is None:
        return plain_loops.inner_pairs(start, keys, nodes)
    nodes, num_rows = np.ascontiguousarray(nodes), np.zeros(1, np.int64)
    rows = np.empty((start[nodes + 1] - start[nodes]).sum() + 1, np.int64)
    native.egt_inner_pairs(_neighbors(start, keys), len(nodes), address(nodes), address(rows), address(num_rows))
    return rows[: num_rows[0]].copy()


def pair_distances(graph: Graph, pairs: IntArray, max_hops: int) -> NDArray[np.uint8]:
    """Return the hop distances (P,) of some pairs (2, P); `max_hops + 1` if farther. Nothing of size N^2 exists."""
    native = library()
    if native is None:
        return plain_loops.pair_distances(graph, pairs, max_hops)
    (after, before), pairs = plain_loops.both_neighbors(graph), np.ascontiguousarray(pairs)
    distances = np.empty(pairs.shape[1], np.uint8)
    native.egt_pair_distances(
        *(_neighbors(*after), _neighbors(*before), len(distances), address(pairs), max_hops, address(distances))
    )
    return distances


def pair_walks(graph: Graph, pairs: IntArray) -> NDArray[np.float64]:
    """Return the walks of 2, 3 and 4 steps between pairs (2, P): (P, 6) their numbers, then their probabilities."""
    native = library()
    if native is None:
        return plain_loops.pair_walks(graph, pairs)
    (after, before), pairs = plain_loops.both_neighbors(graph), np.ascontiguousarray(pairs)
    walks = np.zeros((pairs.shape[1], 6))
    native.egt_pair_walks(_neighbors(*after), _neighbors(*before), len(walks), address(pairs), address(walks))
    return walks


def walk_powers(graph: Graph, weights: Vector, num_steps: int) -> NDArray[np.float32]:
    """Return `I, P, ..., P^(K-1)` as (K, N, N), for `P = D^-1 A`: A has the weights (E,), and D are its row sums.

    Rows of P^k are sums over neighbors of rows of P^(k-1): the cost is E N for each step. Dense graphs multiply
    matrices instead, which takes N^3 faster operations.
    """
    native, num_nodes = library(), graph.num_nodes
    if graph.num_edges > DENSE * num_nodes * num_nodes:
        return plain_loops.dense_walk_powers(graph, weights, num_steps)
    if native is None:
        return plain_loops.walk_powers(graph, weights, num_steps)
    edges, powers = np.ascontiguousarray(graph.edge_index), np.zeros((num_steps, num_nodes, num_nodes), np.float32)
    native.egt_walk_powers(num_nodes, edges.shape[1], *map(address, (edges, weights)), num_steps, address(powers))
    return powers


def walk_powers_at(graph: Graph, weights: Vector, num_steps: int, pairs: IntArray) -> NDArray[np.float32]:
    """Return the same at some pairs (2, R), sorted by the first node, as (R, K).

    The walk from each first node is followed: nothing of size N^2 exists, and the cost is at most E for each step and
    each node.
    """
    native = library()
    if native is None:
        return plain_loops.walk_powers_at(graph, weights, num_steps, pairs)
    edges, pairs = np.ascontiguousarray(graph.edge_index), np.ascontiguousarray(pairs)
    values = np.empty((pairs.shape[1], num_steps), np.float32)
    native.egt_walk_powers_at(
        *(graph.num_nodes, graph.num_edges, address(edges), address(weights), num_steps, len(values)),
        *(address(pairs), address(values)),
    )
    return values
