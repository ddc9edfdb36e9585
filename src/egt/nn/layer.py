"""One layer of EGT: pre-norm attention over all pairs, and a feed-forward block for each channel.

This plain composition of the parts is the specification; fast paths must equal it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from egt.data.batching.layout import Layout
from egt.errors import ConfigError
from egt.nn.channels import AttentionContext
from egt.nn.randomness import Dropout, RandomMasking, Stream


class DegreeScaling(nn.Module):
    """out_i * (t1 + t2 log(1 + deg_i)), channel by channel (as in GRIT): what the heads gathered, by the degree.

    deg_i counts the edges i -> j of the graph, whichever nodes are attended; it is 0 for virtual nodes.

    DISCREPANCY: GRIT starts both factors at random; here t1 = 1 and t2 = 0, the identity.
    """

    def __init__(self, node_width: int) -> None:
        super().__init__()
        self.t1 = nn.Parameter(torch.ones(node_width))
        self.t2 = nn.Parameter(torch.zeros(node_width))

    def forward(self, out: Tensor, context: AttentionContext) -> Tensor:
        """Scale what the heads gathered. out: (nodes..., d_h)."""
        if context.degree is None:
            raise ConfigError("degree scaling needs the degrees of the nodes; give the context its `degree`")
        return out * (self.t1 + self.t2 * torch.log1p(context.degree))


class EGTLayer(nn.Module):
    """A full layer: nodes attend to each other, biased and gated by the edge channel, which is then updated.

    h' = h + O_h ||_k out^k,  h'' = h' + FFN_h(LN(h'));  e'' likewise inside the pair pass.

    With widths alone it is the paper's layer (gated, residual edges, no dropout) and works on dense tensors:

        layer = EGTLayer(64, 8, 8, dropout=0.1)
        h, e = layer(h, e, sizes=sizes)  # (B, N, 64), (B, N, N, 8); (B,) nodes of each graph

    Args:
        node_width: d_h, a multiple of num_heads.
        edge_width: d_e.
        num_heads: H.
        norm_h: LN of the node channel.
        pairs: the pair pass; its parts make the variants of the paper.
        dropout: a probability, for O_h's output and inside `ffn`, or the part for O_h's output.
        ffn: feed-forward block of the node channel.
        scaling: a factor for what the heads gathered, in front of O_h; the paper has none.
        outer: [A; B] of an outer sum, d_h -> 2 d_e: the edge update also adds A h_hat_i + B h_hat_j; not in the paper.
        triplets: what pairs read of each other in front of the layer, (e, context) -> e; the paper has none.
        attention_dropout: probability for the attention matrix, unless `pairs` is given.
        edge_dropout: probability for the update of the edge channel and its feed-forward block, likewise.
        layer: number of the layer in a stack whose layers share a context: each draws random numbers of its own.
    """

    def __init__(
        self,
        node_width: int,
        edge_width: int,
        num_heads: int,
        *,
        norm_h: nn.Module | None = None,
        pairs: PairPass | None = None,
        dropout: Dropout | float = 0.0,
        ffn: FeedForward | None = None,
        scaling: DegreeScaling | None = None,
        outer: nn.Linear | None = None,
        triplets: nn.Module | None = None,
        attention_dropout: float = 0.0,
        edge_dropout: float = 0.0,
        layer: int = 0,
    ) -> None:
        super().__init__()
        if pairs is not None and (attention_dropout or edge_dropout):
            raise ConfigError("attention_dropout and edge_dropout are parts of the pair pass; give them to `pairs`")
        d_k = head_width(node_width, num_heads)
        self.num_heads = num_heads
        self.norm_h = norm_h or nn.LayerNorm(node_width)
        self.qkv = nn.Linear(node_width, 3 * node_width)
        self.pairs = pairs or _paper_pair_pass(edge_width, num_heads, d_k, attention_dropout, edge_dropout, layer)
        self.O_h = nn.Linear(node_width, node_width)
        if not isinstance(dropout, Dropout):
            dropout = Dropout(dropout, Stream.NODE_DROPOUT, layer, "node")
        self.dropout = dropout
        ffn_dropout = Dropout(dropout.probability, Stream.NODE_FFN_DROPOUT, dropout.layer, "node")
        self.ffn = ffn or _paper_ffn(node_width, ffn_dropout)
        self.scaling = scaling
        self.outer = outer
        self.triplets = triplets

    def forward(
        self,
        h: Tensor,
        e: Tensor,
        context: AttentionContext | None = None,
        *,
        sizes: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Update both channels.

        Args:
            h: (nodes..., d_h) node channel.
            e: (pairs..., d_e) edge channel.
            context: layout of the channels and who attends whom; without it they are dense, (B, N, d_h) and
                (B, N, N, d_e), as `AttentionContext.dense` makes it of the other two.
            sizes: (B,) nodes of each graph, the rest is padding, which may hold anything; None when there is none.
            mask: (B, N, N) boolean, True where i may attend j; None where everyone attends every real node.
        """
        context = self._context(h, e, context, sizes, mask)
        h, e = context.without_padding(h, e)
        if self.triplets is not None:
            e = self.triplets(e, context)
        qkv, ends = self.project(h, context)  # (nodes..., 3 d_h), (nodes..., 2 d_e)
        qkv = qkv.unflatten(-1, (3, self.num_heads, -1))  # (nodes..., 3, H, d_k)
        out, e = self.pairs(qkv, e, context, ends)  # (nodes..., H, d_k), (pairs..., d_e)
        out = out.flatten(-2)  # (nodes..., d_h)
        if self.scaling is not None:
            out = self.scaling(out, context)
        return self.update_nodes(h, out, context), e

    def _context(
        self, h: Tensor, e: Tensor, context: AttentionContext | None, sizes: Tensor | None, mask: Tensor | None
    ) -> AttentionContext:
        if isinstance(context, AttentionContext):
            if sizes is not None or mask is not None:
                raise ConfigError("sizes and mask are parts of the context; give them to AttentionContext.dense")
            return context
        if context is not None:
            raise ConfigError(f"the context is a {type(context).__name__}; give a tensor by its name, mask= or sizes=")
        made = AttentionContext.dense(h, sizes, mask)
        pairs = (h.shape[0], h.shape[1], h.shape[1])
        widths = self.qkv.in_features, self.pairs.logits.E.in_features
        if (h.shape[-1], e.shape[-1]) != widths or e.shape[:-1] != pairs:
            raise ConfigError(
                f"h has shape {tuple(h.shape)} and e {tuple(e.shape)}; they must be (B, N, {widths[0]}) and "
                f"(B, N, N, {widths[1]})"
            )
        return made

    def project(self, h: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor | None]:
        """Compute Q|K|V of the nodes, (nodes..., 3 d_h), and A h_hat|B h_hat of an outer sum, (nodes..., 2 d_e)."""
        h_hat = self.norm_h(h)
        return self.qkv(h_hat), None if self.outer is None else self.outer(h_hat)

    def update_nodes(self, h: Tensor, out: Tensor, context: AttentionContext) -> Tensor:
        """Compute H'' from h and what the heads gathered, each (nodes..., d_h)."""
        h = h + self.dropout(self.O_h(out), context)
        return self.ffn(h, context)


class EdgeOnlyLayer(nn.Module):
    """The last layer of a model that reads only edges: h is left as it is, queries and keys still form H_hat.

    Arguments are those of `EGTLayer`.
    """

    def __init__(
        self,
        node_width: int,
        num_heads: int,
        norm_h: nn.Module,
        pairs: EdgePass,
        outer: nn.Linear | None = None,
        triplets: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm_h = norm_h
        self.qk = nn.Linear(node_width, 2 * node_width)
        self.pairs = pairs
        self.outer = outer
        self.triplets = triplets

    def forward(self, h: Tensor, e: Tensor, context: AttentionContext | None = None) -> tuple[Tensor, Tensor]:
        """See `EGTLayer.forward`; h is returned unchanged."""
        context = context or AttentionContext.dense(h)
        if self.triplets is not None:
            e = self.triplets(e, context)
        h_hat = self.norm_h(h)
        qk = self.qk(h_hat).unflatten(-1, (2, self.num_heads, -1))  # (nodes..., 2, H, d_k)
        return h, self.pairs(qk, e, context, None if self.outer is None else self.outer(h_hat))


def head_width(node_width: int, num_heads: int) -> int:
    """Return d_k; the node width must be a multiple of the number of heads."""
    if num_heads < 1 or node_width % num_heads:
        raise ConfigError(
            f"node_width {node_width} is not a multiple of num_heads {num_heads}; "
            "each head takes an equal share of the node channel"
        )
    return node_width // num_heads


def _paper_ffn(width: int, dropout: Dropout) -> FeedForward:
    return FeedForward(width, 2 * width, nn.ELU, nn.LayerNorm(width), dropout)


def _paper_pair_pass(
    edge_width: int, num_heads: int, d_k: int, attention_dropout: float, edge_dropout: float, layer: int
) -> PairPass:
    edge_ffn = _paper_ffn(edge_width, Dropout(edge_dropout, Stream.EDGE_FFN_DROPOUT, layer, "pair"))
    return PairPass(
        Logits(edge_width, num_heads, d_k**-0.5, (-5.0, 5.0), nn.LayerNorm(edge_width)),
        RandomMasking(0.0, num_heads, layer, gates=False),
        SigmoidGate(edge_width, num_heads),
        Dropout(attention_dropout, Stream.ATTENTION_DROPOUT, layer, "pair"),
        ResidualEdges(edge_width, num_heads, Dropout(edge_dropout, Stream.EDGE_DROPOUT, layer, "pair"), edge_ffn),
    )


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


EdgeValueForm = Literal["sliced", "full"]


class EdgeValues(nn.Module):
    """U^k sum_j A_tilde^k_ij e_hat_ij, added to sum_j A_tilde^k_ij V^k_j in front of the centrality scaler.

    The full form reads all channels of e_hat in each head. In the sliced one head k reads its own d_e / H of them.
    """

    def __init__(self, edge_width: int, num_heads: int, head_width: int, form: EdgeValueForm) -> None:
        super().__init__()
        if form == "sliced" and edge_width % num_heads:
            raise ConfigError(
                f"edge_width {edge_width} is not a multiple of num_heads {num_heads}; sliced edge values give each "
                "head an equal share of the edge channel, full ones give it all"
            )
        self.form: EdgeValueForm = form
        width = edge_width // num_heads if form == "sliced" else edge_width
        bound = width**-0.5  # as a linear map of this many inputs
        self.U = nn.Parameter(torch.empty(num_heads, width, head_width).uniform_(-bound, bound))

    def forward(self, A_tilde: Tensor, e_hat: Tensor, layout: Layout) -> Tensor:
        """Compute what nodes receive. A_tilde: (pairs..., H), e_hat: (pairs..., d_e). Returns (nodes..., H, d_k)."""
        return self.project(self.gather(A_tilde, e_hat, layout))

    def gather(self, A_tilde: Tensor, e_hat: Tensor, layout: Layout) -> Tensor:
        """Sum what each head reads over the keys. Returns (nodes..., H, width)."""
        read = self.read(e_hat).expand(*e_hat.shape[:-1], *self.U.shape[:2]).unbind(-2)  # (pairs..., width) each
        heads = A_tilde.split(1, -1)  # (pairs..., 1) each
        return torch.stack([layout.sum_keys(A * x) for A, x in zip(heads, read, strict=True)], -2)

    def read(self, x: Tensor) -> Tensor:
        """Return the channels that each head reads. x: (..., d_e). Returns (..., H or 1, width)."""
        return x.unflatten(-1, (len(self.U), -1)) if self.form == "sliced" else x.unsqueeze(-2)

    def project(self, gathered: Tensor) -> Tensor:
        """Apply U. gathered: (nodes..., H, width). Returns (nodes..., H, d_k)."""
        return torch.einsum("...kw,kwc->...kc", gathered, self.U)
