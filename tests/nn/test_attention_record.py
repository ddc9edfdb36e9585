"""What a layer attends to: the matrices that hooks see are those that moved its nodes."""

from __future__ import annotations

import pytest
import torch

from egt.errors import ConfigError
from egt.nn.attention_record import watch
from egt.nn.channels import AttentionContext
from egt.nn.kernels.layers import FusedPairPass
from egt.nn.layer import EGTLayer


def test_the_matrices_of_a_bare_layer_give_what_its_heads_gathered() -> None:
    torch.manual_seed(0)
    layer = EGTLayer(8, 4, 2).eval()
    h, e = torch.randn(2, 5, 8), torch.randn(2, 5, 5, 4)
    gathered: list[torch.Tensor] = []
    layer.O_h.register_forward_pre_hook(lambda _, given: gathered.append(given[0]))
    with watch(layer) as seen:
        layer(h, e)
    layer(h, e)  # nobody looks any more
    [found] = seen
    torch.testing.assert_close(found.softmax.sum(2), torch.ones(2, 5, 2))
    torch.testing.assert_close(found.product, found.softmax * found.gates)
    assert ((found.gates > 0) & (found.gates < 1)).all()
    assert found.scalers.shape == (2, 5, 2)
    qkv, _ = layer.project(h, AttentionContext.dense(h))
    V = qkv.unflatten(-1, (3, 2, 4))[..., 2, :, :]  # (B, N, H, d_k)
    out = found.scalers.unsqueeze(-1) * torch.einsum("bijh,bjhc->bihc", found.product, V)
    torch.testing.assert_close(out.flatten(-2), gathered[0])


def test_a_fused_layer_says_that_it_has_no_matrices() -> None:
    layer = EGTLayer(8, 4, 2)
    parts = layer.pairs
    layer.pairs = FusedPairPass(parts.logits, parts.masking, parts.gate, parts.dropout, parts.edges)
    with pytest.raises(ConfigError, match="backend 'plain'"), watch(layer):
        pass
