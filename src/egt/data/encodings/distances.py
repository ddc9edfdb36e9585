"""How many edges leave each node, as a number.

The pairs that a sparse model has of a graph, and why each was chosen.

How many steps it takes from one node to another: the structural matrix of the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from egt.data.encodings.loops import hop_distances, pair_distances
from egt.errors import ConfigError
from egt.graph import Graph, IntArray


@dataclass(frozen=True)
class OutDegree:
    """The number of edges i -> j of each node i."""

    name: ClassVar[str] = "out_degree"
    level: ClassVar[Literal["node"]] = "node"
    stored: ClassVar[bool] = False

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return the degrees, (N, 1)."""
        return np.bincount(graph.edge_index[0], minlength=graph.num_nodes).astype(np.float32)[:, None]


class Choice(Protocol):
    """One way to choose pairs."""

    @property
    def types(self) -> tuple[str, ...]:
        """What a pair can be chosen as."""

    def choose(self, graph: Graph) -> Sequence[IntArray]:
        """Return the pairs (2, P) of each type, in any order."""


@dataclass(frozen=True)
class ChosenPairs:
    """The pairs of a graph's list: node i, node j, and the types that the pair was chosen as.

    Each node has the pair with itself, of type 0; the types of the choices follow in order. Type t is bit t of the last
    column. A pair that several choices name has all their bits and one row. Edges and query pairs that no choice names
    are listed with no bit: they have a row to read and write, and are not attended.
    """

    choices: tuple[Choice, ...]

    name: ClassVar[str] = "pairs"
    level: ClassVar[Literal["listed"]] = "listed"
    stored: ClassVar[bool] = True

    @property
    def num_types(self) -> int:
        """How many types there are, that of a node with itself included."""
        return 1 + sum(len(choice.types) for choice in self.choices)

    def __call__(self, graph: Graph) -> NDArray[np.int32]:
        """Return (P, 3), sorted by i and j."""
        n = graph.num_nodes
        own = np.arange(n)
        of_types = [np.stack([own, own]), *(pairs for choice in self.choices for pairs in choice.choose(graph))]
        codes = [pairs[0] * n + pairs[1] for pairs in of_types]
        i, j = graph.listed_pairs
        every = np.unique(np.concatenate([i * n + j, *codes]))
        types = np.zeros(len(every), np.int64)
        for bit, code in enumerate(codes):
            types[np.searchsorted(every, code)] |= 1 << bit
        return np.stack([*np.divmod(every, n), types], axis=1).astype(np.int32)


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
            distances[farther] = pair_distances(graph, pairs[:, farther], self.max_hops)
        return distances


def _adjacent(graph: Graph) -> NDArray[np.uint8]:
    """Distances up to one hop: the adjacency matrix says it all."""
    distances = np.full((graph.num_nodes, graph.num_nodes), 2, np.uint8)
    distances[graph.edge_index[0], graph.edge_index[1]] = 1
    np.fill_diagonal(distances, 0)
    return distances
