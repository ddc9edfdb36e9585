"""One prediction per node."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from egt.graph import Level
from egt.parts import register
from egt.readouts.readout import ReadoutPart

if TYPE_CHECKING:
    from egt.config.model import ModelConfig
    from egt.nn.readout import Readout


@register
class PerNode(ReadoutPart):
    """One output per node."""

    kind: Literal["node"] = "node"
    level: ClassVar[Level] = "node"

    def module(self, model: ModelConfig) -> Readout:
        """See `ReadoutPart.module`."""
        from egt.nn.readout import NodeReadout

        return NodeReadout(model.norm(model.node_width))
