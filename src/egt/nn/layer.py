"""One layer of EGT: pre-norm attention over all pairs, and a feed-forward block for each channel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from egt.errors import ConfigError
from egt.nn.channels import AttentionContext
from egt.nn.dropout import Dropout, RandomMasking
from egt.nn.pair_pass import EdgePass, FeedForward, Logits, PairPass, ResidualEdges, SigmoidGate
from egt.nn.randomness import Stream


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
        self, node_width: int, num_heads: int, norm_h: nn.Module, pairs: EdgePass, outer: nn.Linear | None = None
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm_h = norm_h
        self.qk = nn.Linear(node_width, 2 * node_width)
        self.pairs = pairs
        self.outer = outer

    def forward(self, h: Tensor, e: Tensor, context: AttentionContext | None = None) -> tuple[Tensor, Tensor]:
        """See `EGTLayer.forward`; h is returned unchanged."""
        context = context or AttentionContext.dense(h)
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
