"""Values of whole graphs in a store: they come back, and stores without them are what they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from egt.data.custom import GraphsSource
from egt.data.encodings.encoding import Preparation
from egt.data.preparing import GRAPH_FIELDS, field_names, stored_settings
from egt.data.source import TargetSchema
from egt.data.store import prepare
from egt.graph import DENSE_FEATURES, FeatureSchema, Graph

TARGET = TargetSchema(level="graph", kind="regression", names=("y",))


def heated(heat: float) -> Graph:
    return Graph(num_nodes=2, edge_index=[[0], [1]], graph_values=[heat, -heat], graph_targets=[1.0])


def test_values_of_graphs_come_back(tmp_path: Path) -> None:
    source = GraphsSource({"train": [heated(1.5), heated(2.5)]}, TARGET)
    store = prepare(source, "train", Preparation(source.card.schema), cache_dir=tmp_path, num_workers=1)
    assert [sample.graph.graph_values.tolist() for sample in store] == [[1.5, -1.5], [2.5, -2.5]]
    other = GraphsSource({"train": [heated(1.5), heated(3.5)]}, TARGET)
    again = prepare(other, "train", Preparation(other.card.schema), cache_dir=tmp_path, num_workers=1)
    assert again.fingerprint != store.fingerprint, "a resumed run notices that they have changed"


def test_graphs_without_them_are_stored_as_before() -> None:
    plain = Preparation(FeatureSchema(node_categories=(3,)))
    assert field_names(plain) == GRAPH_FIELDS
    assert stored_settings(plain)["schema"] == {
        "node_categories": [3],
        "num_node_values": 0,
        "edge_categories": [],
        "num_edge_values": 0,
    }


def placed(num_nodes: int, far: float) -> Graph:
    matrix = np.full((num_nodes, num_nodes), far)
    matrix[0, -1] = np.nan
    return Graph(
        num_nodes=num_nodes,
        edge_index=[],
        pair_values=matrix,
        pair_categories=np.arange(num_nodes**2).reshape(num_nodes, num_nodes) % 3 - 1,
        positions=np.full((num_nodes, 2, 3), far),
        graph_targets=[1.0],
    )


def test_matrices_and_positions_come_back(tmp_path: Path) -> None:
    graphs = [placed(3, 1.5), placed(1, 2.0), placed(2, 0.5)]
    source = GraphsSource({"train": graphs}, TARGET)
    assert source.card.schema == FeatureSchema(pair_categories=(2,), num_pair_values=1, positions=(2, 3))
    store = prepare(source, "train", Preparation(source.card.schema), cache_dir=tmp_path, num_workers=1)
    for sample, graph in zip(store, graphs, strict=True):
        for name in DENSE_FEATURES:
            np.testing.assert_array_equal(getattr(sample.graph, name), getattr(graph, name))
