"""Graphs made in Python are read like files: as columns that are divided, learned from, and put together again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from egt.data.custom import card_schema, open_custom
from egt.data.formats.graphs import raw_graphs
from egt.data.source import GraphsSource, TargetSchema
from egt.errors import DataError
from egt.graph import UNKNOWN, Graph

EDGES = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])


def graph(number: int = 0, **fields: Any) -> Graph:
    given = {
        "node_categories": [[0, 2], [1, UNKNOWN], [number % 2, 0]],
        "node_values": [[0.5], [1.5], [number]],
        "edge_categories": [[0], [0], [1], [1]],
        "edge_weight": [1.0, 1.0, 2.0, 2.0],
        "graph_targets": [0.25 * number],
        "id": f"g{number}",
    }
    return Graph(num_nodes=3, edge_index=EDGES, **{**given, **fields})


GRAPHS = [graph(number) for number in range(10)]


def test_columns_and_declared_targets() -> None:
    raw = raw_graphs(GRAPHS)
    first = raw.graphs[0]
    assert first is not None
    assert list(first.nodes) == ["node_category.0", "node_category.1", "node_values"]
    assert list(first.edge_columns) == ["edge_category", "edge_weight"]
    assert first.nodes["node_category.1"].tolist() == ["2", None, "0"]
    assert first.directed is False
    assert raw.declared == {"graph": ("y",)}
    assert raw.table["id"].tolist() == [f"g{number}" for number in range(10)]


@pytest.mark.parametrize("field", ["node_targets", "edge_targets"])
def test_targets_of_nodes_and_edges(field: str) -> None:
    rows = 3 if field == "node_targets" else 4
    given = [graph(k, graph_targets=None, **{field: [[k / 7 + row] for row in range(rows)]}) for k in range(10)]
    source = open_custom(given)
    assert source.schema.level == field.split("_")[0]
    read = source.read(source.records("train")[0]).graph
    assert read is not None
    assert getattr(read, field).shape == (rows, 1)


def test_query_pairs_keep_their_labels() -> None:
    asked = {"query_index": [[0], [2]], "edge_targets": [[1.0]], "graph_targets": None}
    source = open_custom([graph(k, **asked) for k in range(10)], level="link")
    read = source.read(source.records("train")[0]).graph
    assert read is not None
    assert read.query_index is not None
    assert read.query_index.tolist() == [[0], [2]]
    assert read.edge_targets is not None
    assert read.edge_targets.tolist() == [[1.0]]
    assert read.num_edges == 4, "what is asked for was taken out by whoever made the graph"


def test_the_schema_of_a_source_of_graphs_reads_them_unchanged() -> None:
    source = GraphsSource({"train": GRAPHS}, TargetSchema("graph", "regression", ("y",)))
    again = open_custom(GRAPHS, schema=card_schema(source.card))
    for given, record in zip(GRAPHS, again.records("all"), strict=True):
        reading = again.read(record)
        assert reading.graph is not None
        for name in ("edge_index", "node_categories", "node_values", "edge_categories", "edge_values", "edge_weight"):
            np.testing.assert_array_equal(getattr(reading.graph, name), getattr(given, name), err_msg=name)
        assert reading.warning in ("", "1 missing categories of 'node_category.1' left unknown")


def test_an_edge_in_one_direction_stays_in_one() -> None:
    one_way = Graph(num_nodes=2, edge_index=[[0], [1]], node_values=[[1.0], [2.0]], graph_targets=[0.5])
    source = open_custom([one_way] * 10)
    read = source.read(source.records("all")[0]).graph
    assert read is not None
    assert read.edge_index.tolist() == [[0], [1]]


def test_targets_at_two_levels_or_of_two_widths_are_refused() -> None:
    with pytest.raises(DataError, match="levels"):
        raw_graphs([graph(0, node_targets=[[1.0]] * 3)])
    with pytest.raises(DataError, match=r"\[1, 2\] numbers"):
        raw_graphs([graph(0), graph(1, graph_targets=[1.0, 2.0])])
