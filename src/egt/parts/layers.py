"""The slot of layers that stand in for those of EGT; embedding, readout, head and training are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from egt.registry import Part, Registry

if TYPE_CHECKING:
    from torch.nn import Module

    from egt.config.model import ModelConfig
    from egt.config.run import RunConfig


class LayerPart(Part):
    """A layer of another kind: (h, e, context) -> (h, e), along the edges of a graph and of each node with itself."""

    registry: ClassVar[Registry[type[LayerPart]]] = Registry("layer", "egt.paper.baselines")

    def module(self, model: ModelConfig) -> Module:
        """Return one layer with fresh parameters."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes (method `module`)")

    def check(self, run: RunConfig) -> None:
        """Refuse a layout or an objective that needs all pairs."""
        if run.data.layout != "edge_list":
            raise ValueError(f"the layer {self.kind} passes messages along edges; set data.layout to edge_list")
        if run.task.auxiliary:
            raise ValueError(f"the layer {self.kind} has no channel of all pairs; set task.auxiliary to []")
