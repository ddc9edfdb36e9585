"""The paper's claims in small: one layer sees everything, and centrality scalers tell apart what averages cannot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from egt.assemble import build_model
from egt.data.batching.batch import collate
from egt.graph import Graph
from egt.inference.backends import PLAIN
from egt.testing import reach
from tests.graphs import fastest, samples_of, tiny_config, tiny_model

PATH = 11  # nodes 0..10: ten hops from end to end


def path() -> Graph:
    chain = np.arange(PATH - 1)
    return Graph.undirected(
        num_nodes=PATH,
        edge_index=np.stack([chain, chain + 1]),
        node_categories=np.zeros((PATH, 1), int),
        node_values=np.zeros((PATH, 2)),
        edge_categories=np.zeros((PATH - 1, 1), int),
        edge_values=np.zeros((PATH - 1, 1)),
    )


def reached(num_layers: int, **settings: Any) -> list[int]:
    config = tiny_config(num_layers=num_layers, readout={"kind": "node"}, **settings)
    model = tiny_model(config, backend=fastest("packed"))
    return np.flatnonzero(reach(model, samples_of(config, [path()])[0], node=0)).tolist()


def test_one_layer_reaches_ten_hops() -> None:
    assert reached(1) == list(range(PATH))


def test_constrained_reaches_one_hop_per_layer() -> None:
    assert reached(1, scope="neighbors") == [0, 1]
    assert reached(3, scope="neighbors") == [0, 1, 2, 3]


def test_constrained_with_virtual_nodes_reaches_everyone_in_two_layers() -> None:
    config = tiny_config(num_layers=2, scope="neighbors", readout={"kind": "virtual_nodes", "num_virtual": 1})
    for backend in (PLAIN, fastest("packed")):
        influence = reach(tiny_model(config, backend=backend), samples_of(config, [path()])[0], node=0)
        assert influence.all()


def test_centrality_separates_graphs_that_averages_cannot() -> None:
    """Two complete graphs of equal nodes: any average is the same on 3 and on 5 of them, a sum of gates is not."""

    def complete(n: int) -> Graph:
        i, j = np.nonzero(1 - np.eye(n))
        edges = len(i)
        return Graph(
            num_nodes=n,
            edge_index=np.stack([i, j]),
            node_categories=np.zeros((n, 1), int),
            node_values=np.zeros((n, 2)),
            edge_categories=np.zeros((edges, 1), int),
            edge_values=np.zeros((edges, 1)),
        )

    def gap(gate: str) -> float:
        # Adjacency alone: self and neighbors look alike, so all pairs of a complete graph are equal.
        terms = [
            {"kind": "reachability", "num_hops": 1},
            {"kind": "edge_categories", "sizes": [3], "absent": "zero"},
            {"kind": "edge_values", "num_values": 1, "absent": "learned"},
        ]
        nodes = [{"kind": "node_categories", "sizes": [5]}, {"kind": "node_values", "num_values": 2}]
        config = tiny_config(gate=gate, pair_inputs=terms, node_inputs=nodes)
        torch.manual_seed(0)
        model = build_model(config, backend=fastest("packed")).eval()
        with torch.no_grad():
            model.embed.pair_terms[1].categories.table.weight.zero_()
        out = model(collate(samples_of(config, [complete(3), complete(5)])))
        return float((out[0] - out[1]).abs().max().detach())

    assert gap("sigmoid") < 1e-6
    assert gap("none") < 1e-6
    assert gap("centrality") > 1e-4  # a hundred times what rounding leaves of the others


def test_weights_of_edges_enter_the_svd_on_request() -> None:
    graph = path()
    heavy = replace(graph, edge_weight=np.linspace(0.5, 2.0, graph.num_edges).astype(np.float32))
    for weighted in (False, True):
        inputs = [
            {"kind": "node_categories", "sizes": [5]},
            {"kind": "node_values", "num_values": 2},
            {"kind": "svd", "rank": 4, "weighted": weighted},
        ]
        config = tiny_config(node_inputs=inputs)
        plain, weighty = samples_of(config, [graph, heavy])
        assert np.allclose(plain.node["svd"], weighty.node["svd"]) is (not weighted)
