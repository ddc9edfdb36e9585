"""The pointwise feed-forward block of a channel."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from egt.nn.channels import AttentionContext
from egt.nn.dropout import Dropout


class FeedForward(nn.Module):
    """x + W2 act(W1 LN(x)).

    Args:
        width: of the channel.
        hidden_width: of the block inside.
        activation: makes the non-linearity, ELU in the paper.
        norm: LN of the channel.
        dropout: applied before the residual sum.
    """

    def __init__(
        self, width: int, hidden_width: int, activation: Callable[[], nn.Module], norm: nn.Module, dropout: Dropout
    ) -> None:
        super().__init__()
        self.norm = norm
        self.W1 = nn.Linear(width, hidden_width)
        self.activation = activation()
        self.W2 = nn.Linear(hidden_width, width)
        self.dropout = dropout

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """Apply the block. x: (nodes... or pairs..., width)."""
        update: Tensor = self.dropout(self.W2(self.activation(self.W1(self.norm(x)))), context)
        return x + update
