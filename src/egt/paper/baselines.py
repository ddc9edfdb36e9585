"""GatedGCN (Bresson and Laurent, 2017): messages gated by a channel of edges, which is updated as well.

GCN (Kipf and Welling, 2017): the mean over neighbors, weighted by degrees.

GIN (Xu et al., 2019): the sum over neighbors, then a perceptron.

A perceptron on each node: what can be known without any edge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from egt.parts.layers import LayerPart, LayerPlace
from egt.registry import register

if TYPE_CHECKING:
    from torch import nn

    from egt.config.model import ModelConfig
    from egt.config.run import RunConfig


@register
class GatedGcn(LayerPart):
    """GatedGCN with explicit edge features, as in the public benchmark; PyG has no layer of this form."""

    kind: Literal["gatedgcn"] = "gatedgcn"

    def module(self, model: ModelConfig, place: LayerPlace) -> nn.Module:
        """See `LayerPart.module`."""
        from egt.paper.message_passing import GatedGcnLayer

        return GatedGcnLayer(model.norm(model.node_width), model.norm(model.edge_width), model.node_width)

    def check(self, run: RunConfig) -> None:
        """Gates act on each channel of a node: both channels have the same width."""
        super().check(run)
        if run.model.node_width != run.model.edge_width:
            raise ValueError("the layer gatedgcn needs model.edge_width equal to model.node_width")


@register
class Gcn(LayerPart):
    """PyG's `GCNConv` with a norm, ReLU and a residual; features of edges are not read."""

    kind: Literal["gcn"] = "gcn"

    def module(self, model: ModelConfig, place: LayerPlace) -> nn.Module:
        """See `LayerPart.module`."""
        from egt.paper.message_passing import GcnLayer

        return GcnLayer(model.norm(model.node_width), model.node_width)


@register
class Gin(LayerPart):
    """PyG's `GINEConv` (GIN that also reads features of edges) with a norm, ReLU and a residual."""

    kind: Literal["gin"] = "gin"

    def module(self, model: ModelConfig, place: LayerPlace) -> nn.Module:
        """See `LayerPart.module`."""
        from egt.paper.message_passing import GinLayer

        return GinLayer(model.norm(model.node_width), model.node_width, model.edge_width)


@register
class Mlp(LayerPart):
    """A linear map of each node with a norm, ReLU and a residual."""

    kind: Literal["mlp"] = "mlp"

    def module(self, model: ModelConfig, place: LayerPlace) -> nn.Module:
        """See `LayerPart.module`."""
        from egt.paper.message_passing import MlpLayer

        return MlpLayer(model.norm(model.node_width), model.node_width)
