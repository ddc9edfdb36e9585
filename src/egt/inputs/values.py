"""Continuous features of nodes and edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import PositiveInt

from egt.inputs.input import Absent, NodeInput, PairInput
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn


@register
class NodeValues(NodeInput):
    """Continuous node features."""

    kind: Literal["node_values"] = "node_values"
    num_values: PositiveInt

    def features(self) -> Mapping[str, Any]:
        """See `Input.features`."""
        return {"num_node_values": self.num_values}

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import NodeValueProjection

        return NodeValueProjection(self.num_values, width)


@register
class EdgeValues(PairInput):
    """Continuous edge features; `absent` is what a non-edge gets."""

    kind: Literal["edge_values"] = "edge_values"
    num_values: PositiveInt
    absent: Absent = "zero"
    needs_all_pairs: ClassVar[bool] = False

    def features(self) -> Mapping[str, Any]:
        """See `Input.features`."""
        return {"num_edge_values": self.num_values}

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import EdgeValueProjection

        return EdgeValueProjection(self.num_values, width, self.absent)
