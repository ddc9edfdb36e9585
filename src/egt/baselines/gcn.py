"""GCN (Kipf and Welling, 2017): the mean over neighbors, weighted by degrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from egt.baselines.layer import LayerPart
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn

    from egt.config.model import ModelConfig


@register
class Gcn(LayerPart):
    """PyG's `GCNConv` with a norm, ReLU and a residual; features of edges are not read."""

    kind: Literal["gcn"] = "gcn"

    def module(self, model: ModelConfig) -> nn.Module:
        """See `LayerPart.module`."""
        from egt.baselines.message_passing import GcnLayer

        return GcnLayer(model.norm(model.node_width), model.node_width)
