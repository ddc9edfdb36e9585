"""Learned nodes that join every graph and are read at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import PositiveInt

from egt.graph import Level
from egt.parts import register
from egt.readouts.readout import ReadoutPart, Reads

if TYPE_CHECKING:
    from egt.config.model import ModelConfig
    from egt.config.run import RunConfig
    from egt.nn.readout import Readout


@register
class VirtualNodes(ReadoutPart):
    """One output per graph, from `num_virtual` virtual nodes.

    `attend_padding` repeats the authors' PyTorch code (padded layout).
    """

    kind: Literal["virtual_nodes"] = "virtual_nodes"
    level: ClassVar[Level] = "graph"
    num_virtual: PositiveInt = 4
    attend_padding: bool = False

    def check(self, run: RunConfig) -> None:
        """See `Part.check`."""
        if self.attend_padding and run.data.layout != "padded":
            raise ValueError("readout.attend_padding exists only on the padded layout; set data.layout to padded")

    def added_nodes(self) -> int:
        """See `ReadoutPart.added_nodes`."""
        return self.num_virtual

    def reads(self, model: ModelConfig) -> Reads:
        """See `ReadoutPart.reads`."""
        return "virtual_nodes"

    def width(self, model: ModelConfig) -> int:
        """See `ReadoutPart.width`."""
        return self.num_virtual * model.node_width

    def module(self, model: ModelConfig) -> Readout:
        """See `ReadoutPart.module`."""
        from egt.nn.readout import PaddingVirtualNodeReadout, VirtualNodeReadout

        readout = PaddingVirtualNodeReadout if self.attend_padding else VirtualNodeReadout
        return readout(self.num_virtual, model.node_width, model.edge_width, model.norm(model.node_width))
