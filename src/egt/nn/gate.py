"""How the edge channel gates what attention aggregates."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from egt.batching.layout import Layout


class NoGate(nn.Module):
    """The ungated variant: A_tilde = softmax(H_hat)."""

    def forward(self, S: Tensor, e_hat: Tensor, counted: Tensor | None, layout: Layout) -> tuple[Tensor, Tensor]:
        """See `SigmoidGate.forward`."""
        return S, S.new_ones(())


class SigmoidGate(nn.Module):
    """A_tilde = softmax(H_hat) * sigmoid(G e_hat).

    Args:
        edge_width: d_e.
        num_heads: H.
    """

    def __init__(self, edge_width: int, num_heads: int) -> None:
        super().__init__()
        self.G = nn.Linear(edge_width, num_heads)

    def forward(self, S: Tensor, e_hat: Tensor, counted: Tensor | None, layout: Layout) -> tuple[Tensor, Tensor]:
        """Gate the attention.

        Args:
            S: (pairs..., H) softmax of the logits, zero where attention is not allowed.
            e_hat: (pairs..., d_e) normalized edge channel.
            counted: (pairs..., 1 or H) whose gates are open at all; None for all.
            layout: the layout of the pairs.

        Returns:
            A_tilde (pairs..., H), and the scaler of the aggregated values, broadcastable to (nodes..., H).
        """
        return S * torch.sigmoid(self.G(e_hat)), S.new_ones(())


class CentralityGate(SigmoidGate):
    """A sigmoid gate with dynamic centrality scalers.

    s_i = ln(1 + sum_j sigmoid(G e_hat_ij)), and 1 for virtual nodes.

    DISCREPANCY: the paper sums over the nodes 1..N; both codes include the virtual nodes among the keys, as here.
    """

    def forward(self, S: Tensor, e_hat: Tensor, counted: Tensor | None, layout: Layout) -> tuple[Tensor, Tensor]:
        """See `SigmoidGate.forward`."""
        gates = torch.sigmoid(self.G(e_hat))
        open_gates = gates if counted is None else gates * counted
        s = torch.log1p(layout.sum_keys(open_gates))
        virtual = (layout.node_indices.i < layout.num_virtual).unsqueeze(-1)
        return S * gates, torch.where(virtual, 1.0, s)
