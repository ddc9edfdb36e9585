"""The fused pair pass: one operator over all pairs, or a list, that keeps only its inputs for the backward pass.

For each pair (i, j) of a graph and each head t:

    e_hat = LN(e_ij);  E = W_E e_hat + b_E;  G = W_G e_hat + b_G
    H_hat = clip(scale <Q_i, K_j>) + E
    A_tilde = softmax_j(H_hat) * sigmoid(G);  out_i = s_i sum_j A_tilde_ij V_j
    e1 = e_ij + W_O H_hat + b_O;  e_new = e1 + W2 act(W1 LN(e1) + b1) + b2

with dropout of keys, of A_tilde, of the update W_O H_hat + b_O, and of what the feed-forward block adds; the last two
also as a whole, graph by graph.

`torch.compile` and `torch.export` see it as one operator, `egt::pair_pass` (see `operator.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from egt.nn.kernels import binding
from egt.nn.kernels.operator import Inputs, Numbers, Switches, run, run_over


class PairWeights(NamedTuple):
    """The parameters of a pass as (weight, bias); None leaves the part out.

    Attributes:
        E: (H, d_e), (H).
        norm: (d_e), (d_e) LayerNorm of e before E and G; None: they read e itself.
        G: (H, d_e), (H); None: ungated.
        O: (d_e, H), (d_e); None: frozen edges. The three parts after it come with it.
        ffn_norm: (d_e), (d_e).
        W1: (m, d_e), (m).
        W2: (d_e, m), (d_e).
    """

    E: tuple[Tensor, Tensor]
    norm: tuple[Tensor, Tensor] | None = None
    G: tuple[Tensor, Tensor] | None = None
    O: tuple[Tensor, Tensor] | None = None  # noqa: E741 (the paper's letter)
    ffn_norm: tuple[Tensor, Tensor] | None = None
    W1: tuple[Tensor, Tensor] | None = None
    W2: tuple[Tensor, Tensor] | None = None


class RandomStream(NamedTuple):
    """One use of random numbers: what happens to a pair and head, or pair and channel, with a probability.

    Attributes:
        probability: below 1.
        keys: (B, 2) int64 keys of the graphs, 32 bits each.
    """

    probability: float
    keys: Tensor

    @property
    def threshold(self) -> int:
        """Random bits below this one, of 2^32, mean that it happens."""
        return int(self.probability * 2**32)

    @property
    def scale(self) -> float:
        """The factor of what dropout keeps."""
        return 1.0 / (1.0 - self.probability)


NEVER = RandomStream(0.0, torch.empty(0, 2, dtype=torch.int64))


class RandomStreams(NamedTuple):
    """What is random in a pass.

    Attributes:
        mask: random masking of the attention of a head.
        dropout: of an entry of A_tilde.
        edge_dropout: of a channel of W_O H_hat + b_O.
        ffn_dropout: of a channel of what the feed-forward block adds.
        key_dropout: of a key, for all queries except itself; the keys' gates leave the centrality sum with it.
        edge_path: of the update W_O H_hat + b_O of a whole graph.
        ffn_path: of its feed-forward block.
    """

    mask: RandomStream = NEVER
    dropout: RandomStream = NEVER
    edge_dropout: RandomStream = NEVER
    ffn_dropout: RandomStream = NEVER
    key_dropout: RandomStream = NEVER
    edge_path: RandomStream = NEVER
    ffn_path: RandomStream = NEVER


NOT_RANDOM = RandomStreams()


def available() -> bool:
    """Return whether the kernel is there; the first call compiles it. One line of the log says why not."""
    return binding.library() is not None


def pair_pass(
    qkv: Tensor,
    e: Tensor,
    sizes: Tensor,
    weights: PairWeights,
    *,
    scale: float,
    clip: tuple[float, float],
    listed: Sequence[Tensor] = (),
    allowed: Tensor | None = None,
    edges_only: bool = False,
    centrality: bool = False,
    num_virtual_nodes: int = 0,
    query_rows: int = 0,
    edge_values: str = "none",
    outer_sum: bool = False,
    activation: str = "elu",
    norm_eps: float = 1e-5,
    ffn_norm_eps: float = 1e-5,
    masks_gates: bool = False,
    random: RandomStreams = NOT_RANDOM,
    overwrite: bool = False,
    portable: bool = False,
) -> tuple[Tensor | None, Tensor | None]:
    """Do all pair work of a layer on the packed or edge-list layout (float32, CPU).

    Args:
        qkv: (M, 3 d) Q|K|V of all nodes, channel t * d_k + c of head t; (M, 2 d) Q|K if `edges_only`. With an outer sum
            2 d_e more, A h|B h.
        e: (P, d_e) edge channel; pair (i, j) of a graph is row start + i * N + j, or as listed.
        sizes: (B,) int64, nodes of each graph, virtual nodes included (they come first).
        weights: parameters of the parts.
        scale: of the dot product, 1 / sqrt(d_k).
        clip: range of the scaled dot product.
        listed: (M + 1,) and (P,) int64 of a list of pairs: those from node r are the rows first[r] to first[r + 1] - 1,
            and pair p leads to node second[p] of the same graph; none: all pairs.
        allowed: (P,) bool, True where i may attend j; None: everyone.
        edges_only: no attention, only H_hat and the edge update.
        centrality: scale row i by ln(1 + sum_j g_ij), except rows of virtual nodes.
        num_virtual_nodes: per graph.
        query_rows: compute only the first rows of each graph, the others are zero; 0: all. Only with frozen edges.
        edge_values: what each head gathers of the edges besides values, one of `binding.EDGE_VALUES`: nothing, its own
            share of w = d_e / H channels, or all w = d_e of them.
        outer_sum: whether A h_i + B h_j is added to W_O H_hat + b_O.
        activation: of the edge FFN, one of `binding.ACTIVATIONS`.
        norm_eps: of the norm before E and G.
        ffn_norm_eps: of the norm before the edge FFN.
        masks_gates: random masking closes the gates too, not only the logits.
        random: what is masked and dropped.
        overwrite: write e_new over e if that is contiguous; there are no gradients then.
        portable: do not use the AVX2 path.

    Returns:
        out: (M, d), None if `edges_only`. With edge values each row goes on with H (w + 1) numbers, for each head
            s_i sum_j A_tilde_ij x_ij and s_i sum_j A_tilde_ij: x is e without a norm, else e_hat before the norm's
            weight and bias.
        e_new: (P, d_e), None if edges are frozen.
    """
    has_edge_update = weights.O is not None
    assert has_edge_update or not edges_only, "a pass without attention and without edge update does nothing"
    assert not (query_rows and has_edge_update), "an edge update needs all rows"
    assert has_edge_update or not outer_sum, "an outer sum is part of an edge update"
    assert not centrality or weights.G is not None, "centrality sums gates"
    pairs = (weights.norm, weights.E, None if edges_only else weights.G, *weights[3:])
    switches = Switches(
        has_norm=weights.norm is not None,
        is_gated=weights.G is not None and not edges_only,
        updates=has_edge_update,
        attends=not edges_only,
        activation=binding.ACTIVATIONS.index(activation),
        centrality=centrality,
        num_virtual_nodes=num_virtual_nodes,
        query_rows=query_rows,
        outer_sum=outer_sum,
        edge_values=0 if edges_only else binding.EDGE_VALUES.index(edge_values),
        masks_gates=masks_gates,
        mask_threshold=random.mask.threshold,
        dropout_threshold=random.dropout.threshold,
        edge_dropout_threshold=random.edge_dropout.threshold,
        ffn_dropout_threshold=random.ffn_dropout.threshold,
        key_dropout_threshold=random.key_dropout.threshold,
        edge_path_threshold=random.edge_path.threshold,
        ffn_path_threshold=random.ffn_path.threshold,
        portable=portable,
    )
    numbers = Numbers(norm_eps, ffn_norm_eps, *clip, scale, *(stream.scale for stream in random[1:]))
    present = [tensor for pair in pairs if pair is not None for tensor in pair]
    keys = [stream.keys for stream in random if stream.threshold]
    inputs = (qkv, e, sizes, list(listed), allowed, keys, present, switches, numbers)
    out, e_new = run_over(Inputs(*inputs)) if overwrite and has_edge_update else run(*inputs)
    return None if edges_only else out, e_new if has_edge_update else None
