"""Global sum pooling, scaled by a constant of the training graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from egt.graph import Level
from egt.parts import register
from egt.readouts.readout import ReadoutPart

if TYPE_CHECKING:
    from egt.config.model import ModelConfig
    from egt.nn.readout import Readout


@register
class ScaledSumPool(ReadoutPart):
    """One output per graph, from the sum of its nodes over the mean size of the training graphs."""

    kind: Literal["scaled_sum"] = "scaled_sum"
    level: ClassVar[Level] = "graph"

    def module(self, model: ModelConfig) -> Readout:
        """See `ReadoutPart.module`."""
        from egt.nn.pooling import ScaledSumReadout

        return ScaledSumReadout(model.norm(model.node_width))
