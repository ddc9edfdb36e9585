"""A perceptron on each node: what can be known without any edge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from egt.baselines.layer import LayerPart
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn

    from egt.config.model import ModelConfig


@register
class Mlp(LayerPart):
    """A linear map of each node with a norm, ReLU and a residual."""

    kind: Literal["mlp"] = "mlp"

    def module(self, model: ModelConfig) -> nn.Module:
        """See `LayerPart.module`."""
        from egt.baselines.message_passing import MlpLayer

        return MlpLayer(model.norm(model.node_width), model.node_width)
