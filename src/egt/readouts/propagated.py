"""One prediction per node from its surroundings: final embeddings spread along the edges by personalized PageRank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from egt.graph import Level
from egt.parts import register
from egt.readouts.readout import ReadoutPart

if TYPE_CHECKING:
    from egt.config.model import ModelConfig
    from egt.nn.readout import Readout


@register
class Propagated(ReadoutPart):
    """One output per node, read after `steps` steps of a walk along the edges that returns with probability `restart`.

    For one graph with few labels whose neighbors are mostly alike: each label then teaches a neighborhood.
    `dropout` acts on what is spread.
    """

    kind: Literal["propagated"] = "propagated"
    steps: PositiveInt = 10
    restart: Annotated[float, Field(gt=0, le=1)] = 0.1
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    level: ClassVar[Level] = "node"

    def module(self, model: ModelConfig) -> Readout:
        """See `ReadoutPart.module`."""
        from egt.nn.propagation import PropagatedReadout

        return PropagatedReadout(model.norm(model.node_width), self.steps, self.restart, self.dropout)
