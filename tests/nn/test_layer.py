"""The layer alone, as a plain module on dense tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from egt import EGTLayer
from egt.errors import ConfigError
from egt.nn.channels import AttentionContext
from egt.nn.layer import EdgeOnlyLayer, ResidualEdges


def test_three_lines_on_dense_tensors() -> None:
    layer = EGTLayer(node_width=64, edge_width=8, num_heads=8)
    h, e = torch.randn(2, 10, 64), torch.randn(2, 10, 10, 8)
    new_h, new_e = layer(h, e)
    assert new_h.shape == h.shape
    assert new_e.shape == e.shape
    assert not torch.equal(new_e, e)


def test_sizes_mask_the_padding() -> None:
    layer = EGTLayer(16, 4, 4).eval()
    h, e = torch.randn(2, 5, 16), torch.randn(2, 5, 5, 4)
    context = AttentionContext.dense(h, sizes=torch.tensor([5, 3]))
    new_h, new_e = layer(h, e, context)
    alone_h, alone_e = layer(h[1:, :3], e[1:, :3, :3])
    torch.testing.assert_close(new_h[1:, :3], alone_h)
    torch.testing.assert_close(new_e[1:, :3, :3], alone_e)


def test_everything_is_trained() -> None:
    layer = EGTLayer(16, 4, 4)
    h, e = layer(torch.randn(1, 5, 16), torch.randn(1, 5, 5, 4))
    (h.square().sum() + e.square().sum()).backward()
    assert [name for name, p in layer.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_an_outer_sum_reads_both_nodes_of_a_pair() -> None:
    plain = EGTLayer(16, 4, 4).eval()
    outer = torch.nn.Linear(16, 8, bias=False)
    layer = EGTLayer(16, 4, 4, outer=outer).eval()
    layer.load_state_dict(plain.state_dict() | {"outer.weight": outer.weight})
    h, e = torch.randn(1, 5, 16), torch.randn(1, 5, 5, 4)
    first = plain.norm_h(h)[0] @ outer.weight[:4].T  # A h_hat
    second = plain.norm_h(h)[0] @ outer.weight[4:].T  # B h_hat
    added: list[torch.Tensor] = []
    assert isinstance(layer.pairs.edges, ResidualEdges)
    layer.pairs.edges.ffn.register_forward_pre_hook(lambda _, given: added.append(given[0]))
    layer(h, e)
    layer.outer = None
    layer(h, e)
    with_outer, without = added
    torch.testing.assert_close((with_outer - without)[0, 1, 3], first[1] + second[3])
    torch.testing.assert_close((with_outer - without)[0, 3, 1], first[3] + second[1])


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ConfigError, match=r"node_width.*num_heads"):
        EGTLayer(10, 4, 4)


def test_the_edge_only_layer_is_the_edge_half_of_a_full_one() -> None:
    full = EGTLayer(16, 4, 4)
    from egt.nn.layer import EdgePass

    half = EdgeOnlyLayer(16, 4, full.norm_h, EdgePass(full.pairs.logits, full.pairs.edges))
    half.qk.load_state_dict({"weight": full.qkv.weight[:32], "bias": full.qkv.bias[:32]})
    h, e = torch.randn(2, 5, 16), torch.randn(2, 5, 5, 4)
    same_h, new_e = half(h, e)
    assert same_h is h
    torch.testing.assert_close(new_e, full(h, e)[1])


def test_attention_dropout_keeps_the_mean() -> None:
    """Averaged over many draws, dropout leaves the aggregated values as they are."""
    from egt.nn.randomness import graph_keys
    from tests.graphs import graphs_of_every_kind, samples_of, tiny_config, tiny_model

    config = tiny_config(attention_dropout=0.3)
    model = tiny_model(config).train()
    from egt.data.batching.batch import collate

    x = model.embed(collate(samples_of(config, graphs_of_every_kind(0)[:1])))
    layer = model.layers[0]
    qkv = layer.qkv(layer.norm_h(x.h)).unflatten(-1, (3, 4, -1))
    draws = []
    for step in range(2000):
        context = AttentionContext(x.context.layout, None, graph_keys(0, step, torch.tensor([0])))
        draws.append(layer.pairs(qkv, x.e, context)[0])
    plain, _ = layer.pairs.eval()(qkv, x.e, x.context)
    assert (torch.stack(draws).mean(0) - plain).abs().max() < 0.05 * plain.abs().max()


def test_dropouts_of_a_bare_layer_are_plain_numbers() -> None:
    torch.manual_seed(0)
    layer = EGTLayer(16, 8, 4, dropout=0.1, attention_dropout=0.2, edge_dropout=0.3, layer=2)
    edges = layer.pairs.edges
    assert isinstance(edges, ResidualEdges)
    parts = [layer.dropout, layer.ffn.dropout, layer.pairs.dropout, edges.dropout, edges.ffn.dropout]
    assert [part.probability for part in parts] == [0.1, 0.1, 0.2, 0.3, 0.3]
    assert {part.layer for part in parts} == {2}
    assert len({part.stream for part in parts}) == 5
    h, e = torch.randn(2, 5, 16), torch.randn(2, 5, 5, 8)
    assert not torch.equal(layer(h, e)[0], layer(h, e)[0])
    layer.eval()
    assert torch.equal(layer(h, e)[0], layer(h, e)[0])
    plain = EGTLayer(16, 8, 4).eval()
    plain.load_state_dict(layer.state_dict())
    assert torch.equal(layer(h, e)[1], plain(h, e)[1])


@pytest.mark.parametrize("wrong", [{"dropout": 1.0}, {"attention_dropout": -0.1}, {"edge_dropout": 2}])
def test_what_is_no_probability_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="probability"):
        EGTLayer(16, 8, 4, **wrong)


def test_dropout_of_pairs_belongs_to_a_pair_pass_that_is_given() -> None:
    with pytest.raises(ConfigError, match="`pairs`"):
        EGTLayer(16, 8, 4, pairs=EGTLayer(16, 8, 4).pairs, attention_dropout=0.1)


def test_what_lies_in_the_padding_never_reaches_real_rows() -> None:
    layer = EGTLayer(16, 4, 4).eval()
    h, e, sizes = torch.randn(2, 5, 16), torch.randn(2, 5, 5, 4), torch.tensor([5, 3])
    expected_h, expected_e = layer(h, e, sizes=sizes)
    real = torch.arange(5) < sizes.unsqueeze(1)
    pairs = real.unsqueeze(2) & real.unsqueeze(1)
    h[~real], e[~pairs] = torch.nan, torch.nan
    h.requires_grad_()
    new_h, new_e = layer(h, e, sizes=sizes)
    assert torch.equal(new_h[real], expected_h[real])
    assert torch.equal(new_e[pairs], expected_e[pairs])
    (new_h[real].sum() + new_e[pairs].sum()).backward()
    assert h.grad is not None
    assert h.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in layer.parameters())


def test_a_mask_says_who_attends_whom() -> None:
    layer = EGTLayer(16, 4, 4).eval()
    h, e = torch.randn(1, 4, 16), torch.randn(1, 4, 4, 4)
    mask = torch.ones(1, 4, 4, dtype=torch.bool)
    mask[0, 0, 3] = False
    new_h, _ = layer(h, e, mask=mask)
    other = h.clone()
    other[0, 3] = torch.randn(16)
    changed, _ = layer(other, e, mask=mask)
    assert torch.equal(new_h[0, 0], changed[0, 0])
    assert not torch.allclose(new_h[0, 1], changed[0, 1])


MASK = torch.ones(2, 5, 5, dtype=torch.bool)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"context": MASK}, "mask="),
        ({"mask": MASK.float()}, "torch.bool"),
        ({"mask": MASK[:, 0]}, r"\(2, 5, 5\)"),
        ({"sizes": MASK[:, 0]}, r"mask\.sum"),
        ({"sizes": torch.tensor([5])}, r"\(2,\)"),
        ({"context": AttentionContext.dense(torch.zeros(2, 5, 16)), "mask": MASK}, "AttentionContext.dense"),
        ({"h": torch.zeros(5, 16)}, r"\(B, N, d_h\)"),
        ({"h": torch.zeros(2, 5, 8)}, r"\(B, N, 16\)"),
        ({"e": torch.zeros(2, 5, 4)}, r"\(B, N, N, 4\)"),
        ({"e": torch.zeros(2, 5, 4, 4)}, r"\(B, N, N, 4\)"),
    ],
)
def test_wrong_tensors_are_refused_with_what_is_expected(given: dict[str, Any], says: str) -> None:
    tensors = {"h": torch.zeros(2, 5, 16), "e": torch.zeros(2, 5, 5, 4), **given}
    with pytest.raises(ConfigError, match=says):
        EGTLayer(16, 4, 4)(**tensors)
