"""Hop distances as an input: a table by distance, or stacked reachability as in the authors' TensorFlow code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from egt.encodings.distances import ShortestPaths
from egt.encodings.encoding import Encoding
from egt.inputs.input import Hops, PairInput
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn


@register
class Distance(PairInput):
    """Shortest-path distance clipped at `max_hops`, from a table with a row of its own for "farther"."""

    kind: Literal["distance"] = "distance"
    max_hops: Hops = 16

    def encodings(self) -> tuple[Encoding, ...]:
        """See `Input.encodings`."""
        return (ShortestPaths(self.max_hops),)

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import DistanceTable

        return DistanceTable(self.max_hops, width)


@register
class Reachability(PairInput):
    """Stacked "reachable in at most k steps" for k up to `num_hops`; 1 is the adjacency matrix with self-loops."""

    kind: Literal["reachability"] = "reachability"
    num_hops: Hops = 16

    def encodings(self) -> tuple[Encoding, ...]:
        """See `Input.encodings`."""
        return (ShortestPaths(self.num_hops),)

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import ReachabilityProjection

        return ReachabilityProjection(self.num_hops, width)
