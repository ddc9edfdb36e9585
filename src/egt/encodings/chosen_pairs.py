"""The pairs that a sparse model has of a graph, and why each was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from egt.graph import Graph, IntArray


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
