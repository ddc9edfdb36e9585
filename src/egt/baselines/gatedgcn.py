"""GatedGCN (Bresson and Laurent, 2017): messages gated by a channel of edges, which is updated as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from egt.baselines.layer import LayerPart
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn

    from egt.config.model import ModelConfig
    from egt.config.run import RunConfig


@register
class GatedGcn(LayerPart):
    """GatedGCN with explicit edge features, as in the public benchmark; PyG has no layer of this form."""

    kind: Literal["gatedgcn"] = "gatedgcn"

    def module(self, model: ModelConfig) -> nn.Module:
        """See `LayerPart.module`."""
        from egt.baselines.message_passing import GatedGcnLayer

        return GatedGcnLayer(model.norm(model.node_width), model.norm(model.edge_width), model.node_width)

    def check(self, run: RunConfig) -> None:
        """Gates act on each channel of a node: both channels have the same width."""
        super().check(run)
        if run.model.node_width != run.model.edge_width:
            raise ValueError("the layer gatedgcn needs model.edge_width equal to model.node_width")
