"""Global sum pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from egt.graph import Level
from egt.parts import register
from egt.readouts.readout import ReadoutPart

if TYPE_CHECKING:
    from egt.config.model import ModelConfig
    from egt.nn.readout import Readout


@register
class SumPool(ReadoutPart):
    """One output per graph, from the sum of its nodes."""

    kind: Literal["sum"] = "sum"
    level: ClassVar[Level] = "graph"

    def module(self, model: ModelConfig) -> Readout:
        """See `ReadoutPart.module`."""
        from egt.nn.pooling import SumReadout

        return SumReadout(model.norm(model.node_width))
