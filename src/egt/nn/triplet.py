"""Triplets: pairs of nodes read the pairs that share a node with them, in front of a layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from egt.data.batching.layout import masked_softmax
from egt.nn.channels import AttentionContext
from egt.nn.randomness import Dropout


class TripletAggregation(nn.Module):
    """Pair (i, j) gathers values of pairs (j, k) by how much i attends k, and of pairs (k, j) by how much k attends i.

    With e_hat = LN(e), for each head, what has a dash being maps of its own:

        in_ij  = sum_k a_ik V e_hat_jk,     a_ik = softmax_k(B e_hat_ik) * sigmoid(G e_hat_ik)
        out_ij = sum_k a'_ki V' e_hat_kj,   a'_ki = softmax_k(B' e_hat_ki) * sigmoid(G' e_hat_ki)
        e'_ij  = e_ij + O ||(in_ij, out_ij)

    The softmax is over what the layer itself may attend: k is never padding and, in EGT-Constrained, a neighbor of i.
    Products of (N, N) matrices do it: 2 N^3 H c multiplications, and no array of N^3 numbers.

    DISCREPANCY: the successor of EGT (TGT, Hussain et al. 2024) has this between the update of the edge channel and
    its feed-forward block. Here it is in front of the layer, whose kernels need not know of it.

    Args:
        edge_width: d_e.
        num_heads: H.
        value_width: c, how many numbers a head reads of a pair.
        norm: LN of the edge channel.
        dropout: of what is added to it.
    """

    def __init__(self, edge_width: int, num_heads: int, value_width: int, norm: nn.Module, dropout: Dropout) -> None:
        super().__init__()
        self.num_heads, self.value_width = num_heads, value_width
        self.norm = norm
        self.BGV = nn.Linear(edge_width, 2 * num_heads * (2 + value_width))  # and behind them those with a dash
        self.O = nn.Linear(2 * num_heads * value_width, edge_width)
        self.dropout = dropout

    def forward(self, e: Tensor, context: AttentionContext) -> Tensor:
        """Return the edge channel with what its pairs have gathered. e: (pairs..., d_e)."""
        layout, allowed = context.layout, context.allowed
        if layout.real_pairs is not None:  # the mask of a context may leave padding open to virtual nodes
            real = layout.real_pairs.unsqueeze(-1)
            allowed = real if allowed is None else allowed & real
        maps = self.BGV(self.norm(e))  # (pairs..., 2 H (2 + c))
        gathered = layout.squarewise(self.gather_both, maps, allowed)  # (pairs..., 2 H c)
        return e + self.dropout(self.O(gathered), context)

    def gather_both(self, maps: Tensor, allowed: Tensor | None) -> Tensor:
        """Compute in_ij and out_ij of all heads, (B, N, N, 2 H c), of graphs of one size.

        maps: (B, N, N, 2 H (2 + c)). allowed: (B, N, N, 1) boolean, True where i may attend j; None for all.
        """
        inward, outward = maps.chunk(2, -1)
        opposite = None if allowed is None else allowed.transpose(1, 2)
        both = self.gather(inward, allowed), self.gather(outward.transpose(1, 2), opposite)
        return torch.cat(both, -1)

    def gather(self, maps: Tensor, allowed: Tensor | None) -> Tensor:
        """Compute sum_k a_ik v_jk. maps: (B, N, N, H (2 + c)); allowed: (B, N, N, 1). Returns (B, N, N, H c)."""
        H = self.num_heads
        b, g, v = maps.split([H, H, H * self.value_width], -1)
        a = masked_softmax(b, allowed, dim=2) * torch.sigmoid(g)  # (B, N, N, H)
        return torch.einsum("bikh,bjkhc->bijhc", a, v.unflatten(-1, (H, -1))).flatten(-2)
