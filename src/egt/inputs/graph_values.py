"""Numbers that describe a whole graph, such as the temperature of a measurement; every node receives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import PositiveInt

from egt.inputs.input import NodeInput
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn


@register
class GraphValues(NodeInput):
    """Continuous features of whole graphs, `num_values` per graph; every node of a graph receives all of them."""

    kind: Literal["graph_values"] = "graph_values"
    num_values: PositiveInt

    def features(self) -> Mapping[str, Any]:
        """See `Input.features`."""
        return {"num_graph_values": self.num_values}

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import GraphValueProjection

        return GraphValueProjection(self.num_values, width)
