"""Whom the nodes of a piece of a large graph bring along, and which pairs the piece has. Compiled by numba.

The pairs of a graph come sorted by their first node: those of node i are `start[i]` to `start[i + 1]` of `keys`, the
second nodes, and one of them is the node with itself.
"""

from __future__ import annotations

import numba
import numpy as np

from egt.graph import IntArray
from egt.jit import compiled

ALL = -1
"""The limit of a hop that takes every neighbor."""

_INDEX = numba.int64[::1]


@compiled(numba.float64(numba.uint64))
def _uniform(state: np.uint64) -> float:
    """Return a number in [0, 1) that the state alone decides (the mixing of splitmix64)."""
    x = state
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return float(x >> np.uint64(11)) * 2.0**-53


@compiled(_INDEX(_INDEX, _INDEX, _INDEX, _INDEX, numba.uint64))
def neighborhood(start: IntArray, keys: IntArray, roots: IntArray, limits: IntArray, seed: np.uint64) -> IntArray:
    """Return the roots and the neighbors that are drawn for them, hop by hop, sorted.

    At hop k each node that was new at the hop before brings along `limits[k]` of its neighbors, drawn without
    replacement (Knuth's selection sampling), or all it has if those are fewer or the limit is `ALL`.
    """
    num_nodes = len(start) - 1
    seen = np.zeros(num_nodes, np.bool_)
    found, end = np.empty(num_nodes, np.int64), 0
    for root in roots:
        if not seen[root]:
            seen[root] = True
            found[end] = root
            end += 1
    border, state = 0, seed
    for limit in limits:
        last = end
        for place in range(border, last):
            node = found[place]
            left = start[node + 1] - start[node] - 1  # without itself
            needed = left if limit < 0 else min(limit, left)
            for row in range(start[node], start[node + 1]):
                neighbor = keys[row]
                if neighbor == node:
                    continue
                state += np.uint64(0x9E3779B97F4A7C15)
                if needed == left or _uniform(state) * left < needed:
                    needed -= 1
                    if not seen[neighbor]:
                        seen[neighbor] = True
                        found[end] = neighbor
                        end += 1
                left -= 1
                if needed == 0:
                    break
        border = last
    return np.flatnonzero(seen)


@compiled(_INDEX(_INDEX, _INDEX, _INDEX))
def inner_pairs(start: IntArray, keys: IntArray, nodes: IntArray) -> IntArray:
    """Return the rows of the pairs whose nodes are both among some nodes, which come sorted."""
    inside = np.zeros(len(start) - 1, np.bool_)
    inside[nodes] = True
    total = 0
    for node in nodes:
        total += start[node + 1] - start[node]
    rows, end = np.empty(total, np.int64), 0
    for node in nodes:
        for row in range(start[node], start[node + 1]):
            if inside[keys[row]]:
                rows[end] = row
                end += 1
    return rows[:end].copy()
