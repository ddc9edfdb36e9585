"""Singular triplets -> the SVD encoding, with one sign rule for all vectors. Compiled by numba when imported.

Vectors of eigen- and singular value decompositions are defined up to their sign.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from egt.jit import compiled

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NEGLIGIBLE = 1e-6
"""A sum below this share of the sum of its absolute terms counts as zero: rounding may not choose a sign."""
TIE = 1e-10
"""Eigenvalues of opposite sign are of one size when they differ by less than twice this share of the largest one."""

_VECTOR, _MATRIX = numba.float64[::1], numba.float64[:, ::1]


@compiled(numba.float64(_MATRIX, numba.float64[:], numba.float64[:]))
def _sign(weights: Matrix, u: Vector, v: Vector) -> float:
    """Return the sign of one pair of vectors, by the rule of `canonical_signs`."""
    for w in range(len(weights)):
        for kind in range(4):
            moment = size = 0.0
            for i in range(len(u)):
                a = u[i] if kind in (0, 2) else v[i]  # u^3, v^3, u^2 v, v^2 u
                b = u[i] if kind in (0, 3) else v[i]
                term = weights[w, i] * a * a * b
                moment += term
                size += abs(term)
            if abs(moment) > NEGLIGIBLE * size:
                return 1.0 if moment > 0 else -1.0
    largest = np.abs(u).max()
    for i in range(len(u)):
        if abs(u[i]) >= (1 - NEGLIGIBLE) * largest:
            return 1.0 if u[i] >= 0 else -1.0
    return 1.0


@compiled(_VECTOR(_MATRIX, _MATRIX, _MATRIX))
def signs_of_pairs(weights: Matrix, u: Matrix, v: Matrix) -> Vector:
    """(K,) signs of the pairs of columns of u and v (N, K), with weights (W, N)."""
    signs = np.empty(u.shape[1])
    for k in range(u.shape[1]):
        signs[k] = _sign(weights, u[:, k], v[:, k])
    return signs


@compiled(numba.float32[:, ::1](_MATRIX, _MATRIX, _VECTOR, _MATRIX, numba.int64))
def encode_triplets(weights: Matrix, u: Matrix, s: Vector, v: Matrix, rank: int) -> NDArray[np.float32]:
    """Return the encoding (N, 2 rank) of K triplets, from large to small; what is missing, or is noise, is zero."""
    num_nodes = len(u)
    encoding = np.zeros((num_nodes, 2 * rank), np.float32)
    for k in range(len(s)):
        if s[k] > num_nodes * np.finfo(np.float64).eps * s[0]:
            scale = _sign(weights, u[:, k], v[:, k]) * np.sqrt(s[k])
            for i in range(num_nodes):
                encoding[i, k] = u[i, k] * scale
                encoding[i, rank + k] = v[i, k] * scale
    return encoding


@compiled(numba.float32[:, ::1](_MATRIX, _VECTOR, _MATRIX, numba.int64))
def encode_eigenvectors(weights: Matrix, values: Vector, vectors: Matrix, rank: int) -> NDArray[np.float32]:
    """Encode a symmetric matrix, the sum of lambda x x^T, as (N, 2 rank): s = |lambda|, u = x, v = sign(lambda) x.

    Of lambda and -lambda the positive one comes first, whatever rounding did to them.
    """
    order = np.argsort(-np.abs(values + TIE * np.abs(values).max()), kind="mergesort")[:rank]
    num_nodes = len(vectors)
    s, u, v = np.empty(len(order)), np.empty((num_nodes, len(order))), np.empty((num_nodes, len(order)))
    for k in range(len(order)):
        value = values[order[k]]
        s[k] = abs(value)
        for i in range(num_nodes):
            u[i, k] = vectors[i, order[k]]
            v[i, k] = u[i, k] if value >= 0 else -u[i, k]
    encoding: NDArray[np.float32] = encode_triplets(weights, u, s, v, rank)
    return encoding


_EDGES, _ENCODING = numba.int64[:, ::1], numba.float32[:, ::1]


@compiled(numba.types.Tuple((numba.boolean, _ENCODING))(numba.int64, _EDGES, _VECTOR, numba.int64))
def encode_symmetric(
    num_nodes: int, edges: NDArray[np.int64], entries: Vector, rank: int
) -> tuple[bool, NDArray[np.float32]]:
    """Return whether the adjacency matrix is symmetric, and if so its encoding (N, 2 rank).

    The matrix has `entries[e]` for the edge `edges[0, e] -> edges[1, e]`, and ones on its diagonal. The weights of the
    sign rule are ones, degrees and sums of degrees.
    """
    A = np.zeros((num_nodes, num_nodes))
    for e in range(edges.shape[1]):
        A[edges[0, e], edges[1, e]] = entries[e]
    for i in range(num_nodes):
        A[i, i] = 1.0
        for j in range(i):
            if A[i, j] != A[j, i]:
                return False, np.zeros((0, 2 * rank), np.float32)
    weights = np.ones((3, num_nodes))
    for row in range(2):
        for i in range(num_nodes):
            total = 0.0
            for j in range(num_nodes):
                total += A[i, j] * weights[row, j]
            weights[row + 1, i] = total
    values, vectors = np.linalg.eigh(A)
    return True, encode_eigenvectors(weights, values, np.ascontiguousarray(vectors), rank)


@compiled(numba.uint8[:, ::1](numba.int64, numba.int64[:, ::1], numba.int64))
def hop_distances(num_nodes: int, edges: NDArray[np.int64], max_hops: int) -> NDArray[np.uint8]:
    """Return the hop distances (N, N) of the graph with edges `edges[0, e] -> edges[1, e]`; `max_hops + 1` if farther.

    `reach[i]` is the set of nodes within k steps of i. One more step gives
    `reach'[i] = reach[i] | union of reach[j] over edges i -> j`, and what is new in it is at distance k + 1.
    64 nodes are handled by one machine word: the cost is E N / 64 for each hop.
    """
    num_words = (num_nodes + 63) // 64
    distances = np.full((num_nodes, num_nodes), max_hops + 1, np.uint8)
    reach = np.zeros((num_nodes, num_words), np.uint64)
    for i in range(num_nodes):
        reach[i, i // 64] = np.uint64(1) << np.uint64(i % 64)
        distances[i, i] = 0
    for hop in range(1, max_hops + 1):
        farther = reach.copy()
        for e in range(edges.shape[1]):
            i, j = edges[0, e], edges[1, e]
            for word in range(num_words):
                farther[i, word] |= reach[j, word]
        grown = False
        for i in range(num_nodes):
            for word in range(num_words):
                new = farther[i, word] & ~reach[i, word]
                node = word * 64
                while new != np.uint64(0):
                    grown = True
                    if new & np.uint64(1):
                        distances[i, node] = hop
                    new >>= np.uint64(1)
                    node += 1
        if not grown:
            break
        reach = farther
    return distances
