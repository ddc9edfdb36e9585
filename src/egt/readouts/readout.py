"""What all readouts share: their level, the width of a row, and what of the last layer they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from egt.graph import Level
from egt.parts import Part, Registry

if TYPE_CHECKING:
    from egt.config.model import ModelConfig
    from egt.nn.readout import Readout

Reads = Literal["nodes", "virtual_nodes", "pairs", "both"]
"""The rows that the readout takes from the last layer; "both" are nodes and pairs."""


class ReadoutPart(Part):
    """One row per graph, node or query pair from the final channels."""

    registry: ClassVar[Registry[type[ReadoutPart]]] = Registry("readout", __package__)
    level: ClassVar[Level]

    def added_nodes(self) -> int:
        """Return how many nodes the readout puts in front of each graph."""
        return 0

    def reads(self, model: ModelConfig) -> Reads:
        """Return what is read of the last layer; what nobody reads is not computed there."""
        return "nodes"

    def width(self, model: ModelConfig) -> int:
        """Return the width of a row that it gives."""
        return model.node_width

    def module(self, model: ModelConfig) -> Readout:
        """Return the learned half."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it reads (method `module`)")
