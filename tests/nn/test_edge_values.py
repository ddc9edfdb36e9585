"""Edge-to-node values: their two forms, sizes and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from egt import EGTLayer
from egt.assemble import build_model
from egt.config.load import override
from egt.errors import ConfigError
from egt.nn.channels import AttentionContext
from egt.nn.layer import EdgeValueForm, EdgeValues, PairPass
from egt.paper.presets import preset
from tests.graphs import tiny_config


def test_the_sliced_form_is_the_full_one_with_zeros_outside_of_the_slices() -> None:
    torch.manual_seed(0)
    sliced, full = EdgeValues(6, 3, 4, "sliced"), EdgeValues(6, 3, 4, "full")
    with torch.no_grad():
        full.U.zero_()
        for k in range(3):
            full.U[k, 2 * k : 2 * k + 2] = sliced.U[k]
    A, e_hat = torch.rand(2, 5, 5, 3), torch.randn(2, 5, 5, 6)
    layout = AttentionContext.dense(torch.zeros(2, 5, 1)).layout
    torch.testing.assert_close(sliced(A, e_hat, layout), full(A, e_hat, layout))
    assert sliced(A, e_hat, layout).shape == (2, 5, 3, 4)


def test_a_pair_reaches_only_its_query() -> None:
    values = EdgeValues(6, 3, 4, "full")
    e_hat = torch.randn(1, 5, 5, 6, requires_grad=True)
    layout = AttentionContext.dense(torch.zeros(1, 5, 1)).layout
    values(torch.rand(1, 5, 5, 3), e_hat, layout)[0, 2].sum().backward()
    assert e_hat.grad is not None
    assert e_hat.grad[0].abs().sum((1, 2)).nonzero().flatten().tolist() == [2]


def extra_parameters(*settings: str) -> int:
    base = preset("zinc-100k")
    with torch.device("meta"):
        return build_model(override(base, settings)).num_parameters() - build_model(base).num_parameters()


def test_parameters_of_a_layer_of_zinc() -> None:
    assert extra_parameters("model.edge_values=sliced") == 4 * 288
    assert extra_parameters("model.edge_values=full") == 4 * 2304
    outer = extra_parameters("model.edges.kind=outer_sum")  # the last layer's edges are read by the distance objective
    assert outer == 4 * 2 * 48 * 48
    swap = extra_parameters("model.edge_values=sliced", "model.edges.kind=outer_sum", "model.edge_ffn_multiplier=1")
    assert swap == 4 * (288 + 4608 - 4656)


def test_a_slice_for_each_head_must_come_out_even() -> None:
    with pytest.raises(ConfigError, match=r"edge_width.*num_heads"):
        EdgeValues(6, 4, 4, "sliced")
    with pytest.raises(ValueError, match=r"edge_width.*num_heads"):
        tiny_config(edge_values="sliced")


@pytest.mark.parametrize("form", ["sliced", "full"])
def test_gradients_of_a_layer_with_edge_values_and_outer_sum(form: EdgeValueForm) -> None:
    torch.manual_seed(0)
    plain = EGTLayer(4, 4, 2).pairs
    pairs = PairPass(
        *(plain.logits, plain.masking, plain.gate, plain.dropout, plain.edges),
        edge_values=EdgeValues(4, 2, 2, form),
    )
    layer = EGTLayer(4, 4, 2, pairs=pairs, outer=nn.Linear(4, 8, bias=False)).double()
    h, e = torch.randn(1, 3, 4).double().requires_grad_(), torch.randn(1, 3, 3, 4).double().requires_grad_()
    parameters = [parameter for name, parameter in layer.named_parameters() if "outer" in name or "edge_values" in name]
    assert len(parameters) == 2
    assert torch.autograd.gradcheck(lambda h, e, *_: layer(h, e), (h, e, *parameters))
