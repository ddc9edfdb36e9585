"""All pairs, as in dense EGT."""

from __future__ import annotations

from typing import Literal

import numpy as np

from egt.graph import Graph, IntArray
from egt.inputs.input import PairChoice
from egt.parts import register


@register
class All(PairChoice):
    """Every pair of nodes."""

    kind: Literal["all"] = "all"

    @property
    def types(self) -> tuple[str, ...]:
        """See `Choice.types`."""
        return ("other",)

    def choose(self, graph: Graph) -> tuple[IntArray, ...]:
        """See `Choice.choose`."""
        return (all_pairs(graph.num_nodes),)


def all_pairs(num_nodes: int) -> IntArray:
    """Return the pairs (2, N (N - 1)) of different nodes."""
    pairs = np.indices((num_nodes, num_nodes)).reshape(2, -1)
    return pairs[:, pairs[0] != pairs[1]]
