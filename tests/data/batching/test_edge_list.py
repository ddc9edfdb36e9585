"""EGT-Constrained on the edge list equals its dense, masked form, and costs no N^2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from egt.assemble import build_model
from egt.config.load import override
from egt.config.run import RunConfig
from egt.config.run_data import preparation
from egt.data.batching.batch import collate
from egt.data.encodings.encoding import Sample
from egt.errors import ConfigError
from egt.graph import Graph
from egt.nn.randomness import graph_keys
from tests.graphs import fastest, graphs_of_every_kind, lively, samples_of, tiny_config

VARIANTS: dict[str, dict[str, Any]] = {
    "node": {"readout": {"kind": "node"}},
    "edge": {"readout": {"kind": "edge"}},
    "mean": {"gate": "none"},
    "virtual": {"readout": {"kind": "virtual_nodes", "num_virtual": 2}, "gate": "centrality"},
    "simple": {"edges": {"kind": "frozen"}, "readout": {"kind": "edge"}},
    "noise": {"readout": {"kind": "node"}, "attention_dropout": 0.3, "masking": {"probability": 0.3, "gates": True}},
    "dropouts": {"readout": {"kind": "edge"}, "edge_dropout": 0.2, "node_ffn_dropout": 0.2, "edge_ffn_dropout": 0.1},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_edge_list_equals_the_masked_dense_form(name: str) -> None:
    config = tiny_config(num_layers=3, scope="neighbors", **VARIANTS[name])
    samples = samples_of(config, graphs_of_every_kind(2))
    results = []
    for layout in ("edge_list", "packed"):
        torch.manual_seed(0)
        model = lively(build_model(config, backend=fastest(layout))).train()
        batch = collate(samples, layout)
        output = model(replace(batch, random_keys=graph_keys(0, 3, batch.graph_ids)))
        output.square().sum().backward()
        results.append((output.detach(), {k: p.grad for k, p in model.named_parameters() if p.grad is not None}))
    (sparse, sparse_gradients), (dense, dense_gradients) = results
    torch.testing.assert_close(sparse, dense, rtol=1e-5, atol=2e-5)
    assert sparse_gradients.keys() == dense_gradients.keys()
    for parameter, expected in dense_gradients.items():
        error = (sparse_gradients[parameter] - expected).abs().max() / expected.abs().max().clamp(min=1.0)
        assert error < 5e-5, f"{parameter}: {error:.1e}"


def test_custom_gradients_are_right() -> None:
    """Dot products and sums over pairs against finite differences."""
    graph = graphs_of_every_kind(0)[-1]
    layout = collate([Sample(graph)], "edge_list").layout
    nodes = (graph.num_nodes, 2, 3)
    Q, K, V = (torch.randn(nodes, dtype=torch.float64, requires_grad=True) for _ in range(3))
    A = torch.randn(layout.num_pairs, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layout.dot, (Q, K))
    assert torch.autograd.gradcheck(layout.aggregate, (A, V))


def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphs_of_every_kind(0)[-1]
    layout = collate([Sample(graph)], "edge_list").layout
    Q = torch.randn(graph.num_nodes, 2, 3)
    whole = layout.dot(Q, Q)
    monkeypatch.setattr("egt.data.batching.edge_list._CHUNK", 7)
    torch.testing.assert_close(layout.dot(Q, Q), whole)
    assert layout.num_pairs > 7


def edge_list_config(**model: Any) -> RunConfig:
    content = tiny_config(**{"scope": "neighbors"} | model).model_dump(mode="json")
    content["data"]["layout"] = "edge_list"
    return RunConfig.model_validate(content)


def test_random_walks_come_for_the_listed_pairs_alone() -> None:
    """The same answers as on all pairs, and no array of N^2 entries."""
    walk = {"kind": "random_walk", "num_steps": 4}
    edges = [{"kind": "edge_categories", "sizes": [3]}, {"kind": "edge_values", "num_values": 1}]
    pairs = [{"kind": "distance", "max_hops": 4}, *edges, {**walk, "bias": False}]
    nodes = [{"kind": "node_categories", "sizes": [5]}, {"kind": "node_values", "num_values": 2}, walk]
    listed = edge_list_config(node_inputs=nodes, pair_inputs=pairs, readout={"kind": "scaled_sum"})
    dense = override(listed, ["data.layout=packed"])
    graphs = graphs_of_every_kind(2)
    torch.manual_seed(0)
    model = lively(build_model(listed)).eval()
    samples = samples_of(listed, graphs)
    for sample in samples:
        assert not sample.pair
        assert len(sample.listed["random_walk"]) == sample.graph.listed_pairs.shape[1]
    torch.testing.assert_close(
        model(collate(samples, "edge_list")), model(collate(samples_of(dense, graphs))), rtol=1e-4, atol=1e-4
    )


def test_no_encoding_of_size_n_squared_is_computed() -> None:
    graph = Graph.undirected(
        num_nodes=9,
        edge_index=[[0, 1], [1, 2]],
        node_categories=np.zeros((9, 1), np.int64),
        node_values=np.zeros((9, 2)),
        edge_categories=np.zeros((2, 1), np.int64),
        edge_values=np.zeros((2, 1)),
        query_index=[[0, 0, 0], [2, 1, 3]],
    )
    sample = preparation(edge_list_config())(graph)
    assert not sample.pair
    pairs = list(zip(*graph.listed_pairs.tolist(), strict=True))
    assert pairs == sorted({(k, k) for k in range(9)} | {(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (0, 3)})
    expected = {(0, 2): 2, (0, 3): 5}  # 5: farther than the 4 hops that are searched
    assert sample.listed["distance"].tolist() == [expected.get((i, j), int(i != j)) for i, j in pairs]


LINKS: dict[str, Any] = {
    "scope": "neighbors",
    "gate": "centrality",
    "readout": {"kind": "edge"},
    "pair_inputs": [
        {"kind": "distance", "max_hops": 4},
        {"kind": "walks"},
        {"kind": "edge_categories", "sizes": [3], "absent": "learned"},
        {"kind": "edge_values", "num_values": 1, "absent": "learned"},
    ],
    "attention_dropout": 0.2,
    "edge_dropout": 0.2,
}


def asked(graph: Graph, *, share: float) -> Graph:
    """The graph with a random share of all its pairs to be asked about, edges among them."""
    random = np.random.default_rng(graph.num_nodes)
    pairs = np.indices((graph.num_nodes, graph.num_nodes)).reshape(2, -1)
    chosen = random.permutation(pairs.shape[1])[: max(1, round(share * pairs.shape[1]))]
    return replace(graph, query_index=pairs[:, chosen], edge_targets=None)


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_query_pairs_have_the_answers_of_the_masked_dense_form(share: float) -> None:
    """With all pairs asked about, the list holds all of them."""
    graphs = [asked(graph, share=share) for graph in graphs_of_every_kind(3)]
    outputs, gradients = [], []
    for config, layout in ((edge_list_config(**LINKS), "edge_list"), (tiny_config(**LINKS), "packed")):
        torch.manual_seed(0)
        model = lively(build_model(config, backend=fastest(layout))).train()
        batch = collate(samples_of(config, graphs), layout)
        output = model(replace(batch, random_keys=graph_keys(0, 3, batch.graph_ids)))
        output.square().sum().backward()
        outputs.append(output.detach())
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert len(outputs[0]) == sum(graph.query_index.shape[1] for graph in graphs if graph.query_index is not None)
    torch.testing.assert_close(*outputs, rtol=1e-5, atol=2e-5)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=2e-4)


def test_asking_changes_no_other_answer() -> None:
    """A query pair is not attended: what else is asked does not matter."""
    config = edge_list_config(**LINKS)
    model = lively(build_model(config)).eval()
    many = asked(graphs_of_every_kind(3)[-1], share=0.5)
    assert many.query_index is not None
    few = replace(many, query_index=many.query_index[:, :3])
    answers = [model(collate(samples_of(config, [graph]), "edge_list"))[:3] for graph in (many, few)]
    torch.testing.assert_close(*answers)


def test_global_attention_is_refused() -> None:
    config = tiny_config()
    batch = collate(samples_of(config, graphs_of_every_kind(0)), "edge_list")
    with pytest.raises(ConfigError, match="attention"):
        build_model(config)(batch)
    with pytest.raises(ConfigError, match=r"model\.scope"):
        override(config, ["data.layout=edge_list"])


@pytest.mark.slow
def test_a_large_graph_trains() -> None:
    """100,000 nodes and a million edges: one step of EGT-Constrained, forward and backward."""
    rng = np.random.default_rng(0)
    n = 100_000
    pairs = np.unique(rng.integers(0, n, (2, 520_000)), axis=1)
    pairs = np.unique(np.sort(pairs[:, pairs[0] != pairs[1]], 0), axis=1)[:, :500_000]
    inputs = [{"kind": "node_values", "num_values": 2}]
    config = edge_list_config(
        num_layers=4,
        node_width=64,
        edge_width=8,
        num_heads=8,
        readout={"kind": "node"},
        node_inputs=inputs,
        pair_inputs=[{"kind": "distance", "max_hops": 1}],
    )
    graph = Graph.undirected(num_nodes=n, edge_index=pairs, node_values=rng.normal(size=(n, 2)))
    assert graph.num_edges == 1_000_000
    model = build_model(config).train()
    loss = model(collate([preparation(config)(graph)], "edge_list")).square().mean()
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
