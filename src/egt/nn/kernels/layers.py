"""The layer whose node side runs in the CPU kernel: the same parts and parameters as the plain one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from egt.data.batching.layout import Packed
from egt.errors import ConfigError
from egt.nn.channels import AttentionContext
from egt.nn.kernels.operators import (
    NEVER,
    NOT_RANDOM,
    PairWeights,
    RandomStream,
    RandomStreams,
    node_factors,
    pair_pass,
    project_rows,
    update_rows,
)
from egt.nn.layer import (
    CentralityGate,
    EdgePass,
    EdgeValues,
    EGTLayer,
    FrozenEdges,
    Logits,
    NoGate,
    PairPass,
    ResidualEdges,
    SigmoidGate,
)
from egt.nn.randomness import PATHS, Dropout, RandomMasking, Stream, derive, salts

if TYPE_CHECKING:
    from egt.data.batching.edge_list import EdgeList

_ACTIVATIONS: dict[type[nn.Module], str] = {nn.ELU: "elu", nn.GELU: "gelu", nn.ReLU: "relu", nn.SiLU: "silu"}


class FusedPairPass(PairPass):
    """`PairPass` as one operator of the CPU kernel."""

    def __init__(self, *parts: Any, **named: Any) -> None:
        super().__init__(*parts, **named)
        self.updates_edges = isinstance(self.edges, ResidualEdges)
        self.activation = activation_name(self.edges.ffn.activation) if isinstance(self.edges, ResidualEdges) else "elu"

    def forward(
        self, qkv: Tensor, e: Tensor, context: AttentionContext, ends: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See `PairPass.forward`."""
        only_virtual = context.only_virtual_rows and not self.updates_edges  # an edge update needs all rows
        out, updated = pair_pass(
            _with_ends(qkv.flatten(-3), ends),
            e,
            known(context).size_tensor,
            _weights(self.logits, self.edges, self.gate),
            **_settings(self, context, ends),
            allowed=None if context.allowed is None else context.allowed.squeeze(-1),
            centrality=isinstance(self.gate, CentralityGate),
            num_virtual_nodes=context.layout.num_virtual,
            query_rows=context.layout.num_virtual if only_virtual else 0,
            edge_values="none" if self.edge_values is None else self.edge_values.form,
            masks_gates=self.masking.gates,
            random=_edge_streams(self.edges, context)._replace(
                mask=_stream(self.masking, self.masking.probability, Stream.ATTENTION_MASK, context),
                key_dropout=_stream(self.masking, self.masking.key_probability, Stream.KEY_DROPOUT, context),
                dropout=_stream(self.dropout, self.dropout.probability, self.dropout.stream, context),
            ),
        )
        assert out is not None
        values, gathered = out.tensor_split([qkv.shape[-2:].numel()], -1)
        values = values.unflatten(-1, qkv.shape[-2:])
        if self.edge_values is not None:
            values = values + self.edge_values.project(self._e_hat_gathered(self.edge_values, gathered))
        return values, e if updated is None else updated

    def _e_hat_gathered(self, edge_values: EdgeValues, gathered: Tensor) -> Tensor:
        """Apply the weight and bias of the norm to what heads gathered of edges without them. Returns (M, H, width)."""
        gathered = gathered.unflatten(-1, (len(edge_values.U), -1))  # (M, H, width + 1)
        x, total = gathered[..., :-1], gathered[..., -1:]
        norm = self.logits.norm_e
        if not isinstance(norm, nn.LayerNorm):
            return x
        return x * edge_values.read(norm.weight) + total * edge_values.read(norm.bias)


class FusedEdgePass(EdgePass):
    """`EdgePass` as one operator of the CPU kernel."""

    def __init__(self, logits: Logits, edges: ResidualEdges) -> None:
        super().__init__(logits, edges)
        self.activation = activation_name(edges.ffn.activation)

    def forward(self, qk: Tensor, e: Tensor, context: AttentionContext, ends: Tensor | None = None) -> Tensor:
        """See `EdgePass.forward`."""
        _, updated = pair_pass(
            _with_ends(qk.flatten(-3), ends),
            e,
            known(context).size_tensor,
            _weights(self.logits, self.edges, None),
            **_settings(self, context, ends),
            edges_only=True,
            random=_edge_streams(self.edges, context),
        )
        assert updated is not None
        return updated


def activation_name(activation: nn.Module) -> str:
    """Return the kernel's name of a non-linearity."""
    name = _ACTIVATIONS.get(type(activation))
    if name is None or getattr(activation, "alpha", 1.0) != 1.0 or getattr(activation, "approximate", "none") != "none":
        known = ", ".join(kind.__name__ for kind in _ACTIVATIONS)
        raise ConfigError(f"the CPU kernel knows the activations {known}, not {activation}; use the backend 'plain'")
    return name


def known(context: AttentionContext) -> Packed | EdgeList:
    """Return the layout of a batch, which must be packed or a list."""
    if context.layout.has_all_pairs and not isinstance(context.layout, Packed):
        raise ConfigError(
            f"the CPU kernel computes packed batches and lists of pairs, not {type(context.layout).__name__.lower()} "
            "ones; collate them packed, or build the model with the backend 'plain'"
        )
    return cast("Packed | EdgeList", context.layout)


def _listed(context: AttentionContext) -> tuple[Tensor, ...]:
    """Return where the listed pairs of each node begin, (M + 1,), and where they lead, (P,); nothing of all pairs."""
    layout = known(context)
    return () if isinstance(layout, Packed) else (layout.row_start, layout.key)


def _with_ends(qkv: Tensor, ends: Tensor | None) -> Tensor:
    """Return the rows of the nodes as the kernel reads them: Q|K|V, and A h|B h behind it. Each: (M, width)."""
    return qkv if ends is None else torch.cat([qkv, ends], -1)


