"""The learned half of the layer `gated`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

import egt

if TYPE_CHECKING:
    from egt.config.run import ModelConfig
    from egt.nn.channels import AttentionContext
    from egt.parts.readouts import LayerPlace


class GatedLayer(nn.Module):
    """h + sigmoid(G h) * (EGT(h, e) - h)."""

    def __init__(self, model: ModelConfig, place: LayerPlace) -> None:
        super().__init__()
        widths = model.node_width, model.edge_width, model.num_heads
        self.egt = egt.EGTLayer(*widths, dropout=0.1, attention_dropout=0.1, layer=place.index)
        self.gate = nn.Linear(model.node_width, model.node_width)

    def forward(self, h: Tensor, e: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        """Update both channels."""
        updated, e = self.egt(h, e, context)
        return h + self.gate(h).sigmoid() * (updated - h), e
