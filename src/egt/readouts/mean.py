"""Global average pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from egt.graph import Level
from egt.parts import register
from egt.readouts.readout import ReadoutPart

if TYPE_CHECKING:
    from egt.config.model import ModelConfig
    from egt.nn.readout import Readout


@register
class MeanPool(ReadoutPart):
    """One output per graph, from the mean of its nodes."""

    kind: Literal["mean"] = "mean"
    level: ClassVar[Level] = "graph"

    def module(self, model: ModelConfig) -> Readout:
        """See `ReadoutPart.module`."""
        from egt.nn.readout import MeanReadout

        return MeanReadout(model.norm(model.node_width))
