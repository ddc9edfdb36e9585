"""The layer whose node side runs in the CPU kernel: the same parts and parameters as the plain one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from egt.batching.packed import Packed
from egt.nn.channels import AttentionContext
from egt.nn.kernels.node_operator import node_update, norm_linear
from egt.nn.kernels.passes import activation_name, packed
from egt.nn.layer import EGTLayer


class FusedLayer(EGTLayer):
    """`EGTLayer` with the maps, norms and residual sums of its nodes in two operators. Takes the same arguments."""

    def __init__(self, *widths: int, **parts: Any) -> None:
        super().__init__(*widths, **parts)
        self.activation = activation_name(self.ffn.activation)

    def project(self, h: Tensor, context: AttentionContext) -> Tensor:
        """See `EGTLayer.project`."""
        packed(context)  # or an error, before anything is computed
        norm = _layer_norm(self.norm_h)
        qkv: Tensor = norm_linear(h, norm.weight, norm.bias, self.qkv.weight, self.qkv.bias, norm.eps)
        return qkv

    def update_nodes(self, h: Tensor, out: Tensor, context: AttentionContext) -> Tensor:
        """See `EGTLayer.update_nodes`; where only virtual nodes are read, all other rows stay unchanged."""
        if not context.only_virtual_rows:
            return self._update(h, out, context)
        layout, keys = context.layout, context.keys if self.training else None
        h_virtual, out_virtual = (layout.virtual_nodes(x).flatten(0, 1) for x in (h, out))  # (B q, d_h)
        virtual = AttentionContext(Packed([layout.num_virtual] * layout.num_graphs, device=h.device), None, keys)
        updated = self._update(h_virtual, out_virtual, virtual)
        return layout.with_virtual_rows(h, updated.unflatten(0, (layout.num_graphs, layout.num_virtual)))

    def _update(self, h: Tensor, out: Tensor, context: AttentionContext) -> Tensor:
        ffn, norm = self.ffn, _layer_norm(self.ffn.norm)
        factors = [dropout.factors(h.shape[-1], context) for dropout in (self.dropout, ffn.dropout)]
        h_new: Tensor = node_update(
            *(h, out, *factors, self.O_h.weight, self.O_h.bias, norm.weight, norm.bias),
            *(ffn.W1.weight, ffn.W1.bias, ffn.W2.weight, ffn.W2.bias),
            *(norm.eps, self.activation, torch.is_grad_enabled()),
        )[0]
        return h_new


def _layer_norm(norm: nn.Module) -> nn.LayerNorm:
    assert isinstance(norm, nn.LayerNorm)
    return norm
