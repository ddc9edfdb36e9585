"""The fused pair pass: one operator over packed pairs that keeps only its inputs for the backward pass.

For each pair (i, j) of a graph and each head t:

    e_hat = LN(e_ij);  E = W_E e_hat + b_E;  G = W_G e_hat + b_G
    H_hat = clip(scale <Q_i, K_j>) + E
    A_tilde = softmax_j(H_hat) * sigmoid(G);  out_i = s_i sum_j A_tilde_ij V_j
    e1 = e_ij + W_O H_hat + b_O;  e_new = e1 + W2 ELU(W1 LN(e1) + b1) + b2

`torch.compile` and `torch.export` see the two operators `egt::pair_pass` and `egt::pair_pass_backward`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from egt.nn.kernels import binding


class PairWeights(NamedTuple):
    """The parameters of a pass; those of a part that is left out are None.

    norm: of e, before E and G (d_e); without it they read e itself. E, G: (H, d_e) and (H). O: (d_e, H) and (d_e);
    without it the edges are frozen, and the FFN must be left out too. ffn_norm: (d_e). W1: (m, d_e) and (m).
    W2: (d_e, m) and (d_e).
    """

    norm_weight: Tensor | None
    norm_bias: Tensor | None
    E_weight: Tensor
    E_bias: Tensor
    G_weight: Tensor | None
    G_bias: Tensor | None
    O_weight: Tensor | None
    O_bias: Tensor | None
    ffn_norm_weight: Tensor | None
    ffn_norm_bias: Tensor | None
    W1_weight: Tensor | None
    W1_bias: Tensor | None
    W2_weight: Tensor | None
    W2_bias: Tensor | None


def available() -> bool:
    """True if the kernel is compiled or can be; compiles it at the first call."""
    return binding.library() is not None


def pair_pass(
    qkv: Tensor,
    e: Tensor,
    sizes: Tensor,
    weights: PairWeights,
    *,
    scale: float,
    clip: tuple[float, float],
    allowed: Tensor | None = None,
    edges_only: bool = False,
    centrality: bool = False,
    num_virtual_nodes: int = 0,
    query_rows: int = 0,
    norm_eps: float = 1e-5,
    ffn_norm_eps: float = 1e-5,
    mask_keys: Tensor | None = None,
    mask_probability: float = 0.0,
    masks_gates: bool = False,
    dropout_keys: Tensor | None = None,
    dropout_probability: float = 0.0,
) -> tuple[Tensor | None, Tensor | None]:
    """All pair work of a layer on the packed layout (float32, CPU).

    Args:
        qkv: (M, 3 d) Q|K|V of all nodes, channel t * d_k + c of head t; (M, 2 d) Q|K if `edges_only`.
        e: (P, d_e) edge channel; pair (i, j) of a graph is row start + i * N + j.
        sizes: (B,) int64, nodes of each graph, virtual nodes included (they come first).
        weights: parameters of the parts.
        scale: of the dot product, 1 / sqrt(d_k).
        clip: range of the scaled dot product.
        allowed: (P,) bool or uint8, True where i may attend j; None: everyone.
        edges_only: no attention, only H_hat and the edge update.
        centrality: scale row i by ln(1 + sum_j g_ij), but for virtual nodes.
        num_virtual_nodes: per graph.
        query_rows: compute only the first rows of each graph, the others are zero; 0: all. Only with frozen edges.
        norm_eps: of the norm before E and G.
        ffn_norm_eps: of the norm before the edge FFN.
        mask_keys: (B, 2) keys of random masking.
        mask_probability: of a pair and head to be masked.
        masks_gates: random masking closes the gates too, not only the logits.
        dropout_keys: (B, 2) keys of attention dropout.
        dropout_probability: of an entry of A_tilde.

    Returns:
        out: (M, d), None if `edges_only`.
        e_new: (P, d_e), None if edges are frozen.
    """
    out, e_new = _pair_pass(
        qkv,
        e,
        sizes,
        allowed,
        mask_keys,
        dropout_keys,
        *weights,
        edges_only,
        centrality,
        num_virtual_nodes,
        query_rows,
        masks_gates,
        mask_probability,
        dropout_probability,
        norm_eps,
        ffn_norm_eps,
        clip[0],
        clip[1],
        scale,
    )
    return None if edges_only else out, None if weights.O_weight is None else e_new
