"""Layers whose node side runs in the fused kernel: the same parts and parameters as the plain ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from egt.batching.packed import Packed
from egt.nn.channels import Scope
from egt.nn.kernels.fused import available
from egt.nn.kernels.node_operator import node_update, norm_linear
from egt.nn.layer import EGTLayer, VirtualRowsLayer


class FusedLayer(EGTLayer):
    """`EGTLayer` with the maps, norms and residual sums of its nodes in two operators, where the kernel can be used."""

    def project(self, h: Tensor, scope: Scope) -> Tensor:
        """See `EGTLayer.project`."""
        norm = self.norm_h
        if not (isinstance(norm, nn.LayerNorm) and _fits(h, scope) and available()):
            return super().project(h, scope)
        qkv: Tensor = norm_linear(h, norm.weight, norm.bias, self.qkv.weight, self.qkv.bias, norm.eps)
        return qkv

    def update_nodes(self, h: Tensor, out: Tensor, scope: Scope) -> Tensor:
        """See `EGTLayer.update_nodes`."""
        ffn, norm = self.ffn, self.ffn.norm
        known = isinstance(norm, nn.LayerNorm) and isinstance(ffn.activation, nn.ELU)
        quiet = not self.training or self.dropout.probability == ffn.dropout.probability == 0
        if not (known and quiet and _fits(h, scope) and available()):
            return super().update_nodes(h, out, scope)
        h_new: Tensor = node_update(
            *(h, out, self.O_h.weight, self.O_h.bias, norm.weight, norm.bias),
            *(ffn.W1.weight, ffn.W1.bias, ffn.W2.weight, ffn.W2.bias, norm.eps, torch.is_grad_enabled()),
        )[0]
        return h_new


class FusedVirtualRowsLayer(VirtualRowsLayer, FusedLayer):
    """`VirtualRowsLayer` likewise."""


def _fits(h: Tensor, scope: Scope) -> bool:
    return isinstance(scope.layout, Packed) and h.device.type == "cpu" and h.dtype == torch.float32
