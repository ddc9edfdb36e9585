"""Breadth-first search from all nodes at once, on sets of nodes held as bits. Compiled by numba when imported."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from egt.jit import compiled


@compiled(numba.uint8[:, ::1](numba.int64, numba.int64[:, ::1], numba.int64))
def hop_distances(num_nodes: int, edges: NDArray[np.int64], max_hops: int) -> NDArray[np.uint8]:
    """The hop distances (N, N) of the graph with edges `edges[0, e] -> edges[1, e]`; `max_hops + 1` if farther.

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
