"""Propagated rows are products with the normalized adjacency matrix, on every layout."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from egt.data.batching.batch import LayoutName, collate
from egt.graph import Graph
from egt.nn.channels import AttentionContext, Channels
from egt.nn.randomness import graph_keys
from egt.nn.readout import PropagatedReadout
from tests.graphs import graphs_of_every_kind, samples_of, tiny_config, tiny_model

LOCAL: dict[str, Any] = {
    "pair_inputs": [
        {"kind": "distance", "max_hops": 1},
        {"kind": "edge_categories", "sizes": [3]},
        {"kind": "edge_values", "num_values": 1},
    ]
}


def _by_matrix(graph: Graph, steps: int, restart: float) -> Tensor:
    rows = torch.tensor(graph.node_values)
    A = torch.eye(graph.num_nodes)
    for i, j in graph.edge_index.T.tolist():
        A[i, j] += 1
    scale = A.sum(1).rsqrt()
    S = scale[:, None] * A * scale
    z = rows
    for _ in range(steps):
        z = (1 - restart) * S @ z + restart * rows
    return z


@pytest.mark.parametrize("layout", ["packed", "padded", "edge_list"])
def test_it_is_a_product_with_matrices(layout: LayoutName) -> None:
    graphs = graphs_of_every_kind(0)
    batch = collate(samples_of(tiny_config(**LOCAL), graphs), layout)
    x = Channels(batch.node_values, batch.node_values, AttentionContext(batch.layout), batch.queries, batch.edge_pairs)
    found = PropagatedReadout(nn.Identity(), 4, 0.3)(x)
    torch.testing.assert_close(found, torch.cat([_by_matrix(graph, 4, 0.3) for graph in graphs]))


def test_dropout_acts_on_what_is_spread() -> None:
    samples = samples_of(tiny_config(**LOCAL), graphs_of_every_kind(0))
    batch = collate(samples, "packed")
    keys = graph_keys(0, 0, batch.graph_ids)
    ones = torch.ones_like(batch.node_values)
    x = Channels(ones, ones, AttentionContext(batch.layout, None, keys), batch.queries, batch.edge_pairs)
    readout = PropagatedReadout(nn.Identity(), 1, 1.0, dropout=0.5)  # restarts at once: z = z_0
    assert set(readout(x).unique().tolist()) == {0.0, 2.0}
    assert torch.equal(readout(x), readout(x))
    assert torch.equal(readout.eval()(x), ones)


def test_a_model_with_it_agrees_on_all_layouts() -> None:
    config = tiny_config(**LOCAL, scope="neighbors", readout={"kind": "propagated", "steps": 3}, head_ratios=[])
    model, samples = tiny_model(config), samples_of(config, graphs_of_every_kind(1))
    packed, padded, listed = (model(collate(samples, layout)) for layout in ("packed", "padded", "edge_list"))
    torch.testing.assert_close(packed, padded, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(packed, listed, rtol=1e-5, atol=1e-5)
