"""Pooling by attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from egt.graph import Level
from egt.parts import register
from egt.readouts.readout import ReadoutPart

if TYPE_CHECKING:
    from egt.config.model import ModelConfig
    from egt.nn.readout import Readout


@register
class AttentionPool(ReadoutPart):
    """One output per graph, from the nodes that learned queries attend, one for each head."""

    kind: Literal["attention"] = "attention"
    level: ClassVar[Level] = "graph"

    def module(self, model: ModelConfig) -> Readout:
        """See `ReadoutPart.module`."""
        from egt.nn.pooling import AttentionReadout

        return AttentionReadout(model.num_heads, model.node_width, model.norm(model.node_width))
