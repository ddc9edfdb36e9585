"""The pair work of a layer, and its feed-forward blocks.

This plain composition of the parts is the specification; fast paths must equal it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from egt.data.batching.layout import Layout
from egt.nn.channels import AttentionContext
from egt.nn.dropout import Dropout, RandomMasking
from egt.nn.edge_values import EdgeValues


class FeedForward(nn.Module):
    """x + W2 act(W1 LN(x)), with dropout in front of the residual sum; `activation` is ELU in the paper."""

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


Clip = tuple[float, float] | None


class PairPass(nn.Module):
    """Logits, softmax, gate, aggregation and edge update, over all pairs of nodes.

    A_tilde = softmax(H_hat) * sigmoid(G e_hat);   out_i = s_i sum_j A_tilde_ij V_j

    With edge values the sum is over A_tilde_ij (V_j + U e_hat_ij).

    Args:
        logits: H_hat of every pair.
        masking: random attention masking.
        gate: NoGate, SigmoidGate or CentralityGate.
        dropout: of the attention matrix A_tilde.
        edges: ResidualEdges or FrozenEdges.
        edge_values: what nodes receive from the edge channel itself; None: nothing, as in the paper.
    """

    def __init__(
        self,
        logits: Logits,
        masking: RandomMasking,
        gate: NoGate | SigmoidGate,
        dropout: Dropout,
        edges: ResidualEdges | FrozenEdges,
        edge_values: EdgeValues | None = None,
    ) -> None:
        super().__init__()
        self.logits = logits
        self.masking = masking
        self.gate = gate
        self.dropout = dropout
        self.edges = edges
        self.edge_values = edge_values

    def forward(
        self, qkv: Tensor, e: Tensor, context: AttentionContext, ends: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Do the pair work.

        Args:
            qkv: (nodes..., 3, H, d_k) queries, keys and values.
            e: (pairs..., d_e) edge channel.
            context: layout, mask and keys.
            ends: (nodes..., 2 d_e) what nodes add to the edge update (see `ResidualEdges.forward`).

        Returns:
            The aggregated values (nodes..., H, d_k), and the edge channel (pairs..., d_e).
        """
        Q, K, V = qkv.unbind(-3)  # (nodes..., H, d_k)
        H_hat, e_hat = self.logits(Q, K, e, context.layout)  # (pairs..., H), (pairs..., d_e)
        attended, counted = self.masking(context, H_hat.dtype)  # (pairs..., 1 or H)
        S = context.layout.softmax(H_hat, attended)  # (pairs..., H)
        A_tilde, s = self.gate(S, e_hat, counted, context.layout)  # (pairs..., H), (nodes..., H)
        A_tilde = self.dropout(A_tilde, context)
        gathered = context.layout.aggregate(A_tilde, V)  # (nodes..., H, d_k)
        if self.edge_values is not None:
            gathered = gathered + self.edge_values(A_tilde, e_hat, context.layout)
        return s.unsqueeze(-1) * gathered, self.edges(e, H_hat, context, ends)


