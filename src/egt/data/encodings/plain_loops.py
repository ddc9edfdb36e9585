"""What `egt.data.encodings.loops` computes, in plain numpy: the specification, and what is used without a compiler."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from egt.graph import Graph

Vector = NDArray[np.float64]

Matrix = NDArray[np.float64]

NEGLIGIBLE = 1e-6
"""A sum below this share of the sum of its absolute terms counts as zero: rounding may not choose a sign."""

TIE = 1e-10
"""Eigenvalues of opposite sign are of one size when they differ by less than twice this share of the largest one."""


def signs_of_pairs(weights: Matrix, u: Matrix, v: Matrix) -> Vector:
    """See `egt.data.encodings.loops`."""
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
    """See `egt.data.encodings.loops`."""
    num_nodes = len(u)
    encoding = np.zeros((num_nodes, 2 * rank), np.float32)
    for k in np.flatnonzero(s > num_nodes * np.finfo(np.float64).eps * s[:1]):
        scale = _sign(weights, u[:, k], v[:, k]) * np.sqrt(s[k])
        encoding[:, k], encoding[:, rank + k] = u[:, k] * scale, v[:, k] * scale
    return encoding


def encode_eigenvectors(weights: Matrix, values: Vector, vectors: Matrix, rank: int) -> NDArray[np.float32]:
    """See `egt.data.encodings.loops`."""
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
