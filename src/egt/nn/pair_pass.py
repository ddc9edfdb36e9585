"""The pair work of a layer. This plain composition of the parts is the specification; fast paths must equal it."""

from __future__ import annotations

from torch import Tensor, nn

from egt.nn.channels import AttentionContext
from egt.nn.dropout import Dropout, RandomMasking
from egt.nn.edges import FrozenEdges, ResidualEdges
from egt.nn.gate import NoGate, SigmoidGate
from egt.nn.logits import Logits


class PairPass(nn.Module):
    """Logits, softmax, gate, aggregation and edge update, over all pairs of nodes.

    A_tilde = softmax(H_hat) * sigmoid(G e_hat);   out_i = s_i sum_j A_tilde_ij V_j

    Args:
        logits: H_hat of every pair.
        masking: random attention masking.
        gate: NoGate, SigmoidGate or CentralityGate.
        dropout: of the attention matrix A_tilde.
        edges: ResidualEdges or FrozenEdges.
    """

    def __init__(
        self,
        logits: Logits,
        masking: RandomMasking,
        gate: NoGate | SigmoidGate,
        dropout: Dropout,
        edges: ResidualEdges | FrozenEdges,
    ) -> None:
        super().__init__()
        self.logits = logits
        self.masking = masking
        self.gate = gate
        self.dropout = dropout
        self.edges = edges

    def forward(self, qkv: Tensor, e: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        """Do the pair work. qkv: (nodes..., 3, H, d_k) queries, keys and values, e: (pairs..., d_e).

        Returns:
            The aggregated values (nodes..., H, d_k), and the edge channel (pairs..., d_e).
        """
        Q, K, V = qkv.unbind(-3)  # (nodes..., H, d_k)
        H_hat, e_hat = self.logits(Q, K, e, context.layout)  # (pairs..., H), (pairs..., d_e)
        attended, counted = self.masking(context)  # (pairs..., 1 or H)
        S = context.layout.softmax(H_hat, attended)  # (pairs..., H)
        A_tilde, s = self.gate(S, e_hat, counted, context.layout)  # (pairs..., H), (nodes..., H)
        A_tilde = self.dropout(A_tilde, context)
        out = s.unsqueeze(-1) * context.layout.aggregate(A_tilde, V)  # (nodes..., H, d_k)
        return out, self.edges(e, H_hat, context)


class EdgePass(nn.Module):
    """The pair work of a last layer that only edges are read from: no values, no gates, no aggregation.

    Args:
        logits: H_hat of every pair.
        edges: the update of the edge channel.
    """

    def __init__(self, logits: Logits, edges: ResidualEdges) -> None:
        super().__init__()
        self.logits = logits
        self.edges = edges

    def forward(self, qk: Tensor, e: Tensor, context: AttentionContext) -> Tensor:
        """Update the edge channel. qk: (nodes..., 2, H, d_k) queries and keys, e: (pairs..., d_e)."""
        Q, K = qk.unbind(-3)  # (nodes..., H, d_k)
        H_hat, _ = self.logits(Q, K, e, context.layout)
        updated: Tensor = self.edges(e, H_hat, context)
        return updated
