"""Layers to compare with: GCN (Kipf and Welling, 2017), GIN (Xu et al., 2019), GatedGCN (Bresson and Laurent, 2017).

GraphSAGE with means (Hamilton et al., 2017) is the fourth, and a perceptron on each node shows what is known without
any edge.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from egt.parts.readouts import LayerPart, LayerPlace
from egt.registry import register

if TYPE_CHECKING:
    from torch import nn

    from egt.config.run import ModelConfig, RunConfig


class _Baseline(LayerPart):
    layer: ClassVar[str]
    """The class in `message_passing`, which imports torch; presets are read without it."""

    def module(self, model: ModelConfig, place: LayerPlace) -> nn.Module:
        """Return a layer with norms of both channels."""
        layer: Any = getattr(import_module("egt.paper.message_passing"), self.layer)
        found: nn.Module = layer(model)
        return found


@register
class Gcn(_Baseline):
    """PyG's `GCNConv` with a norm, ReLU and a residual; features of edges are not read."""

    kind: Literal["gcn"] = "gcn"
    layer = "GcnLayer"


@register
class Gin(_Baseline):
    """PyG's `GINEConv` (GIN that also reads features of edges) with a norm, ReLU and a residual."""

    kind: Literal["gin"] = "gin"
    layer = "GinLayer"


@register
class GatedGcn(_Baseline):
    """GatedGCN with explicit edge features, as in the public benchmark; PyG has no layer of this form."""

    kind: Literal["gatedgcn"] = "gatedgcn"
    layer = "GatedGcnLayer"

    def check(self, run: RunConfig) -> None:
        """Gates act on each channel of a node: both channels have the same width."""
        super().check(run)
        if run.model.node_width != run.model.edge_width:
            raise ValueError("the layer gatedgcn needs model.edge_width equal to model.node_width")


@register
class Sage(_Baseline):
    """A linear map of each node beside one of the mean of its neighbors, with a norm in front, ReLU and a residual."""

    kind: Literal["sage"] = "sage"
    layer = "SageLayer"


@register
class Mlp(_Baseline):
    """A linear map of each node with a norm, ReLU and a residual."""

    kind: Literal["mlp"] = "mlp"
    layer = "MlpLayer"
