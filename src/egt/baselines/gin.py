"""GIN (Xu et al., 2019): the sum over neighbors, then a perceptron."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from egt.baselines.layer import LayerPart
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn

    from egt.config.model import ModelConfig


@register
class Gin(LayerPart):
    """PyG's `GINEConv` (GIN that also reads features of edges) with a norm, ReLU and a residual."""

    kind: Literal["gin"] = "gin"

    def module(self, model: ModelConfig) -> nn.Module:
        """See `LayerPart.module`."""
        from egt.baselines.message_passing import GinLayer

        return GinLayer(model.norm(model.node_width), model.node_width, model.edge_width)
