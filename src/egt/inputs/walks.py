"""How many short walks lead from one node to another: common neighbors, and what lies one and two steps farther."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from egt.encodings.encoding import Encoding
from egt.graph import Graph, IntArray
from egt.inputs.input import PairInput
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn


@register
class Walks(PairInput):
    """Numbers and lifts of the walks of two, three and four steps between each pair; also on lists of edges."""

    kind: Literal["walks"] = "walks"

    def encodings(self) -> tuple[Encoding, ...]:
        """See `Input.encodings`."""
        return (ShortWalks(),)

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import PairProjection

        return PairProjection("walks", ShortWalks.width, width)


@dataclass(frozen=True)
class ShortWalks:
    """`log(1 + c)` of the walks of 2, 3 and 4 steps from i to j: of their number, then of their lift.

    Walks of two steps are the common neighbors of i and j. The lift is the probability that a random walk from i
    stands on j after so many steps, divided by the share of all edges that end in j: 1 for strangers in a well-mixed
    graph, large within a community, whatever the degrees are. Directions count; weights and self-loops do not.
    """

    name: ClassVar[str] = "walks"
    level: ClassVar[Literal["pair"]] = "pair"
    stored: ClassVar[bool] = True
    width: ClassVar[int] = 6

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return the encoding (N, N, 6)."""
        pairs = np.indices((graph.num_nodes, graph.num_nodes)).reshape(2, -1)
        return self.at(graph, pairs).reshape(graph.num_nodes, graph.num_nodes, self.width)

    def at(self, graph: Graph, pairs: IntArray) -> NDArray[np.float32]:
        """Return the rows (P, 6) of some pairs (2, P)."""
        from egt.encodings.pair_loops import both_neighbors, pair_walks  # imports numba

        after, before = both_neighbors(graph)
        walks: NDArray[np.float64] = pair_walks(after, before, np.ascontiguousarray(pairs))
        share = np.diff(before[0]) / max(len(before[1]), 1)
        walks[:, 3:] /= np.maximum(share, 1e-300)[pairs[1], None]
        return np.log1p(walks).astype(np.float32)
