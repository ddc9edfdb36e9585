"""How many steps it takes from one node to another: the structural matrix of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from egt.encodings.loops import hop_distances
from egt.errors import ConfigError
from egt.graph import Graph, IntArray

LARGEST_MAX_HOPS = 254
"""Distances are kept in one byte, and one value is needed for farther nodes."""


@dataclass(frozen=True)
class ShortestPaths:
    """Hop distances of directed walks; self-loops do not count.

    Args:
        max_hops: distances up to this one are exact; `max_hops + 1` stands for farther or unreachable.
    """

    max_hops: int = 16

    name: ClassVar[str] = "distance"
    level: ClassVar[Literal["pair"]] = "pair"
    stored: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 1 <= self.max_hops <= LARGEST_MAX_HOPS:
            raise ConfigError(f"ShortestPaths: max_hops is {self.max_hops}; it must be 1..{LARGEST_MAX_HOPS}")

    def join(self, other: ShortestPaths) -> ShortestPaths:
        """Search as far as either asks; who reads the distances clips them."""
        return ShortestPaths(max(self.max_hops, other.max_hops))

    def __call__(self, graph: Graph) -> NDArray[np.uint8]:
        """Compute the distances (N, N): [i, j] is the length of the shortest walk from i to j, 0 on the diagonal."""
        return self.each([graph])[0]

    def each(self, graphs: Sequence[Graph]) -> list[NDArray[np.uint8]]:
        """See `ManyAtOnce`."""
        if self.max_hops == 1:
            return [_adjacent(graph) for graph in graphs]
        return hop_distances(graphs, self.max_hops)

    def at(self, graph: Graph, pairs: IntArray) -> NDArray[np.uint8]:
        """Return the distances (P,) of some pairs (2, P)."""
        i, j = pairs
        edges = graph.edge_index[0] * graph.num_nodes + graph.edge_index[1]
        distances = np.where(i == j, 0, np.where(np.isin(i * graph.num_nodes + j, edges), 1, 2)).astype(np.uint8)
        farther = np.flatnonzero(distances == 2)
        if self.max_hops > 1 and len(farther):
            from egt.encodings.pair_loops import both_neighbors, pair_distances

            searched = np.ascontiguousarray(pairs[:, farther])
            distances[farther] = pair_distances(*both_neighbors(graph), searched, self.max_hops)
        return distances


def _adjacent(graph: Graph) -> NDArray[np.uint8]:
    """Distances up to one hop: the adjacency matrix says it all."""
    distances = np.full((graph.num_nodes, graph.num_nodes), 2, np.uint8)
    distances[graph.edge_index[0], graph.edge_index[1]] = 1
    np.fill_diagonal(distances, 0)
    return distances
