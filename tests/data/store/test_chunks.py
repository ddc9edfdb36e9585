"""Values of whole graphs in a store: they come back, and stores without them are what they were."""

from __future__ import annotations

from pathlib import Path

from egt.data.custom import GraphsSource
from egt.data.encodings.encoding import Preparation
from egt.data.preparing import GRAPH_FIELDS, field_names, stored_settings
from egt.data.source import TargetSchema
from egt.data.store import prepare
from egt.graph import FeatureSchema, Graph

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
