"""The fused kernel behind the interface of the plain passes: the same parts and parameters, another forward."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from egt.batching.packed import Packed
from egt.nn.channels import Scope
from egt.nn.dropout import Dropout
from egt.nn.edges import ResidualEdges
from egt.nn.gate import CentralityGate, SigmoidGate
from egt.nn.kernels.fused import PairWeights, available, pair_pass
from egt.nn.logits import Logits
from egt.nn.pair_pass import EdgePass, PairPass
from egt.nn.randomness import Stream, derive

_NO_CLIP = (float("-inf"), float("inf"))


class FusedPairPass(PairPass):
    """`PairPass` as one kernel, on the packed layout in float32 on a CPU; anything else goes the plain way."""

    def forward(self, qkv: Tensor, e: Tensor, scope: Scope) -> tuple[Tensor, Tensor]:
        """See `PairPass.forward`."""
        layout = scope.layout
        if not (isinstance(layout, Packed) and _fits(qkv, e) and _edges_fit(self.edges) and available()):
            return super().forward(qkv, e, scope)
        masked = self.training and self.masking.probability > 0
        dropped = self.training and self.dropout.probability > 0
        out, updated = pair_pass(
            qkv.flatten(-3),
            e,
            layout.size_tensor,
            _weights(self.logits, self.edges, self.gate.G if isinstance(self.gate, SigmoidGate) else None),
            scale=self.logits.scale,
            clip=self.logits.clip or _NO_CLIP,
            allowed=None if scope.allowed is None else scope.allowed.squeeze(-1),
            centrality=isinstance(self.gate, CentralityGate),
            num_virtual_nodes=layout.num_virtual,
            query_rows=self.query_rows(layout),
            norm_eps=_eps(self.logits.norm_e),
            ffn_norm_eps=_eps(self.edges.ffn.norm) if isinstance(self.edges, ResidualEdges) else 0.0,
            mask_keys=derive(scope.keys, self.masking.layer, Stream.ATTENTION_MASK) if masked else None,
            mask_probability=self.masking.probability if masked else 0.0,
            masks_gates=self.masking.gates,
            dropout_keys=derive(scope.keys, self.dropout.layer, Stream.ATTENTION_DROPOUT) if dropped else None,
            dropout_probability=self.dropout.probability if dropped else 0.0,
            overwrite=_may_overwrite(scope),
        )
        assert out is not None
        return out.unflatten(-1, qkv.shape[-2:]), e if updated is None else updated

    def query_rows(self, layout: Packed) -> int:
        """How many rows of each graph are computed; 0 for all."""
        return 0


class FusedVirtualRowsPass(FusedPairPass):
    """For a last layer of which only the virtual nodes are read: the kernel computes no other rows."""

    def query_rows(self, layout: Packed) -> int:
        """The virtual nodes, which come first."""
        return layout.num_virtual


class FusedEdgePass(EdgePass):
    """`EdgePass` as one kernel, where `FusedPairPass` is."""

    def forward(self, qk: Tensor, e: Tensor, scope: Scope) -> Tensor:
        """See `EdgePass.forward`."""
        layout = scope.layout
        if not (isinstance(layout, Packed) and _fits(qk, e) and _edges_fit(self.edges) and available()):
            return super().forward(qk, e, scope)
        _, updated = pair_pass(
            qk.flatten(-3),
            e,
            layout.size_tensor,
            _weights(self.logits, self.edges, None),
            scale=self.logits.scale,
            clip=self.logits.clip or _NO_CLIP,
            edges_only=True,
            norm_eps=_eps(self.logits.norm_e),
            ffn_norm_eps=_eps(self.edges.ffn.norm),
            overwrite=_may_overwrite(scope),
        )
        assert updated is not None
        return updated


def _fits(*tensors: Tensor) -> bool:
    return all(tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors)


def _may_overwrite(scope: Scope) -> bool:
    return scope.owns_edges and torch.is_inference_mode_enabled() and not torch.compiler.is_compiling()


def _edges_fit(edges: nn.Module) -> bool:
    """The kernel knows ELU and no dropout inside the edge update."""
    if not isinstance(edges, ResidualEdges):
        return True
    quiet = not edges.training or all(_silent(dropout) for dropout in (edges.dropout, edges.ffn.dropout))
    return quiet and isinstance(edges.ffn.activation, nn.ELU)


def _silent(dropout: Dropout) -> bool:
    return dropout.probability == 0


def _eps(norm: nn.Module) -> float:
    return norm.eps if isinstance(norm, nn.LayerNorm) else 0.0


def _weights(logits: Logits, edges: nn.Module, gate: nn.Linear | None) -> PairWeights:
    weights = PairWeights(
        E=_pair(logits.E),
        norm=_pair(logits.norm_e) if isinstance(logits.norm_e, nn.LayerNorm) else None,
        G=None if gate is None else _pair(gate),
    )
    if not isinstance(edges, ResidualEdges):
        return weights
    ffn = edges.ffn
    assert isinstance(ffn.norm, nn.LayerNorm)
    return weights._replace(O=_pair(edges.O_e), ffn_norm=_pair(ffn.norm), W1=_pair(ffn.W1), W2=_pair(ffn.W2))


def _pair(module: nn.Linear | nn.LayerNorm) -> tuple[Tensor, Tensor]:
    return module.weight, module.bias
