"""Whole models with the fused passes equal the plain ones: values and gradients, in training with the same noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from egt.assemble import build_model
from egt.data.batching.batch import collate
from egt.errors import ConfigError
from egt.inference.backends import CPU, PLAIN, Backend
from egt.nn.kernels.layers import FusedEdgePass, FusedPairPass, activation_name
from egt.nn.kernels.operators import available
from egt.nn.layer import PairPass
from egt.nn.randomness import graph_keys
from tests.graphs import graphs_of_every_kind, lively, samples_of, tiny_config

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "ungated": {"gate": "none"},
    "centrality and virtual nodes": {"gate": "centrality", "readout": {"kind": "virtual_nodes", "num_virtual": 3}},
    "constrained": {"scope": "neighbors", "gate": "centrality", "readout": {"kind": "node"}},
    "constrained with virtual nodes": {"scope": "neighbors", "readout": {"kind": "virtual_nodes", "num_virtual": 2}},
    "simple": {"edges": {"kind": "frozen"}},
    "simple normalized": {"edges": {"kind": "frozen", "normalize": True}, "readout": {"kind": "edge"}},
    "edges": {"readout": {"kind": "edge"}},
    "no clip, no scale, eps": {"clip": None, "scale_dot": False, "norm_eps": 1e-3},
    "masking of logits": {"masking": {"probability": 0.3, "gates": False}, "gate": "centrality"},
    "masking of gates": {"masking": {"probability": 0.3, "gates": True}, "gate": "centrality"},
    "dropout": {"attention_dropout": 0.3, "node_dropout": 0.1},
    "all dropouts": {
        "attention_dropout": 0.1,
        "node_dropout": 0.1,
        "edge_dropout": 0.2,
        "node_ffn_dropout": 0.3,
        "edge_ffn_dropout": 0.2,
    },
    "dropout of edges": {"readout": {"kind": "edge"}, "edge_dropout": 0.2, "edge_ffn_dropout": 0.3},
    "dropout of virtual nodes": {
        "readout": {"kind": "virtual_nodes", "num_virtual": 3},
        "node_dropout": 0.2,
        "node_ffn_dropout": 0.3,
    },
    "gelu": {"activation": "gelu", "edge_dropout": 0.1},
    "relu": {"activation": "relu", "readout": {"kind": "edge"}},
    "silu": {"activation": "silu", "readout": {"kind": "virtual_nodes", "num_virtual": 1}},
    "odd widths": {"edge_width": 5, "num_heads": 3, "node_width": 21},
    "key dropout": {"key_dropout": 0.4, "gate": "centrality"},
    "key dropout, constrained with virtual nodes": {
        "key_dropout": 0.3,
        "gate": "centrality",
        "scope": "neighbors",
        "attention_dropout": 0.1,
        "readout": {"kind": "virtual_nodes", "num_virtual": 2},
    },
    "drop-path": {"drop_path": 0.6},
    "drop-path of edges": {"drop_path": 0.6, "edge_dropout": 0.2, "readout": {"kind": "edge"}},
    "drop-path of virtual nodes": {
        "drop_path": 0.6,
        "node_dropout": 0.2,
        "readout": {"kind": "virtual_nodes", "num_virtual": 3},
    },
    "degree scaling": {"node_scaling": "degree"},
    "degree scaling of virtual nodes": {
        "node_scaling": "degree",
        "readout": {"kind": "virtual_nodes", "num_virtual": 3},
    },
    "sliced edge values": {"edge_values": "sliced", "edge_width": 8, "gate": "centrality"},
    "full edge values": {"edge_values": "full", "scope": "neighbors", "readout": {"kind": "node"}},
    "edge values of virtual nodes": {
        "edge_values": "full",
        "gate": "centrality",
        "readout": {"kind": "virtual_nodes", "num_virtual": 3},
    },
    "edge values, simple": {"edge_values": "full", "edges": {"kind": "frozen"}},
    "edge values, edges": {"edge_values": "sliced", "edge_width": 8, "readout": {"kind": "edge"}},
    "outer sum": {"edges": {"kind": "outer_sum"}, "edge_dropout": 0.2},
    "outer sum, edges": {"edges": {"kind": "outer_sum"}, "readout": {"kind": "edge"}, "drop_path": 0.5},
    "everything": {
        "edges": {"kind": "outer_sum"},
        "edge_values": "sliced",
        "edge_width": 8,
        "node_scaling": "degree",
        "gate": "centrality",
        "key_dropout": 0.2,
        "drop_path": 0.3,
        "attention_dropout": 0.1,
        "edge_ffn_dropout": 0.1,
        "masking": {"probability": 0.1, "gates": True},
        "readout": {"kind": "virtual_nodes", "num_virtual": 2},
    },
}


@pytest.fixture(autouse=True)
def _kernel() -> None:
    if not available():
        pytest.skip("the fused kernel needs a C++ compiler")


def run(config: Any, backend: Backend, seed: int = 1) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    model = lively(build_model(config, backend=backend)).train()
    batch = collate(samples_of(config, graphs_of_every_kind(4)))
    batch = replace(batch, random_keys=graph_keys(seed, 9, batch.graph_ids))
    output = model(batch)
    output.square().sum().backward()
    return output.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", VARIANTS)
def test_fused_equals_plain(name: str) -> None:
    # The clip is off its edge in these graphs with overwhelming probability; a logit on it could round either way.
    config = tiny_config(num_layers=3, **VARIANTS[name])
    (plain, plain_gradients), (fused, fused_gradients) = run(config, PLAIN), run(config, CPU)
    scale = plain.abs().max().clamp(min=1.0)
    assert (fused - plain).abs().max() / scale < 2e-5
    assert fused_gradients.keys() == plain_gradients.keys()
    for parameter, expected in plain_gradients.items():
        error = (fused_gradients[parameter] - expected).abs().max() / expected.abs().max().clamp(min=1.0)
        assert error < 5e-5, f"{parameter}: {error:.1e}"


def test_other_noise_gives_another_answer() -> None:
    config = tiny_config(**VARIANTS["masking of gates"])
    assert not torch.equal(run(config, CPU, seed=1)[0], run(config, CPU, seed=2)[0])
    assert torch.equal(run(config, CPU, seed=1)[0], run(config, CPU, seed=1)[0])


def test_the_fused_passes_are_used_and_share_the_names_of_parameters() -> None:
    config = tiny_config(readout={"kind": "edge"})
    fused, plain = build_model(config, backend=CPU), build_model(config)
    assert isinstance(fused.layers[0].pairs, FusedPairPass)
    assert isinstance(fused.layers[-1].pairs, FusedEdgePass)
    assert type(plain.layers[0].pairs) is PairPass
    assert fused.state_dict().keys() == plain.state_dict().keys()


def test_what_the_kernel_cannot_compute_is_an_error() -> None:
    config = tiny_config(num_layers=2)
    model = lively(build_model(config, backend=CPU)).eval()
    samples = samples_of(config, graphs_of_every_kind(0))
    with pytest.raises(ConfigError, match="'plain'"):
        model(collate(samples, "padded"))
    model.layers[0].double()
    with pytest.raises(ValueError, match=r"torch.float64.*torch.float32"):
        model(collate(samples))


@pytest.mark.parametrize("activation", [nn.Tanh(), nn.ELU(0.5), nn.GELU("tanh")])
def test_an_activation_that_the_kernel_does_not_know_is_an_error(activation: nn.Module) -> None:
    with pytest.raises(ConfigError, match=r"ReLU.*SiLU"):
        activation_name(activation)


@pytest.mark.parametrize("name", VARIANTS)
def test_inference_may_write_over_edges(name: str) -> None:
    config = tiny_config(num_layers=4, **VARIANTS[name])
    model = lively(build_model(config, backend=CPU)).eval()
    batch = collate(samples_of(config, graphs_of_every_kind(4)))
    with torch.no_grad():
        expected = model.encode(batch)
    with torch.inference_mode():
        found = model.encode(batch)
    assert torch.equal(found.h, expected.h)
    assert torch.equal(found.e, expected.e)


def test_edges_given_by_others_are_never_written_over() -> None:
    config = tiny_config(num_layers=3)
    model = lively(build_model(config, backend=CPU)).eval()
    with torch.inference_mode():
        x = model.embed(collate(samples_of(config, graphs_of_every_kind(4))))
        given = x.e.clone()
        made = [x]
        for layer in model.layers[:2]:
            made.append(made[-1].updated(*layer(made[-1].h, made[-1].e, made[-1].context)))
    assert torch.equal(x.e, given)
    assert made[1].e.data_ptr() != x.e.data_ptr()
    assert made[2].e.data_ptr() == made[1].e.data_ptr()  # nobody else reads what the first layer made


def test_edges_are_written_over_only_where_that_is_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny_config(num_layers=2)
    model = lively(build_model(config, backend=CPU)).eval()
    layer = model.layers[0]
    with torch.inference_mode():
        x = model.embed(collate(samples_of(config, graphs_of_every_kind(4))))
        _, expected = layer(x.h, x.e, x.context)
        turned = x.e.t().contiguous().t()
        _, found = layer(x.h, turned, x.context.owned())
        assert torch.equal(found, expected)
        assert torch.equal(turned, x.e)
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)  # a traced pass must be an operator
        _, found = layer(x.h, x.e, x.context.owned())
    assert torch.equal(found, expected)
    assert found.data_ptr() != x.e.data_ptr()
