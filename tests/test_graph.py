"""The boundary: graphs that break a rule are refused with a message that says how to mend them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from egt.errors import EgtError, GraphError
from egt.graph import FeatureSchema, Graph

GOOD: dict[str, Any] = {
    "num_nodes": 3,
    "edge_index": [[0, 1], [1, 2]],
    "node_categories": [[0], [1], [2]],
    "node_values": [[0.1], [0.2], [0.3]],
    "edge_values": [[1.0], [2.0]],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_nodes": 0}, "node"),
        ({"num_nodes": -2}, "node"),
        ({"num_nodes": True}, "node"),
        ({"edge_index": [[0, 3], [1, 1]]}, r"0..2"),
        ({"edge_index": [[0, -1], [1, 1]]}, "node"),
        ({"edge_index": [[0.5, 1], [1, 1]]}, "integers"),
        ({"edge_index": [[0, 1, 2]]}, r"must be \(2, E\)"),
        ({"edge_index": [[0, 0], [1, 1]]}, "0 -> 1 is given more than once"),
        ({"node_values": [[np.nan], [0.0], [0.0]]}, "node_values"),
        ({"edge_values": [[np.inf], [0.0]]}, "edge_values"),
        ({"node_values": [["a"], ["b"], ["c"]]}, "numbers"),
        ({"node_categories": [[0], [1]]}, r"\(2, 1\)"),
        ({"node_categories": [[0.0], [1.0], [1.0]]}, "integers"),
        ({"node_categories": [[-2], [0], [0]]}, "ids"),
        ({"edge_values": [[1.0]]}, "columns"),
        ({"edge_weight": [1.0]}, r"\(2,\)"),
        ({"edge_weight": [1.0, np.nan]}, "finite"),
        ({"graph_targets": [[1.0]]}, "number"),
        ({"graph_targets": [np.inf]}, "infinite"),
        ({"node_targets": [1.0, 2.0]}, "node_targets"),
        ({"query_index": [[0], [7]]}, "query_index"),
        ({"pair_values": np.zeros((3, 2))}, r"pair_values.*\(3, 2\)"),
        ({"pair_values": [[0, 1, 2], [1, 0, np.inf], [2, 1, 0]]}, "pair_values"),
        ({"pair_categories": np.zeros((3, 3))}, "pair_categories"),
        ({"pair_categories": np.full((3, 3), -2)}, "ids"),
        ({"positions": np.zeros((2, 3))}, r"\(2, 3\)"),
        ({"positions": np.zeros((3, 4))}, "positions"),
        ({"positions": np.zeros((3, 0, 3))}, "positions"),
        ({"positions": [[0, 1], [0, np.inf], [0, 0]]}, "positions"),
    ],
)
def test_bad_graphs_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Graph(**(GOOD | change))


def test_the_graph_is_named_in_the_message() -> None:
    with pytest.raises(EgtError, match="graph 'benzene'"):
        Graph(num_nodes=0, edge_index=[], id="benzene")


SCHEMA = FeatureSchema(node_categories=(3,), num_node_values=1, num_edge_values=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node_categories": [[0], [1], [3]]}, r"node_categories.*0..2"),
        ({"node_categories": [[0, 0]] * 3}, "node_categories"),
        ({"node_values": None}, "node_values"),
        ({"edge_categories": [[0], [0]]}, "edge_categories"),
        ({"edge_values": [[1.0, 2.0]] * 2}, "edge_values"),
    ],
)
def test_graphs_outside_the_schema_are_refused(change: dict[str, Any], message: str) -> None:
    SCHEMA.check(Graph(**GOOD))
    with pytest.raises(GraphError, match=message):
        SCHEMA.check(Graph(**(GOOD | change)))


def test_unknown_categories_and_missing_labels_are_fine() -> None:
    graph = Graph(**(GOOD | {"node_categories": [[-1], [0], [2]], "graph_targets": [np.nan, 1.0]}))
    SCHEMA.check(graph)


def test_frozen() -> None:
    graph = Graph(**GOOD)
    with pytest.raises(AttributeError):
        graph.num_nodes = 4  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        graph.node_values[0, 0] = 1.0


def test_the_callers_arrays_stay_writable() -> None:
    values = np.zeros((3, 1), np.float32)
    Graph(**(GOOD | {"node_values": values}))
    values[0] = 1.0


def test_undirected_stores_both_directions_with_equal_features() -> None:
    graph = Graph.undirected(num_nodes=3, edge_index=[[0, 1, 2], [1, 2, 2]], edge_values=[[1.0], [2.0], [3.0]])
    pairs = {(int(i), int(j)): float(v) for (i, j), (v,) in zip(graph.edge_index.T, graph.edge_values, strict=True)}
    assert pairs == {(0, 1): 1.0, (1, 0): 1.0, (1, 2): 2.0, (2, 1): 2.0, (2, 2): 3.0}
    assert graph.is_symmetric


def test_symmetry_looks_at_weights() -> None:
    edges = [[0, 1], [1, 0]]
    assert Graph(num_nodes=2, edge_index=edges).is_symmetric
    assert Graph(num_nodes=2, edge_index=edges, edge_weight=[2.0, 2.0]).is_symmetric
    assert not Graph(num_nodes=2, edge_index=edges, edge_weight=[2.0, 1.0]).is_symmetric
    assert not Graph(num_nodes=3, edge_index=[[0], [1]]).is_symmetric


def test_adjacency() -> None:
    graph = Graph(num_nodes=2, edge_index=[[0, 0], [0, 1]], edge_weight=[5.0, 3.0])
    np.testing.assert_array_equal(graph.adjacency(), [[1, 1], [0, 1]])
    np.testing.assert_array_equal(graph.adjacency(weighted=True), [[1, 3], [0, 1]])
    np.testing.assert_array_equal(graph.adjacency(self_loops=False), [[1, 1], [0, 0]])


def test_permuted_renumbers_everything() -> None:
    graph = Graph(
        **(GOOD | {"node_targets": [[1.0], [2.0], [3.0]], "query_index": [[0], [2]], "edge_targets": [[1.0]]})
    )
    order = np.array([2, 0, 1])
    moved = graph.permuted(order)
    np.testing.assert_array_equal(moved.node_values, graph.node_values[order])
    np.testing.assert_array_equal(moved.adjacency(), graph.adjacency()[order][:, order])
    np.testing.assert_array_equal(moved.query_index, [[1], [0]])
    np.testing.assert_array_equal(moved.node_targets, np.array([[3.0], [1.0], [2.0]]))
    with pytest.raises(GraphError):
        graph.permuted([0, 0, 1])


def test_values_of_the_whole_graph() -> None:
    graph = Graph(num_nodes=2, edge_index=[[0], [1]], graph_values=[20, 7.5])
    assert graph.graph_values.dtype == np.float32
    assert graph.permuted([1, 0]).graph_values.tolist() == [20, 7.5]
    assert Graph(num_nodes=1, edge_index=[]).graph_values.shape == (0,)
    FeatureSchema(num_graph_values=2).check(graph)
    with pytest.raises(GraphError, match="graph_values"):
        FeatureSchema().check(graph)
    with pytest.raises(GraphError, match=r"graph_values.*\(1, 2\)"):
        Graph(num_nodes=1, edge_index=[], graph_values=[[1.0, 2.0]])
    with pytest.raises(GraphError, match="finite"):
        Graph(num_nodes=1, edge_index=[], graph_values=[np.nan])


DENSE: dict[str, Any] = {
    "num_nodes": 2,
    "edge_index": [],
    "pair_values": [[0.0, np.nan], [3.0, 1.0]],
    "pair_categories": [[[0, 1], [-1, 2]], [[1, 0], [0, 0]]],
    "positions": [[0.0, 0.5], [np.nan, np.nan]],
}


def test_matrices_and_positions() -> None:
    graph = Graph(**DENSE)
    assert graph.pair_values is not None
    assert graph.pair_categories is not None
    assert (graph.pair_values.shape, graph.pair_categories.shape) == ((2, 2, 1), (2, 2, 2))
    moved = graph.permuted([1, 0])
    np.testing.assert_array_equal(moved.pair_values, [[[1], [3]], [[np.nan], [0]]])
    np.testing.assert_array_equal(moved.pair_categories, graph.pair_categories[::-1, ::-1])
    np.testing.assert_array_equal(moved.positions, [[np.nan, np.nan], [0, 0.5]])
    ranked = Graph(**DENSE, ranks=[1, 0]).in_rank_order()
    np.testing.assert_array_equal(ranked.pair_values, moved.pair_values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pair_values": None}, "pair_values"),
        ({"pair_categories": [[0, 1], [1, 0]]}, "pair_categories"),
        ({"pair_categories": np.full((2, 2, 2), 2)}, r"pair_categories.*0..1"),
        ({"positions": None}, "coordinates"),
        ({"positions": np.zeros((2, 4, 3))}, "coordinates"),
    ],
)
def test_the_schema_holds_for_matrices_and_positions(change: dict[str, Any], message: str) -> None:
    schema = FeatureSchema(pair_categories=(2, 3), num_pair_values=1, positions=(2,))
    schema.check(Graph(**DENSE))
    with pytest.raises(GraphError, match=message):
        schema.check(Graph(**(DENSE | change)))