def _settings(pairs: FusedPairPass | FusedEdgePass, context: AttentionContext, ends: Tensor | None) -> dict[str, Any]:
    """Return the settings that passes with and without attention share."""
    logits, edges = pairs.logits, pairs.edges
    return {
        "scale": logits.scale,
        "clip": logits.clip or (-math.inf, math.inf),
        "listed": _listed(context),
        "outer_sum": ends is not None,
        "activation": pairs.activation,
        "norm_eps": _eps(logits.norm_e),
        "ffn_norm_eps": 0.0 if isinstance(edges, FrozenEdges) else _eps(edges.ffn.norm),
        "overwrite": context.owns_edges and torch.is_inference_mode_enabled() and not torch.compiler.is_compiling(),
    }


def _stream(
    part: Dropout | RandomMasking, probability: float, stream: Stream, context: AttentionContext
) -> RandomStream:
    if not part.training or probability == 0:
        return NEVER
    return RandomStream(probability, derive(context.keys, part.layer, stream))


def _edge_streams(edges: ResidualEdges | FrozenEdges, context: AttentionContext) -> RandomStreams:
    """Return what is dropped of the edge update and of its feed-forward block."""
    if isinstance(edges, FrozenEdges):
        return NOT_RANDOM
    update, ffn = edges.dropout, edges.ffn.dropout
    return RandomStreams(
        edge_dropout=_stream(update, update.probability, update.stream, context),
        ffn_dropout=_stream(ffn, ffn.probability, ffn.stream, context),
        edge_path=_stream(update, update.path_probability, PATHS[update.stream], context),
        ffn_path=_stream(ffn, ffn.path_probability, PATHS[ffn.stream], context),
    )


def _eps(norm: nn.Module) -> float:
    return norm.eps if isinstance(norm, nn.LayerNorm) else 0.0


def _weights(logits: Logits, edges: ResidualEdges | FrozenEdges, gate: NoGate | SigmoidGate | None) -> PairWeights:
    weights = PairWeights(
        E=_pair(logits.E),
        norm=_pair(logits.norm_e) if isinstance(logits.norm_e, nn.LayerNorm) else None,
        G=_pair(gate.G) if isinstance(gate, SigmoidGate) else None,
    )
    if isinstance(edges, FrozenEdges):
        return weights
    ffn = edges.ffn
    assert isinstance(ffn.norm, nn.LayerNorm)
    return weights._replace(O=_pair(edges.O_e), ffn_norm=_pair(ffn.norm), W1=_pair(ffn.W1), W2=_pair(ffn.W2))


def _pair(module: nn.Linear | nn.LayerNorm) -> tuple[Tensor, Tensor]:
    return module.weight, module.bias


class FusedLayer(EGTLayer):
    """`EGTLayer` with the maps, norms and residual sums of its nodes in two operators. Takes the same arguments."""

    def __init__(self, *widths: int, **parts: Any) -> None:
        super().__init__(*widths, **parts)
        self.activation = activation_name(self.ffn.activation)

    def project(self, h: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor | None]:
        """See `EGTLayer.project`."""
        known(context)  # or an error, before anything is computed
        norm, qkv = _layer_norm(self.norm_h), self.qkv
        if self.outer is None:
            return project_rows(h, norm.weight, norm.bias, qkv.weight, qkv.bias, norm.eps, False), None
        weight = torch.cat([qkv.weight, self.outer.weight])
        bias = torch.cat([qkv.bias, qkv.bias.new_zeros(self.outer.out_features)])
        both: Tensor = project_rows(h, norm.weight, norm.bias, weight, bias, norm.eps, False)
        of_heads, ends = both.tensor_split([qkv.out_features], -1)
        return of_heads, ends

    def update_nodes(self, h: Tensor, out: Tensor, context: AttentionContext) -> Tensor:
        """See `EGTLayer.update_nodes`; where only virtual nodes are read, all other rows stay unchanged."""
        if not context.only_virtual_rows:
            return self._update(h, out, context)
        layout = context.layout
        h_virtual, out_virtual = (layout.virtual_nodes(x).flatten(0, 1) for x in (h, out))  # (B q, d_h)
        virtual = AttentionContext(Packed([layout.num_virtual] * layout.num_graphs), None, context.random_keys)
        updated = self._update(h_virtual, out_virtual, virtual)
        return layout.with_virtual_rows(h, updated.unflatten(0, (layout.num_graphs, layout.num_virtual)))

    def _update(self, h: Tensor, out: Tensor, context: AttentionContext) -> Tensor:
        ffn, norm = self.ffn, _layer_norm(self.ffn.norm)
        factors = [dropout.factors(h.shape[-1], context, _drawn) for dropout in (self.dropout, ffn.dropout)]
        h_new: Tensor = update_rows(
            *(h, out, *factors, self.O_h.weight, self.O_h.bias, norm.weight, norm.bias),
            *(ffn.W1.weight, ffn.W1.bias, ffn.W2.weight, ffn.W2.bias),
            *(norm.eps, self.activation, torch.is_grad_enabled(), False),
        )[0]
        return h_new


def _drawn(dropout: Dropout, width: int, context: AttentionContext) -> Tensor:
    """Draw the factors of a dropout of node channels. Returns (M, width)."""
    layout = known(context)
    of_layer = salts(dropout.layer, dropout.stream)
    drawn: Tensor = node_factors(
        layout.size_tensor, context.keys, layout.num_nodes, width, of_layer, dropout.probability
    )
    return drawn


def _layer_norm(norm: nn.Module) -> nn.LayerNorm:
    assert isinstance(norm, nn.LayerNorm)
    return norm
