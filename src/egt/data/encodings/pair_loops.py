"""What lies between the two nodes of some pairs: distances and walks, with nothing of size N^2. Compiled by numba.

A graph comes as its lists of neighbors (`Neighbors`): those after a node (edges i -> j) and those before it.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from egt.graph import Graph, IntArray
from egt.jit import compiled

Neighbors = tuple[IntArray, IntArray]
"""`nodes[start[i] : start[i + 1]]` are the neighbors of node i: start is (N + 1,), nodes is (E,)."""

_INDEX = numba.int64[::1]

_NEIGHBORS = numba.types.UniTuple(_INDEX, 2)

_PAIRS = numba.int64[:, ::1]


def both_neighbors(graph: Graph) -> tuple[Neighbors, Neighbors]:
    """Return the neighbors after and before each node; self-loops do not count."""
    i, j = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
    return _neighbors(i, j, graph.num_nodes), _neighbors(j, i, graph.num_nodes)


def _neighbors(i: IntArray, j: IntArray, num_nodes: int) -> Neighbors:
    start = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(i, minlength=num_nodes), out=start[1:])
    return start, j[np.argsort(i, kind="stable")]


@compiled(numba.uint8[::1](_NEIGHBORS, _NEIGHBORS, _PAIRS, numba.int64))
def pair_distances(after: Neighbors, before: Neighbors, pairs: IntArray, max_hops: int) -> NDArray[np.uint8]:
    """Return the hop distances (P,) of pairs (2, P); `max_hops + 1` if farther.

    Two searches walk toward each other, always the one with fewer nodes at its border: with no meeting after d - 1
    steps of both together, a meeting in the next one is a walk of exactly d steps.
    """
    num_nodes = len(after[0]) - 1
    seen = np.zeros((2, num_nodes), np.int64)  # by which search: the number of its pair, from 1
    queue = np.empty((2, num_nodes), np.int64)
    border, end = np.empty(2, np.int64), np.empty(2, np.int64)
    distances = np.full(pairs.shape[1], max_hops + 1, np.uint8)
    for p in range(pairs.shape[1]):
        if pairs[0, p] == pairs[1, p]:
            distances[p] = 0
            continue
        for side in range(2):
            queue[side, 0], seen[side, pairs[side, p]] = pairs[side, p], p + 1
            border[side], end[side] = 0, 1
        for hop in range(1, max_hops + 1):
            side = 0 if end[0] - border[0] <= end[1] - border[1] else 1
            start, nodes = after if side == 0 else before
            last, met = end[side], False
            for place in range(border[side], last):
                node = queue[side, place]
                for neighbor in nodes[start[node] : start[node + 1]]:
                    if seen[side, neighbor] != p + 1:
                        seen[side, neighbor] = p + 1
                        queue[side, end[side]] = neighbor
                        end[side] += 1
                        met = met or seen[1 - side, neighbor] == p + 1
            border[side] = last
            if met:
                distances[p] = hop
            if met or end[side] == last:
                break
    return distances


@compiled(numba.float64[:, ::1](_NEIGHBORS, _NEIGHBORS, _PAIRS))
def pair_walks(after: Neighbors, before: Neighbors, pairs: IntArray) -> NDArray[np.float64]:
    """Return the walks of 2, 3 and 4 steps between pairs (2, P): (P, 6) their numbers, then their probabilities.

    Two steps are taken from node i, once for all of its pairs if they stand together, and up to two back from node j.
    """
    num_nodes = len(after[0]) - 1
    degree = np.maximum(after[0][1:] - after[0][:-1], 1)
    count, chance = np.zeros(num_nodes), np.zeros(num_nodes)  # of two steps from node i
    reached, num_reached = np.empty(num_nodes, np.int64), 0
    walks = np.zeros((pairs.shape[1], 6))
    for p in range(pairs.shape[1]):
        i, j = pairs[0, p], pairs[1, p]
        if p == 0 or i != pairs[0, p - 1]:
            for node in reached[:num_reached]:
                count[node] = chance[node] = 0.0
            num_reached = 0
            for u in after[1][after[0][i] : after[0][i + 1]]:
                for v in after[1][after[0][u] : after[0][u + 1]]:
                    if count[v] == 0:
                        reached[num_reached] = v
                        num_reached += 1
                    count[v] += 1
                    chance[v] += 1 / (degree[i] * degree[u])
        walks[p, 0], walks[p, 3] = count[j], chance[j]
        for u in before[1][before[0][j] : before[0][j + 1]]:
            walks[p, 1] += count[u]
            walks[p, 4] += chance[u] / degree[u]
            for v in before[1][before[0][u] : before[0][u + 1]]:
                walks[p, 2] += count[v]
                walks[p, 5] += chance[v] / (degree[v] * degree[u])
    return walks
