"""The slot of layers that stand in for those of EGT; embedding, readout, head and training are the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from egt.parts.readouts import Reads
from egt.registry import Part, Registry

if TYPE_CHECKING:
    from torch.nn import Module

    from egt.config.run import ModelConfig, RunConfig


@dataclass(frozen=True)
class LayerPlace:
    """Where a layer stands among the layers of a model.

    Fields:
        index: number of the layer, from 0; with it each layer draws random numbers of its own.
        num_layers: L.
        reads: which of its channels are read behind it. Of the last layer that may be less than "both"; parameters
            that only make the others get no gradient, which several processes refuse: leave them out or freeze them.
    """

    index: int
    num_layers: int
    reads: Reads

    @property
    def is_last(self) -> bool:
        """Whether the readout is behind it."""
        return self.index == self.num_layers - 1


class LayerPart(Part):
    """A layer of another kind: (h, e, context) -> (h, e), along the edges of a graph and of each node with itself."""

    registry: ClassVar[Registry[type[LayerPart]]] = Registry("layer", "egt.paper.baselines")

    def module(self, model: ModelConfig, place: LayerPlace) -> Module:
        """Return one layer with fresh parameters; a part of 0.1 takes the model alone."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes (method `module`)")

    def check(self, run: RunConfig) -> None:
        """Refuse a layout or an objective that needs all pairs."""
        if run.data.layout != "edge_list":
            raise ValueError(f"the layer {self.kind} passes messages along edges; set data.layout to edge_list")
        if run.task.auxiliary:
            raise ValueError(f"the layer {self.kind} has no channel of all pairs; set task.auxiliary to []")
