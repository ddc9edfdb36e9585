"""One prediction per edge, or per query pair in link prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from egt.graph import Level
from egt.parts import register
from egt.readouts.readout import ReadoutPart, Reads

if TYPE_CHECKING:
    from egt.config.model import ModelConfig
    from egt.nn.readout import Readout


@register
class PerEdge(ReadoutPart):
    """One output per edge, or per query pair in link prediction.

    The edge channel is read; EGT-Simple has none to read, and takes both nodes and the edge embedding.
    """

    kind: Literal["edge"] = "edge"
    level: ClassVar[Level] = "edge"

    def reads(self, model: ModelConfig) -> Reads:
        """See `ReadoutPart.reads`."""
        return "pairs" if model.updates_edges else "nodes"

    def width(self, model: ModelConfig) -> int:
        """See `ReadoutPart.width`."""
        return model.edge_width if model.updates_edges else 2 * model.node_width + model.edge_width

    def module(self, model: ModelConfig) -> Readout:
        """See `ReadoutPart.module`."""
        from egt.nn.readout import EdgeOfNodesReadout, EdgeReadout

        if model.updates_edges:
            return EdgeReadout(model.norm(model.edge_width))
        return EdgeOfNodesReadout(model.norm(model.node_width))
