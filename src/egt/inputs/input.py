"""What all inputs share: settings, features they read, encodings they need, and the module that embeds them.

Beside them stands the slot of `egt.pairs`: which pairs there are for the inputs to describe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from egt.encodings.encoding import Encoding, listed
from egt.graph import Graph, IntArray
from egt.parts import Part, Registry

if TYPE_CHECKING:
    from torch import nn

    from egt.config.run import RunConfig

Absent = Literal["zero", "learned"]
Hops = Annotated[int, Field(ge=1, le=254)]
Sizes = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]


class Input(Part):
    """One term of the sum that enters a channel."""

    def features(self) -> Mapping[str, Any]:
        """Return the fields of `FeatureSchema` that a graph must have."""
        return {}

    def encodings(self) -> tuple[Encoding, ...]:
        """Return what is computed for each graph beforehand."""
        return ()

    def module(self, width: int) -> nn.Module:
        """Return the learned half: a module from a `GraphBatch` to rows of this width."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is embedded (method `module`)")


class NodeInput(Input):
    """A term of the node channel; its module gives (nodes..., d_h)."""

    registry: ClassVar[Registry[type[NodeInput]]] = Registry("node input", __package__)


class PairInput(Input):
    """A term of the edge channel; its module gives (pairs..., d_e)."""

    registry: ClassVar[Registry[type[PairInput]]] = Registry("pair input", __package__)

    def check(self, run: RunConfig) -> None:
        """Refuse a layout that lacks pairs which the input describes."""
        if run.data.layout != "edge_list":
            return
        if any(encoding.level == "pair" for encoding in listed(self.encodings())):
            raise ValueError(
                f"data.layout edge_list holds no pairs except edges, and the input {self.kind} describes all of them; "
                "drop it, or use the packed layout"
            )


class PairChoice(Part):
    """A way to choose the pairs of a sparse model (`egt.encodings.chosen_pairs.Choice`)."""

    registry: ClassVar[Registry[type[PairChoice]]] = Registry("choice of pairs", "egt.pairs")

    @property
    def types(self) -> tuple[str, ...]:
        """What a pair can be chosen as; each type is a learned term of the edge channel."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its pairs are (property `types`)")

    def choose(self, graph: Graph) -> Sequence[IntArray]:
        """Return the pairs (2, P) of each type."""
        raise NotImplementedError(f"{type(self).__name__} does not say which pairs it chooses (method `choose`)")

    def check(self, run: RunConfig) -> None:
        """Refuse a layout with all pairs."""
        if run.data.layout != "edge_list":
            raise ValueError("model.pairs chooses the pairs of a list; set data.layout to edge_list")
