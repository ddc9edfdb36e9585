"""Every variant of the layer equals the plain loops of `tests.reference`, in float64, on both layouts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from egt.data.batching.batch import GraphBatch, LayoutName, collate
from egt.nn.randomness import graph_keys
from egt.nn.readout import VirtualNodeReadout
from tests import reference
from tests.graphs import random_graph, samples_of, tiny_config, tiny_model

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "ungated": {"gate": "none"},
    "centrality": {"gate": "centrality"},
    "constrained": {"scope": "neighbors"},
    "constrained centrality": {"scope": "neighbors", "gate": "centrality"},
    "simple": {"edges": {"kind": "frozen", "normalize": False}},
    "simple normalized": {"edges": {"kind": "frozen", "normalize": True}},
    "virtual nodes": {"readout": {"kind": "virtual_nodes", "num_virtual": 2}},
    "virtual nodes centrality": {"readout": {"kind": "virtual_nodes", "num_virtual": 2}, "gate": "centrality"},
    "virtual nodes constrained centrality": {
        "readout": {"kind": "virtual_nodes", "num_virtual": 2},
        "gate": "centrality",
        "scope": "neighbors",
    },
    "no clip, no scale": {"clip": None, "scale_dot": False},
    "narrow clip": {"clip": (-0.3, 0.2)},
    "eps": {"norm_eps": 0.5},
    "masking of logits": {"masking": {"probability": 0.4, "gates": False}, "gate": "centrality"},
    "masking of gates": {"masking": {"probability": 0.4, "gates": True}, "gate": "centrality"},
    "masking of everything": {"masking": {"probability": 0.95, "gates": True}, "scope": "neighbors"},
    "attention dropout": {"attention_dropout": 0.4, "gate": "centrality"},
    "all dropouts": {
        "attention_dropout": 0.2,
        "node_dropout": 0.3,
        "edge_dropout": 0.4,
        "node_ffn_dropout": 0.3,
        "edge_ffn_dropout": 0.2,
    },
    "key dropout": {"key_dropout": 0.5},
    "key dropout, centrality": {"key_dropout": 0.5, "gate": "centrality"},
    "key dropout, constrained": {"key_dropout": 0.5, "gate": "centrality", "scope": "neighbors"},
    "key dropout and masking of gates": {
        "key_dropout": 0.3,
        "gate": "centrality",
        "masking": {"probability": 0.3, "gates": True},
        "readout": {"kind": "virtual_nodes", "num_virtual": 2},
    },
    "drop-path": {"drop_path": 0.9},
    "drop-path and dropout": {"drop_path": 0.8, "node_dropout": 0.3, "edge_ffn_dropout": 0.2},
    "degree scaling": {"node_scaling": "degree"},
    "degree scaling, virtual nodes": {
        "node_scaling": "degree",
        "scope": "neighbors",
        "readout": {"kind": "virtual_nodes", "num_virtual": 2},
    },
    "sliced edge values": {"edge_values": "sliced", "edge_width": 8, "gate": "centrality"},
    "full edge values": {"edge_values": "full", "scope": "neighbors"},
    "full edge values, simple": {"edge_values": "full", "edges": {"kind": "frozen"}, "attention_dropout": 0.4},
    "outer sum": {"edges": {"kind": "outer_sum"}},
    "triplets": {"triplets": {"kind": "aggregation", "num_heads": 4}},
    "triplets, constrained": {
        "triplets": {"kind": "aggregation", "num_heads": 2},
        "scope": "neighbors",
        "edge_dropout": 0.3,
        "drop_path": 0.5,
        "readout": {"kind": "virtual_nodes", "num_virtual": 2},
    },
    "everything": {
        "edges": {"kind": "outer_sum"},
        "edge_values": "sliced",
        "edge_width": 8,
        "node_scaling": "degree",
        "gate": "centrality",
        "key_dropout": 0.3,
        "drop_path": 0.5,
        "attention_dropout": 0.2,
        "readout": {"kind": "virtual_nodes", "num_virtual": 2},
    },
}
RANDOM = ("masking", "attention_dropout", "key_dropout", "drop_path")


def allowed_pairs(config: Any, graph: Any, num_virtual: int) -> np.ndarray[Any, Any]:
    """(N, N) straight from the definition."""
    n = graph.num_nodes + num_virtual
    allowed = np.ones((n, n), bool)
    if config.model.scope == "neighbors":
        own = np.eye(graph.num_nodes, dtype=bool)
        own[graph.edge_index[0], graph.edge_index[1]] = True
        allowed[num_virtual:, num_virtual:] = own
    return allowed


def out_degrees(graph: Any) -> tuple[int, ...]:
    """How many edges leave each node, straight from the definition."""
    return tuple(sum(1 for i in graph.edge_index[0] if i == node) for node in range(graph.num_nodes))


def check(name: str, layout: LayoutName) -> None:
    """Run both layers of the variant on graphs of different sizes, ours and the reference's."""
    settings = VARIANTS[name]
    config = tiny_config(num_layers=3, **settings)
    model = tiny_model(config).double()
    rng = np.random.default_rng(5)
    graphs = [random_graph(rng, kind) for kind in ("plain", "one_node", "directed", "self_loops")]
    samples = samples_of(config, graphs)
    batch = in_float64(collate(samples, layout))
    training = any(key in settings for key in RANDOM)
    keys = graph_keys(seed=3, step=7, graph_ids=torch.arange(len(graphs)))
    x = model.readout.prepare(model.embed(batch))
    model.train(training)
    x = replace(x, context=replace(x.context, random_keys=keys))
    q = model.readout.num_virtual if isinstance(model.readout, VirtualNodeReadout) else 0
    for k in range(2):  # the last layer leaves edges alone; the first two are whole
        after_h, after_e = model.layers[k](x.h, x.e, x.context)
        for b, graph in enumerate(graphs):
            n = graph.num_nodes + q
            h, e = _of_graph(x.h, x.e, batch, b, q)
            variant = reference.Variant(
                heads=config.model.num_heads,
                gate=config.model.gate,
                edges=config.model.edges.kind,
                clip=config.model.clip,
                eps=config.model.norm_eps,
                normalize_e=config.model.edges.normalize,
                num_virtual=q,
                scale=config.model.scale_dot,
                keys=(int(keys[b, 0]), int(keys[b, 1])) if training else None,
                layer=k,
                mask_probability=config.model.masking.probability,
                mask_gates=config.model.masking.gates,
                attention_dropout=config.model.attention_dropout,
                node_dropout=config.model.node_dropout,
                edge_dropout=config.model.edge_dropout,
                node_ffn_dropout=config.model.node_ffn_dropout,
                edge_ffn_dropout=config.model.edge_ffn_dropout,
                key_dropout=config.model.key_dropout,
                path_probability=config.model.drop_path * k / 2,
                edge_values=config.model.edge_values,
                triplet_heads=model.layers[k].triplets.num_heads if config.model.triplets else 0,
                degrees=out_degrees(graph) if config.model.node_scaling == "degree" else None,
            )
            params = reference.numbers(model.layers[k])
            expected_h, expected_e = reference.layer(h, e, allowed_pairs(config, graph, q), params, variant)
            found_h, found_e = _of_graph(after_h, after_e, batch, b, q)
            assert found_h.shape == (n, config.model.node_width)
            np.testing.assert_allclose(found_h, expected_h, atol=1e-10, err_msg=f"h of graph {b}, layer {k}")
            np.testing.assert_allclose(found_e, expected_e, atol=1e-10, err_msg=f"e of graph {b}, layer {k}")
        x = x.updated(after_h, after_e)


