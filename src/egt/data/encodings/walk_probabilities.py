"""Probabilities of random walks, compiled by numba when imported: between all pairs of nodes, or at listed pairs."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from egt.jit import compiled

Integers = NDArray[np.int64]

Floats = NDArray[np.float32]

DENSE = 1 / 6
"""The share of all pairs that are edges from which on a product of matrices is faster than a walk along edges."""

_PAIRS, _WEIGHTS = numba.int64[:, ::1], numba.float64[::1]

_STEPS = numba.types.Tuple((numba.int64[::1], numba.int64[::1], numba.float32[::1]))


@compiled(_STEPS(numba.int64, _PAIRS, _WEIGHTS))
def transitions(num_nodes: int, edges: Integers, weights: NDArray[np.float64]) -> tuple[Integers, Integers, Floats]:
    """Return the nonzeros of `P = D^-1 A` by rows: the steps from node i are those from `first[i]` to `first[i + 1]`.

    A has `weights[e]` for the edge `edges[0, e] -> edges[1, e]`, and D are its row sums; a row without weight is zero.

    Returns:
        first (N + 1,), the node that each step leads to (E,), its probability (E,).
    """
    order = np.argsort(edges[0], kind="mergesort")
    first, degree = np.zeros(num_nodes + 1, np.int64), np.zeros(num_nodes)
    for e in order:
        first[edges[0, e] + 1] += 1
        degree[edges[0, e]] += weights[e]
    steps = np.zeros(len(order), np.float32)
    for position, e in enumerate(order):
        if weights[e] > 0:
            steps[position] = weights[e] / degree[edges[0, e]]
    return np.cumsum(first), edges[1][order], steps


@compiled(numba.float32[:, :, ::1](numba.int64, _PAIRS, _WEIGHTS, numba.int64))
def walk_powers(num_nodes: int, edges: Integers, weights: NDArray[np.float64], num_steps: int) -> Floats:
    """Return `I, P, ..., P^(K-1)` as (K, N, N).

    Row i of `P^k` is the sum of `P_il` times row l of `P^(k-1)` over the neighbors l of i: the cost is E N for each
    step. Dense graphs multiply matrices instead, which takes N^3 faster operations.
    """
    first, keys, steps = transitions(num_nodes, edges, weights)
    powers = np.zeros((num_steps, num_nodes, num_nodes), np.float32)
    for i in range(num_nodes):
        powers[0, i, i] = 1.0
    if len(steps) > DENSE * num_nodes * num_nodes:
        P = np.zeros((num_nodes, num_nodes), np.float32)
        for i in range(num_nodes):
            for e in range(first[i], first[i + 1]):
                P[i, keys[e]] = steps[e]
        for k in range(1, num_steps):
            np.dot(P, powers[k - 1], powers[k])
        return powers
    for k in range(1, num_steps):
        for i in range(num_nodes):
            row = powers[k, i]
            for e in range(first[i], first[i + 1]):
                source, step = powers[k - 1, keys[e]], steps[e]
                for j in range(num_nodes):
                    row[j] += step * source[j]
    return powers


@compiled(numba.float32[:, ::1](numba.int64, _PAIRS, _WEIGHTS, numba.int64, _PAIRS))
def walk_powers_at(
    num_nodes: int, edges: Integers, weights: NDArray[np.float64], num_steps: int, pairs: Integers
) -> Floats:
    """Return `[I, P, ..., P^(K-1)]` at the pairs `pairs[0, r], pairs[1, r]`, sorted by the first, as (R, K).

    The walk from each first node is followed: nothing of size N^2 exists, and the cost is at most E for each step and
    each node.
    """
    first, keys, steps = transitions(num_nodes, edges, weights)
    values = np.zeros((pairs.shape[1], num_steps), np.float32)
    begin = 0
    while begin < pairs.shape[1]:
        end = begin
        while end < pairs.shape[1] and pairs[0, end] == pairs[0, begin]:
            end += 1
        before = np.zeros(num_nodes, np.float32)
        before[pairs[0, begin]] = 1.0
        for k in range(num_steps):
            for r in range(begin, end):
                values[r, k] = before[pairs[1, r]]
            after = np.zeros(num_nodes, np.float32)
            for i in range(num_nodes):
                if before[i] > 0:
                    for e in range(first[i], first[i + 1]):
                        after[keys[e]] += before[i] * steps[e]
            before = after
        begin = end
    return values
