"""A layer that learns how much of its update a node takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from egt.parts import LayerPart, register

if TYPE_CHECKING:
    from torch.nn import Module

    from egt.config.run import ModelConfig, RunConfig
    from egt.parts.readouts import LayerPlace


@register
class Gated(LayerPart):
    """EGT's layer behind a gate of each node; of the last one the edge update is not read, and has no gradient."""

    kind: Literal["gated"] = "gated"

    def module(self, model: ModelConfig, place: LayerPlace) -> Module:
        """See `LayerPart.module`."""
        from egt_moments.gated_layer import GatedLayer

        return GatedLayer(model, place)

    def check(self, run: RunConfig) -> None:
        """Take every layout."""
