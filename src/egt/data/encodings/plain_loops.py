"""What `egt.data.encodings.loops` computes, in plain numpy: the specification, and what is used without a compiler."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from egt.graph import Graph, IntArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NEGLIGIBLE = 1e-6
"""A sum below this share of the sum of its absolute terms counts as zero: rounding may not choose a sign."""

TIE = 1e-10
"""Eigenvalues of opposite sign are of one size when they differ by less than twice this share of the largest one."""


def signs_of_pairs(weights: Matrix, u: Matrix, v: Matrix) -> Vector:
    return np.array([_sign(weights, u[:, k], v[:, k]) for k in range(u.shape[1])])


def _sign(weights: Matrix, u: Vector, v: Vector) -> float:
    """Return the sign of one pair of vectors, by the rule of `canonical_signs`."""
    for w in weights:
        for twice, once in ((u, u), (v, v), (u, v), (v, u)):
            terms = w * twice * twice * once
            if abs(terms.sum()) > NEGLIGIBLE * np.abs(terms).sum():
                return 1.0 if terms.sum() > 0 else -1.0
    large = np.flatnonzero(np.abs(u) >= (1 - NEGLIGIBLE) * np.abs(u).max())
    return 1.0 if u[large[0]] >= 0 else -1.0


def encode_triplets(weights: Matrix, u: Matrix, s: Vector, v: Matrix, rank: int) -> NDArray[np.float32]:
    num_nodes = len(u)
    encoding = np.zeros((num_nodes, 2 * rank), np.float32)
    for k in np.flatnonzero(s > num_nodes * np.finfo(np.float64).eps * s[:1]):
        scale = _sign(weights, u[:, k], v[:, k]) * np.sqrt(s[k])
        encoding[:, k], encoding[:, rank + k] = u[:, k] * scale, v[:, k] * scale
    return encoding


def encode_eigenvectors(weights: Matrix, values: Vector, vectors: Matrix, rank: int) -> NDArray[np.float32]:
    if vectors.ndim > 2:
        return np.stack([encode_eigenvectors(*one, rank) for one in zip(weights, values, vectors, strict=True)])
    order = np.argsort(-np.abs(values + TIE * np.abs(values).max()), kind="stable")[:rank]
    u = vectors[:, order]
    return encode_triplets(weights, u, np.abs(values[order]), np.where(values[order] >= 0, u, -u), rank)


def adjacency(graph: Graph, entries: Vector) -> tuple[Matrix, Matrix | None]:
    """Return the adjacency matrix (N, N) with ones on the diagonal, and weights (3, N); None if it is not symmetric."""
    A = np.zeros((graph.num_nodes, graph.num_nodes))
    A[graph.edge_index[0], graph.edge_index[1]] = entries
    np.fill_diagonal(A, 1.0)
    if not np.array_equal(A, A.T):
        return A, None
    degree = A.sum(1)
    return A, np.stack([np.ones(graph.num_nodes), degree, A @ degree])


def hop_distances(graph: Graph, max_hops: int) -> NDArray[np.uint8]:
    """See `egt.data.encodings.loops`, for one graph."""
    step = np.zeros((graph.num_nodes, graph.num_nodes), np.float32)
    step[graph.edge_index[0], graph.edge_index[1]] = 1
    distances = np.full(step.shape, max_hops + 1, np.uint8)
    reach = np.eye(graph.num_nodes, dtype=bool)
    distances[reach] = 0
    for hop in range(1, max_hops + 1):
        new = (step @ reach.astype(np.float32) > 0) & ~reach
        if not new.any():
            break
        distances[new] = hop
        reach |= new
    return distances


_MASK = (1 << 64) - 1


def _uniform(state: int) -> float:
    """Return a number in [0, 1) that the state alone decides (the mixing of splitmix64)."""
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _MASK
    return float((state ^ (state >> 31)) >> 11) * 2.0**-53


def draw_neighborhood(start: IntArray, keys: IntArray, roots: IntArray, limits: IntArray, seed: int) -> IntArray:
    found = dict.fromkeys(roots.tolist())
    state, border = seed, [*found]
    for limit in limits.tolist():
        known = len(found)
        for node in border:
            neighbors = [key for key in keys[start[node] : start[node + 1]].tolist() if key != node]
            needed = len(neighbors) if limit < 0 else min(limit, len(neighbors))
            for left, neighbor in zip(range(len(neighbors), 0, -1), neighbors, strict=True):
                state = (state + 0x9E3779B97F4A7C15) & _MASK
                if needed == left or _uniform(state) * left < needed:
                    needed -= 1
                    found[neighbor] = None
                if needed == 0:
                    break
        border = [*found][known:]
    return np.array(sorted(found), np.int64)


def inner_pairs(start: IntArray, keys: IntArray, nodes: IntArray) -> IntArray:
    inside = np.zeros(len(start) - 1, bool)
    inside[nodes] = True
    first, counts = start[nodes], start[nodes + 1] - start[nodes]
    rows = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    inner: IntArray = rows[inside[keys[rows]]]
    return inner


Neighbors = tuple[IntArray, IntArray]
"""`nodes[start[i] : start[i + 1]]` are the neighbors of node i: start is (N + 1,), nodes is (E,)."""


def both_neighbors(graph: Graph) -> tuple[Neighbors, Neighbors]:
    """Return the neighbors after each node, on edges i -> j, and those before it; self-loops do not count."""
    i, j = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
    return _sorted_neighbors(i, j, graph.num_nodes), _sorted_neighbors(j, i, graph.num_nodes)


def _sorted_neighbors(i: IntArray, j: IntArray, num_nodes: int) -> Neighbors:
    start = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(i, minlength=num_nodes), out=start[1:])
    return start, j[np.argsort(i, kind="stable")]


def pair_distances(graph: Graph, pairs: IntArray, max_hops: int) -> NDArray[np.uint8]:
    (start, nodes), _ = both_neighbors(graph)
    distances = np.zeros(pairs.shape[1], np.uint8)
    for i in np.unique(pairs[0]):
        hops = np.full(graph.num_nodes, max_hops + 1)
        hops[i], border = 0, np.array([i])
        for hop in range(1, max_hops + 1):
            reached = np.concatenate([nodes[start[node] : start[node + 1]] for node in border])
            border = np.unique(reached[hops[reached] > max_hops])
            if not len(border):
                break
            hops[border] = hop
        distances[pairs[0] == i] = hops[pairs[1, pairs[0] == i]]
    return distances


def pair_walks(graph: Graph, pairs: IntArray) -> NDArray[np.float64]:
    next_nodes, previous = (
        [nodes[first:last].tolist() for first, last in pairwise(start)] for start, nodes in both_neighbors(graph)
    )
    degree = [max(len(nodes), 1) for nodes in next_nodes]
    walks = np.zeros((pairs.shape[1], 6))
    for row, (i, j) in zip(walks, pairs.T.tolist(), strict=True):
        count, chance = np.zeros(graph.num_nodes), np.zeros(graph.num_nodes)  # of two steps from node i
        for u in next_nodes[i]:
            for v in next_nodes[u]:
                count[v] += 1
                chance[v] += 1 / (degree[i] * degree[u])
        row[[0, 3]] = count[j], chance[j]
        for u in previous[j]:
            row[[1, 4]] += count[u], chance[u] / degree[u]
            for v in previous[u]:
                row[[2, 5]] += count[v], chance[v] / (degree[v] * degree[u])
    return walks


def _transitions(graph: Graph, weights: Vector) -> tuple[IntArray, IntArray, NDArray[np.float32]]:
    """Return the nonzeros of P, sorted by rows: from which node (E,), to which one (E,), its probability (E,)."""
    order = np.argsort(graph.edge_index[0], kind="stable")
    (i, j), weights = graph.edge_index[:, order], weights[order]
    degree = np.bincount(i, weights, graph.num_nodes)[i]
    return i, j, np.divide(weights, degree, out=np.zeros(len(i)), where=weights > 0).astype(np.float32)


def walk_powers(graph: Graph, weights: Vector, num_steps: int) -> NDArray[np.float32]:
    """See `egt.data.encodings.loops`; along edges."""
    steps = [*zip(*(each.tolist() for each in _transitions(graph, weights)), strict=True)]
    powers = np.zeros((num_steps, graph.num_nodes, graph.num_nodes), np.float32)
    powers[0] = np.eye(graph.num_nodes)
    for k in range(1, num_steps):
        for i, j, probability in steps:
            powers[k, i] += np.float32(probability) * powers[k - 1, j]
    return powers


def dense_walk_powers(graph: Graph, weights: Vector, num_steps: int) -> NDArray[np.float32]:
    """See `egt.data.encodings.loops`; by products of matrices."""
    i, j = graph.edge_index
    degree = np.bincount(i, weights, graph.num_nodes)[i]
    P = np.zeros((graph.num_nodes, graph.num_nodes), np.float32)
    P[i, j] = np.divide(weights, degree, out=np.zeros(len(i)), where=weights > 0)
    powers = np.zeros((num_steps, *P.shape), np.float32)
    powers[0] = np.eye(len(P))
    for k in range(1, num_steps):
        np.dot(P, powers[k - 1], out=powers[k])
    return powers


def walk_powers_at(graph: Graph, weights: Vector, num_steps: int, pairs: IntArray) -> NDArray[np.float32]:
    i, j, probabilities = _transitions(graph, weights)
    values = np.zeros((pairs.shape[1], num_steps), np.float32)
    for first in np.unique(pairs[0]):
        rows = np.flatnonzero(pairs[0] == first)
        here = np.zeros(graph.num_nodes, np.float32)
        here[first] = 1
        for k in range(num_steps):
            values[rows, k] = here[pairs[1, rows]]
            there = np.zeros_like(here)
            np.add.at(there, j, here[i] * probabilities)
            here = there
    return values
