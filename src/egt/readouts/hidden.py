"""Whatever pre-training hides: one row per node, and one per pair that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import PositiveInt

from egt.graph import Level
from egt.parts import register
from egt.readouts.readout import ReadoutPart, Reads

if TYPE_CHECKING:
    from egt.config.model import ModelConfig
    from egt.nn.readout import Readout


@register
class Hidden(ReadoutPart):
    """The nodes and the query pairs, for the task `pretrain`; `num_virtual` nodes take part without being read."""

    kind: Literal["hidden"] = "hidden"
    level: ClassVar[Level] = "node"
    num_virtual: PositiveInt = 4

    def added_nodes(self) -> int:
        """See `ReadoutPart.added_nodes`."""
        return self.num_virtual

    def reads(self, model: ModelConfig) -> Reads:
        """See `ReadoutPart.reads`."""
        return "both"

    def module(self, model: ModelConfig) -> Readout:
        """See `ReadoutPart.module`."""
        from egt.nn.hiding import HiddenReadout

        d_h, d_e = model.node_width, model.edge_width
        return HiddenReadout(self.num_virtual, d_h, d_e, model.norm(d_h), model.norm(d_e))