class Logits(nn.Module):
    """The clipped, scaled dot product of queries and keys, biased by the edge channel.

    H_hat_ij = clip(Q_i K_j / sqrt(d_k)) + E e_hat_ij,  e_hat = LN(e)

    `H_hat` is not masked: it feeds the edge update of every pair.

    Args:
        edge_width: d_e.
        num_heads: H.
        scale: factor of the dot product, 1 / sqrt(d_k) in the paper.
        clip: range of the scaled dot product, None for no clip.
        norm_e: LN, or nn.Identity() where the edge channel enters unchanged (EGT-Simple of the paper).
    """

    def __init__(self, edge_width: int, num_heads: int, scale: float, clip: Clip, norm_e: nn.Module) -> None:
        super().__init__()
        self.norm_e = norm_e
        self.E = nn.Linear(edge_width, num_heads)
        self.scale, self.clip = scale, clip

    def forward(self, Q: Tensor, K: Tensor, e: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Compute H_hat (pairs..., H) and e_hat (pairs..., d_e). Q, K: (nodes..., H, d_k), e: (pairs..., d_e)."""
        e_hat = self.norm_e(e)
        scores = layout.dot(Q, K) * self.scale
        clipped = scores if self.clip is None else torch.clamp(scores, *self.clip)
        return clipped + self.E(e_hat), e_hat

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"scale={self.scale:.4g}, clip={self.clip}"


class NoGate(nn.Module):
    """The ungated variant: A_tilde = softmax(H_hat)."""

    def forward(self, S: Tensor, e_hat: Tensor, counted: Tensor | None, layout: Layout) -> tuple[Tensor, Tensor]:
        """See `SigmoidGate.forward`."""
        return S, S.new_ones(())


class SigmoidGate(nn.Module):
    """A_tilde = softmax(H_hat) * sigmoid(G e_hat)."""

    def __init__(self, edge_width: int, num_heads: int) -> None:
        super().__init__()
        self.G = nn.Linear(edge_width, num_heads)

    def forward(self, S: Tensor, e_hat: Tensor, counted: Tensor | None, layout: Layout) -> tuple[Tensor, Tensor]:
        """Gate the attention.

        Args:
            S: (pairs..., H) softmax of the logits, zero where attention is not allowed.
            e_hat: (pairs..., d_e) normalized edge channel.
            counted: (pairs..., 1 or H) whose gates are open at all, or how often each counts; None for all, once.
            layout: the layout of the pairs.

        Returns:
            A_tilde (pairs..., H), and the scaler of the aggregated values, broadcastable to (nodes..., H).
        """
        return self.gated(S, self.G(e_hat), counted, layout)

    def gated(self, S: Tensor, G: Tensor, counted: Tensor | None, layout: Layout) -> tuple[Tensor, Tensor]:
        """Gate the attention by G e_hat, (pairs..., H); see `forward`."""
        return S * torch.sigmoid(G), S.new_ones(())


class CentralityGate(SigmoidGate):
    """A sigmoid gate with dynamic centrality scalers.

    s_i = ln(1 + sum_j sigmoid(G e_hat_ij)), and 1 for virtual nodes.

    DISCREPANCY: the paper sums over the nodes 1..N; both codes include the virtual nodes among the keys, as here.
    """

    def gated(self, S: Tensor, G: Tensor, counted: Tensor | None, layout: Layout) -> tuple[Tensor, Tensor]:
        """See `SigmoidGate.gated`."""
        gates = torch.sigmoid(G)
        open_gates = gates if counted is None else gates * counted.to(gates.dtype)
        s = torch.log1p(layout.sum_keys(open_gates))
        virtual = (layout.node_indices.i < layout.num_virtual).unsqueeze(-1)
        return S * gates, torch.where(virtual, 1.0, s)


class ResidualEdges(nn.Module):
    """The residual edge channel of EGT: e + O_e H_hat, then its feed-forward block; dropout acts on O_e H_hat."""

    def __init__(self, edge_width: int, num_heads: int, dropout: Dropout, ffn: FeedForward) -> None:
        super().__init__()
        self.O_e = nn.Linear(num_heads, edge_width)
        self.dropout = dropout
        self.ffn = ffn

    def forward(self, e: Tensor, H_hat: Tensor, context: AttentionContext, ends: Tensor | None = None) -> Tensor:
        """Update the edge channel.

        Args:
            e: (pairs..., d_e) edge channel.
            H_hat: (pairs..., H) logits.
            context: layout and keys.
            ends: (nodes..., 2 d_e) of an outer sum, A h_hat|B h_hat: A h_hat_i + B h_hat_j is added to O_e H_hat.
        """
        update = self.O_e(H_hat)
        if ends is not None:
            update = update + outer_sum(ends, context.layout)
        return self.ffn(e + self.dropout(update, context), context)


def outer_sum(ends: Tensor, layout: Layout) -> Tensor:
    """Add the first half of i's row to the second half of j's. ends: (nodes..., 2 d_e). Returns (pairs..., d_e)."""
    i, j = layout.pair_nodes
    first, second = ends.flatten(0, -2).chunk(2, -1)
    return first[i] + second[j]


class FrozenEdges(nn.Module):
    """No edge update: EGT-Simple, and the last layer of a model whose edge channel is not read."""

    def forward(self, e: Tensor, H_hat: Tensor, context: AttentionContext, ends: None = None) -> Tensor:
        """Return e unchanged. e: (pairs..., d_e), H_hat: (pairs..., H)."""
        return e


class EdgePass(nn.Module):
    """The pair work of a last layer that only edges are read from: no values, no gates, no aggregation."""

    def __init__(self, logits: Logits, edges: ResidualEdges) -> None:
        super().__init__()
        self.logits = logits
        self.edges = edges

    def forward(self, qk: Tensor, e: Tensor, context: AttentionContext, ends: Tensor | None = None) -> Tensor:
        """Update the edge channel; see `PairPass.forward`. qk: (nodes..., 2, H, d_k) queries and keys."""
        Q, K = qk.unbind(-3)  # (nodes..., H, d_k)
        H_hat, _ = self.logits(Q, K, e, context.layout)
        return self.edges(e, H_hat, context, ends)
