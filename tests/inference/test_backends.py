"""What a backend computes is what the plain one does, in every variant: all rows of both channels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from egt.assemble import build_model
from egt.config.load import override
from egt.config.run import RunConfig
from egt.data.batching.batch import GraphBatch, LayoutName, collate
from egt.data.batching.layout import Padded
from egt.inference.backends import BACKENDS, CPU, PLAIN, on_backend
from egt.nn.channels import Channels
from egt.nn.randomness import graph_keys
from tests.graphs import WAYS, backend_named, fastest, graphs_of_every_kind, lively, samples_of, tiny_config

VIRTUAL = {"kind": "virtual_nodes", "num_virtual": 3}
CONSTRAINED: dict[str, dict[str, Any]] = {
    "constrained": {"scope": "neighbors"},
    "constrained, nodes": {"scope": "neighbors", "readout": {"kind": "node"}, "gate": "centrality"},
    "constrained, edges": {"scope": "neighbors", "readout": {"kind": "edge"}},
    "constrained, virtual nodes": {"scope": "neighbors", "readout": VIRTUAL, "gate": "centrality"},
    "constrained, frozen edges": {"scope": "neighbors", "edges": {"kind": "frozen"}, "activation": "gelu"},
}
PLUS: dict[str, Any] = {
    "edge_values": "sliced",
    "edge_width": 8,
    "node_scaling": "degree",
    "gate": "centrality",
    "edges": {"kind": "outer_sum"},
    "key_dropout": 0.3,
    "drop_path": 0.5,
}
CONSTRAINED["constrained, plus"] = {"scope": "neighbors", "readout": VIRTUAL, **PLUS, "edge_values": "full"}
VARIANTS: dict[str, dict[str, Any]] = {
    "plus": {**PLUS, "readout": VIRTUAL, "attention_dropout": 0.1, "node_dropout": 0.1, "edge_dropout": 0.2},
    "plus, edges": {**PLUS, "readout": {"kind": "edge"}},
    "mean": {},
    "nodes": {"readout": {"kind": "node"}},
    "edges": {"readout": {"kind": "edge"}},
    "virtual nodes": {"readout": VIRTUAL},
    "ungated": {"gate": "none", "readout": VIRTUAL},
    "centrality": {"gate": "centrality", "readout": VIRTUAL},
    "frozen edges": {"edges": {"kind": "frozen"}, "readout": VIRTUAL},
    "frozen edges, normalized": {"edges": {"kind": "frozen", "normalize": True}, "readout": {"kind": "edge"}},
    "no clip, no scale": {"clip": None, "scale_dot": False, "norm_eps": 1e-3, "readout": VIRTUAL},
    "masking": {"masking": {"probability": 0.3, "gates": True}, "attention_dropout": 0.2, "readout": VIRTUAL},
    "dropout": {
        **{f"{channel}_dropout": 0.2 for channel in ("node", "edge", "node_ffn", "edge_ffn", "attention")},
        "readout": VIRTUAL,
    },
    **{f"{name}, virtual nodes": {"activation": name, "readout": VIRTUAL} for name in ("gelu", "relu", "silu")},
    **{f"{name}, edges": {"activation": name, "readout": {"kind": "edge"}} for name in ("gelu", "relu", "silu")},
    **CONSTRAINED,
}


def encoded(config: RunConfig, backend: Any, layout: LayoutName, *, training: bool) -> tuple[GraphBatch, Channels]:
    torch.manual_seed(0)
    model = lively(build_model(config, backend=backend)).train(training)
    batch = collate(samples_of(config, graphs_of_every_kind(4)), layout)
    batch = replace(batch, random_keys=graph_keys(1, 2, batch.graph_ids))
    with torch.no_grad():
        return batch, model.encode(batch)


def rows(x: Channels) -> tuple[Tensor, Tensor]:
    """All real rows of both channels, virtual nodes included, in the packed order."""
    layout = x.context.layout
    if not isinstance(layout, Padded):
        return x.h, x.e
    assert layout.real_nodes is not None
    assert layout.real_pairs is not None
    return x.h[layout.real_nodes], x.e[layout.real_pairs]


def assert_near(found: Tensor, expected: Tensor) -> None:
    scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1.0
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5 * scale)


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize(("backend", "layout"), WAYS)
@pytest.mark.parametrize("name", VARIANTS)
def test_encode_equals_plain(name: str, backend: str, layout: LayoutName, training: bool) -> None:
    config = tiny_config(num_layers=3, **VARIANTS[name])
    _, expected = encoded(config, PLAIN, "packed", training=training)
    _, found = encoded(config, backend_named(backend), layout, training=training)
    for mine, right in zip(rows(found), rows(expected), strict=True):
        assert_near(mine, right)


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("name", CONSTRAINED)
def test_encode_of_a_list_of_edges_equals_plain(name: str, training: bool) -> None:
    config = tiny_config(num_layers=3, **CONSTRAINED[name])
    dense, expected = encoded(config, PLAIN, "packed", training=training)
    sparse, found = encoded(config, fastest("edge_list"), "edge_list", training=training)
    assert_near(found.context.layout.node_rows(found.h), expected.context.layout.node_rows(expected.h))
    assert_near(found.context.layout.virtual_nodes(found.h), expected.context.layout.virtual_nodes(expected.h))
    assert len(found.queries) == len(expected.queries) == len(sparse.queries) == len(dense.queries)
    assert_near(found.e[found.queries], expected.e[expected.queries])


def test_names_are_unique_and_the_plain_one_computes_everything() -> None:
    assert [backend.name for backend in BACKENDS] == ["cpu", "plain"]
    for device in ("cpu", "cuda"):
        for dtype in (torch.float32, torch.bfloat16):
            assert PLAIN.unsupported(torch.device(device), dtype, "padded") == ""


def test_a_model_moves_between_backends_with_its_own_parameters() -> None:
    config = tiny_config(readout=VIRTUAL)
    config = override(config, ["task.auxiliary=[{kind: distance, weight: 0.1}]"])
    model = lively(build_model(config)).eval()
    model.layers[0].qkv.weight.requires_grad_(False)
    moved = on_backend(model, config, backend_named("cpu"))
    assert (model.backend, moved.backend, moved.training) == ("plain", "cpu", False)
    assert on_backend(moved, config, CPU) is moved
    mine, theirs = dict(model.named_parameters()), dict(moved.named_parameters())
    assert mine.keys() == theirs.keys()
    assert all(mine[name] is parameter for name, parameter in theirs.items())
    assert not model.layers[0].qkv.weight.requires_grad
    batch = collate(samples_of(config, graphs_of_every_kind(1)))
    assert_near(moved(batch), model(batch))


def test_the_kernel_needs_less_memory() -> None:
    model = tiny_config().model
    assert CPU.bytes_per_pair(model) < PLAIN.bytes_per_pair(model)
    assert CPU.bytes_per_node(model) < PLAIN.bytes_per_node(model)
