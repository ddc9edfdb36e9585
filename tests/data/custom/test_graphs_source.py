from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from egt.data.custom import GraphsSource
from egt.data.source import Source, TargetSchema
from egt.errors import DataError, GraphError
from egt.graph import FeatureSchema, Graph

TARGET = TargetSchema("graph", "regression", ("y",))


def graph(k: int) -> Graph:
    return Graph.undirected(
        num_nodes=3, edge_index=[[0], [1]], node_categories=[[k], [0], [1]], graph_targets=[float(k)]
    )


def test_graphs_are_a_source() -> None:
    source: Source = GraphsSource({"train": [graph(0), graph(4)], "test": [graph(2)]}, TARGET)
    assert source.card.schema == FeatureSchema(node_categories=(5,))
    assert source.card.split_sizes == {"train": 2, "test": 1}
    reading = source.read(source.records("train")[1])
    assert (reading.row, reading.id) == (1, "1")
    assert reading.graph is not None
    assert reading.graph.graph_targets == np.array([4.0])


def test_the_fingerprint_follows_the_arrays() -> None:
    first = GraphsSource({"train": [graph(0), graph(1)]}, TARGET)
    same = GraphsSource({"train": [graph(0), graph(1)]}, TARGET)
    moved = GraphsSource({"train": [graph(0)], "val": [graph(1)]}, TARGET)
    changed = GraphsSource({"train": [graph(0), replace(graph(1), graph_targets=np.array([7.0]))]}, TARGET)
    assert first.fingerprint() == same.fingerprint()
    assert len({first.fingerprint(), moved.fingerprint(), changed.fingerprint()}) == 3


def test_wrong_graphs_are_refused() -> None:
    with pytest.raises(DataError, match="no graph"):
        GraphsSource({"train": []}, TARGET)
    with pytest.raises(GraphError, match=r"0\.\.1"):
        GraphsSource({"train": [graph(4)]}, TARGET, FeatureSchema(node_categories=(2,)))
    with pytest.raises(DataError, match="'val'"):
        GraphsSource({"train": [graph(0)]}, TARGET).records("val")
