"""What a layer does with H_hat: update the edge channel, or leave it."""

from __future__ import annotations

from torch import Tensor, nn

from egt.nn.channels import AttentionContext
from egt.nn.dropout import Dropout
from egt.nn.feedforward import FeedForward


class ResidualEdges(nn.Module):
    """The residual edge channel of EGT: e + O_e H_hat, then its feed-forward block.

    Args:
        edge_width: d_e.
        num_heads: H.
        dropout: applied to O_e H_hat before the residual sum.
        ffn: the feed-forward block of the edge channel.
    """

    def __init__(self, edge_width: int, num_heads: int, dropout: Dropout, ffn: FeedForward) -> None:
        super().__init__()
        self.O_e = nn.Linear(num_heads, edge_width)
        self.dropout = dropout
        self.ffn = ffn

    def forward(self, e: Tensor, H_hat: Tensor, context: AttentionContext) -> Tensor:
        """Update the edge channel. e: (pairs..., d_e), H_hat: (pairs..., H)."""
        out: Tensor = self.ffn(e + self.dropout(self.O_e(H_hat), context), context)
        return out


class FrozenEdges(nn.Module):
    """No edge update: EGT-Simple, and the last layer of a model whose edge channel nobody reads."""

    def forward(self, e: Tensor, H_hat: Tensor, context: AttentionContext) -> Tensor:
        """Return e unchanged. e: (pairs..., d_e), H_hat: (pairs..., H)."""
        return e
