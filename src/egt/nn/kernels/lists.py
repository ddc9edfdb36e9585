"""The pair work of a layer on a list of pairs: the plain composition, its steps in the CPU kernel."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from egt.batching.edge_list import EdgeList
from egt.batching.layout import rows_where
from egt.nn.channels import AttentionContext
from egt.nn.kernels.list_operator import list_dot, list_softmax, list_sum
from egt.nn.kernels.node_operator import node_update, norm_linear
from egt.nn.pair_pass import EdgePass, FrozenEdges, Logits, NoGate, PairPass, ResidualEdges, SigmoidGate, outer_sum


def list_pair_pass(
    parts: PairPass, activation: str, qkv: Tensor, e: Tensor, context: AttentionContext, ends: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Do the work of `PairPass.forward`.

    Args:
        parts: of the pass.
        activation: of the feed-forward block, as the kernel calls it.
        qkv: (M, 3, H, d_k).
        e: (P, d_e).
        context: its layout is a list.
        ends: (M, 2 d_e), or None.
    """
    if context.only_virtual_rows and isinstance(parts.edges, FrozenEdges):
        return _attend(parts, qkv, *_virtual_rows(e, context))[0], e
    gathered, H_hat = _attend(parts, qkv, e, context)
    return gathered, _updated(parts.edges, activation, e, H_hat, context, ends)


def list_edge_pass(
    parts: EdgePass, activation: str, qk: Tensor, e: Tensor, context: AttentionContext, ends: Tensor | None
) -> Tensor:
    """Do the work of `EdgePass.forward`; arguments as in `list_pair_pass`."""
    bias, _ = _read(parts.logits, None, e)
    H_hat = _dot(parts.logits, qk, _list(context)) + bias
    return _updated(parts.edges, activation, e, H_hat, context, ends)


def _list(context: AttentionContext) -> EdgeList:
    assert isinstance(context.layout, EdgeList)
    return context.layout


def _virtual_rows(e: Tensor, context: AttentionContext) -> tuple[Tensor, AttentionContext]:
    """Return the edge channel and the context of the pairs whose queries are virtual nodes: of all their graph."""
    layout = _list(context)
    virtual = layout.node_indices.i[layout.query] < layout.num_virtual
    rows = rows_where(virtual, layout.num_virtual * layout.num_nodes)
    some = EdgeList(layout.sizes, layout.query[rows], layout.key[rows], layout.num_virtual)
    allowed = None if context.allowed is None else context.allowed[rows]
    return e[rows], replace(context, layout=some, allowed=allowed)


def _attend(parts: PairPass, qkv: Tensor, e: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
    """Return what the nodes gather (M, H, d_k), and H_hat (P, H)."""
    layout, V = _list(context), qkv.select(-3, 2)
    bias, G = _read(parts.logits, parts.gate, e)
    H_hat = _dot(parts.logits, qkv, layout) + bias
    attended, counted = parts.masking(context, H_hat.dtype)
    S = _softmax(H_hat, attended, layout)
    A_tilde, s = S, S.new_ones(())
    if G is not None and isinstance(parts.gate, SigmoidGate):
        A_tilde, s = parts.gate.gated(S, G, counted, layout)
    A_tilde = parts.dropout(A_tilde, context)
    gathered = list_sum(A_tilde, V, layout.query, layout.key)
    if parts.edge_values is not None:
        gathered = gathered + parts.edge_values(A_tilde, parts.logits.norm_e(e), layout)
    return s.unsqueeze(-1) * gathered, H_hat


def _dot(logits: Logits, qkv: Tensor, layout: EdgeList) -> Tensor:
    """Return the clipped, scaled dot products (P, H)."""
    Q, K = qkv.select(-3, 0), qkv.select(-3, 1)
    scores: Tensor = list_dot(Q, K, layout.query, layout.key) * logits.scale
    return scores if logits.clip is None else scores.clamp(*logits.clip)


def _softmax(logits: Tensor, attended: Tensor | None, layout: EdgeList) -> Tensor:
    """See `Layout.softmax`."""
    if attended is None:
        softmax: Tensor = list_softmax(logits, layout.query)
        return softmax
    masked: Tensor = list_softmax(logits.masked_fill(~attended, torch.finfo(logits.dtype).min), layout.query)
    return masked * attended


def _read(logits: Logits, gate: NoGate | SigmoidGate | None, e: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return E e_hat and G e_hat (None without gates), each (P, H)."""
    maps, norm = [logits.E, *([gate.G] if isinstance(gate, SigmoidGate) else [])], logits.norm_e
    weight, bias = torch.cat([each.weight for each in maps]), torch.cat([each.bias for each in maps])
    if isinstance(norm, nn.LayerNorm):
        both = norm_linear(e, norm.weight, norm.bias, weight, bias, norm.eps)
    else:
        both = nn.functional.linear(e, weight, bias)
    first, *second = both.chunk(len(maps), -1)
    return first, second[0] if second else None


def _updated(
    edges: ResidualEdges | FrozenEdges,
    activation: str,
    e: Tensor,
    H_hat: Tensor,
    context: AttentionContext,
    ends: Tensor | None,
) -> Tensor:
    """See `ResidualEdges.forward`."""
    if isinstance(edges, FrozenEdges):
        return e
    O_e, ffn, norm = edges.O_e, edges.ffn, edges.ffn.norm
    assert isinstance(norm, nn.LayerNorm)
    D1, D2 = (dropout.factors(e.shape[-1], context) for dropout in (edges.dropout, ffn.dropout))
    if ends is not None:
        added = outer_sum(ends, context.layout)
        e = e + (added if D1 is None else D1 * added)
    e_new: Tensor = node_update(
        *(e, H_hat, D1, D2, O_e.weight, O_e.bias, norm.weight, norm.bias),
        *(ffn.W1.weight, ffn.W1.bias, ffn.W2.weight, ffn.W2.bias),
        *(norm.eps, activation, False),
    )[0]
    return e_new
