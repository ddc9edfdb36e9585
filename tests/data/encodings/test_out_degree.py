"""The degree of nodes as a number."""

from __future__ import annotations

import numpy as np

from egt.data.encodings.encoding import OutDegree
from egt.graph import Graph


def test_edges_that_leave_are_counted() -> None:
    graph = Graph(num_nodes=4, edge_index=np.array([[0, 0, 1, 2], [1, 2, 0, 2]]), node_categories=np.zeros((4, 1), int))
    assert OutDegree()(graph).tolist() == [[2.0], [1.0], [1.0], [0.0]]


def test_a_graph_without_edges() -> None:
    graph = Graph(num_nodes=2, edge_index=np.zeros((2, 0), int), node_categories=np.zeros((2, 1), int))
    assert OutDegree()(graph).tolist() == [[0.0], [0.0]]
