"""The attention of a model over a whole data set, in numbers, with some graphs kept to be looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from egt.analysis.edge_channel import EdgeEvolution
from egt.analysis.heads import HeadStatistics
from egt.analysis.hops import HopProfile, pair_hops
from egt.errors import DataError
from egt.inference.attention_capture import Attention


@dataclass(eq=False)
class Analysis:
    """What was found.

    Fields:
        layers: (L) numbers of the layers that attend, from 0.
        hops: how far they look.
        heads: how selective their heads are.
        edges: how the edge channel changes.
        shown: some graphs by their row, with everything about them.
        graphs: how many were looked at.
        unread: how many rows could not be read.
    """

    layers: tuple[int, ...]
    hops: HopProfile
    heads: HeadStatistics
    edges: EdgeEvolution
    shown: dict[int, Attention]
    graphs: int = 0
    unread: int = 0

    @classmethod
    def like(cls, found: Attention) -> Analysis:
        """Return an analysis of no graph, with the sizes of a model."""
        num_layers, num_heads, _ = found.product.shape
        sizes = num_layers, num_heads
        edges = EdgeEvolution.empty(len(found.edges) - 1)
        return cls(found.layers, HopProfile.empty(*sizes), HeadStatistics.empty(*sizes), edges, {})

    def add(self, found: Attention) -> None:
        """Add a graph."""
        hops = pair_hops(found)
        self.hops.add(found, hops)
        self.heads.add(found)
        self.edges.add(found, hops)
        self.graphs += 1


def analyze(attentions: Iterable[Attention | None], show: Sequence[int] = ()) -> Analysis:
    """Return the analysis of graphs that are seen one after another and forgotten, except those to be shown.

    Args:
        attentions: one per row of the data, None where it could not be read.
        show: rows of graphs to keep; without any, the first that could be read.
    """
    analysis: Analysis | None = None
    unread = rows = 0
    for row, found in enumerate(attentions):
        rows += 1
        if found is None:
            unread += 1
            continue
        analysis = analysis or Analysis.like(found)
        analysis.add(found)
        if row in show or not (show or analysis.shown):
            analysis.shown[row] = found
    if analysis is None:
        raise DataError("there is no graph to look at: none of the rows could be read")
    if missing := [row for row in show if row not in analysis.shown]:
        raise DataError(
            f"--show {missing[0]}: there is no such row, or it could not be read; the rows are 0..{rows - 1}"
        )
    analysis.unread = unread
    return analysis
