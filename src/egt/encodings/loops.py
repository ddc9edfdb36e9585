"""Hop distances, and singular triplets -> the SVD encoding, with one sign rule for all vectors.

Vectors of eigen- and singular value decompositions are defined up to their sign. The loops are compiled
(`native/csrc/loops.h`); `egt.encodings.plain_loops` computes the same where there is no compiler, and more slowly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.encodings import plain_loops
from egt.native.library import library

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def _addresses(*arrays: NDArray[Any]) -> list[int]:
    """Return where the numbers of contiguous arrays are."""
    return [array.ctypes.data for array in arrays]


def signs_of_pairs(weights: Matrix, u: Matrix, v: Matrix) -> Vector:
    """(K,) signs of the pairs of columns of u and v (N, K), with weights (W, N); all contiguous."""
    native = library()
    if native is None:
        return plain_loops.signs_of_pairs(weights, u, v)
    signs = np.empty(u.shape[1])
    native.egt_signs(len(weights), *u.shape, *_addresses(weights, u, v, signs))
    return signs


def encode_triplets(weights: Matrix, u: Matrix, s: Vector, v: Matrix, rank: int) -> NDArray[np.float32]:
    """Return the encoding (N, 2 rank) of K triplets, from large to small; what is missing, or is noise, is zero."""
    native = library()
    if native is None:
        return plain_loops.encode_triplets(weights, u, s, v, rank)
    weights, u, s, v = (np.ascontiguousarray(array) for array in (weights, u, s, v))
    encoding = np.zeros((len(u), 2 * rank), np.float32)
    native.egt_encode_triplets(len(weights), *u.shape, rank, *_addresses(weights, u, s, v, encoding))
    return encoding


def encode_eigenvectors(weights: Matrix, values: Vector, vectors: Matrix, rank: int) -> NDArray[np.float32]:
    """Encode a symmetric matrix, the sum of lambda x x^T, as (N, 2 rank): s = |lambda|, u = x, v = sign(lambda) x.

    Of lambda and -lambda the positive one comes first, whatever rounding did to them.

    Args:
        weights: (W, N) of the sign rule.
        values: (K,) eigenvalues.
        vectors: (N, K) their vectors.
        rank: how many of them are encoded; columns of missing ones are zero.
    """
    native = library()
    if native is None:
        return plain_loops.encode_eigenvectors(weights, values, vectors, rank)
    weights, values, vectors = (np.ascontiguousarray(array) for array in (weights, values, vectors))
    encoding = np.zeros((len(vectors), 2 * rank), np.float32)
    native.egt_encode_eigenvectors(len(weights), *vectors.shape, rank, *_addresses(weights, values, vectors, encoding))
    return encoding


def encode_symmetric(
    num_nodes: int, edges: NDArray[np.int64], entries: Vector, rank: int
) -> NDArray[np.float32] | None:
    """Return the encoding (N, 2 rank) of an adjacency matrix; None if it is not symmetric.

    The matrix has `entries[e]` for the edge `edges[0, e] -> edges[1, e]`, and ones on its diagonal. The weights of the
    sign rule are ones, degrees and sums of degrees.
    """
    native = library()
    if native is None:
        found = plain_loops.symmetric_adjacency(num_nodes, edges, entries)
        if found is None:
            return None
        A, weights = found
    else:
        A, weights, edges = np.zeros((num_nodes, num_nodes)), np.empty((3, num_nodes)), np.ascontiguousarray(edges)
        if not native.egt_undirected_adjacency(num_nodes, edges.shape[1], *_addresses(edges, entries, A, weights)):
            return None
    values, vectors = np.linalg.eigh(A)
    return encode_eigenvectors(weights, values, vectors, rank)


def hop_distances(num_nodes: int, edges: NDArray[np.int64], max_hops: int) -> NDArray[np.uint8]:
    """Return the hop distances (N, N) of the graph with edges `edges[0, e] -> edges[1, e]`; `max_hops + 1` if farther.

    64 nodes are handled by one machine word: the cost is E N / 64 for each hop.
    """
    native = library()
    if native is None:
        return plain_loops.hop_distances(num_nodes, edges, max_hops)
    edges = np.ascontiguousarray(edges)
    distances = np.empty((num_nodes, num_nodes), np.uint8)
    native.egt_hop_distances(num_nodes, edges.shape[1], max_hops, *_addresses(edges, distances))
    return distances
