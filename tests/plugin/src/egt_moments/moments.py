"""Pooling by the mean and the spread of the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from egt.readouts.readout import ReadoutPart

from egt.graph import Level
from egt.parts import register

if TYPE_CHECKING:
    from egt.config.run import ModelConfig
    from egt.nn.readout import Readout


@register
class Moments(ReadoutPart):
    """One output per graph, from the mean and the standard deviation of its nodes."""

    kind: Literal["moments"] = "moments"
    level: ClassVar[Level] = "graph"

    def width(self, model: ModelConfig) -> int:
        """See `ReadoutPart.width`."""
        return 2 * model.node_width

    def module(self, model: ModelConfig) -> Readout:
        """See `ReadoutPart.module`."""
        from egt_moments.pooling import MomentReadout

        return MomentReadout(model.norm(model.node_width))