def in_float64(batch: GraphBatch) -> GraphBatch:
    return replace(
        batch,
        node_values=batch.node_values.double(),
        edge_values=batch.edge_values.double(),
        node={name: tensor.double() for name, tensor in batch.node.items()},
    )


def _of_graph(h: torch.Tensor, e: torch.Tensor, batch: GraphBatch, b: int, q: int) -> tuple[Any, Any]:
    sizes = [int(size) + q for size in batch.layout.sizes]  # type: ignore[attr-defined]
    n = sizes[b]
    if h.dim() == 3:
        return h[b, :n].detach().numpy(), e[b, :n, :n].detach().numpy()
    node, pair = sum(sizes[:b]), sum(size * size for size in sizes[:b])
    return h[node : node + n].detach().numpy(), e[pair : pair + n * n].view(n, n, -1).detach().numpy()


@pytest.mark.parametrize("layout", ["packed", "padded"])
@pytest.mark.parametrize("name", VARIANTS)
def test_layer_equals_reference(name: str, layout: LayoutName) -> None:
    check(name, layout)


def test_the_clip_acts_in_these_tests() -> None:
    config = tiny_config()
    model = tiny_model(config)
    batch = collate(samples_of(config, [random_graph(np.random.default_rng(5), "large")]), "padded")
    x = model.embed(batch)
    layer = model.layers[0]
    Q, K, _ = layer.qkv(layer.norm_h(x.h)).unflatten(-1, (3, 4, -1)).unbind(-3)
    scores = batch.layout.dot(Q, K) / 2  # d_k = 4
    share = (scores.abs() > 5).float().mean()
    assert 0.02 < share < 0.9, f"{share:.2f} of the scores are clipped"
