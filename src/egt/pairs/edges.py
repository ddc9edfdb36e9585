"""The edges themselves, which alone make EGT-Constrained."""

from __future__ import annotations

from typing import Literal

from egt.graph import Graph, IntArray
from egt.inputs.input import PairChoice
from egt.parts import register


@register
class Edges(PairChoice):
    """Every edge; with `reverse` also its opposite, where the graph has none."""

    kind: Literal["edges"] = "edges"
    reverse: bool = True

    @property
    def types(self) -> tuple[str, ...]:
        """See `Choice.types`."""
        return ("edge", "reverse") if self.reverse else ("edge",)

    def choose(self, graph: Graph) -> tuple[IntArray, ...]:
        """See `Choice.choose`; both directions of an undirected edge have both types."""
        return (graph.edge_index, graph.edge_index[::-1])[: len(self.types)]
