from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from egt.data.encodings.encoding import Encoding, ShortestPaths
from egt.errors import ConfigError
from egt.graph import Graph

MakeGraph = Callable[..., Graph]


def floyd_warshall(graph: Graph, max_hops: int) -> np.ndarray:
    """Slow and obvious: relax over every middle node."""
    distances = np.full((graph.num_nodes, graph.num_nodes), np.inf)
    for i, j in graph.edge_index.T:
        distances[i, j] = 1
    np.fill_diagonal(distances, 0)
    for middle in range(graph.num_nodes):
        distances = np.minimum(distances, distances[:, middle, None] + distances[None, middle, :])
    return np.asarray(np.minimum(distances, max_hops + 1))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("max_hops", [1, 2, 3, 16, 254])
def test_equals_floyd_warshall(random_graph: MakeGraph, directed: bool, max_hops: int) -> None:
    for seed, num_nodes in enumerate([1, 2, 5, 20, 63, 64, 65, 130]):
        for degree in (0.7, 1.5, 4.0):
            density = degree / num_nodes
            graph = random_graph(num_nodes, density, seed, directed=directed, self_loops=bool(seed % 2))
            expected = floyd_warshall(graph, max_hops)
            np.testing.assert_array_equal(ShortestPaths(max_hops)(graph), expected)
            pairs = np.indices(expected.shape).reshape(2, -1)
            np.testing.assert_array_equal(ShortestPaths(max_hops).at(graph, pairs), expected.reshape(-1))


def test_direction_and_reach() -> None:
    path = Graph(num_nodes=4, edge_index=[[0, 1, 2], [1, 2, 3]])
    np.testing.assert_array_equal(ShortestPaths(2)(path), [[0, 1, 2, 3], [3, 0, 1, 2], [3, 3, 0, 1], [3, 3, 3, 0]])


def test_long_path_is_exact_up_to_the_limit() -> None:
    nodes = np.arange(300)
    path = Graph(num_nodes=300, edge_index=np.stack([nodes[:-1], nodes[1:]]))
    first_row = ShortestPaths(254)(path)[0]
    np.testing.assert_array_equal(first_row, np.minimum(nodes, 255))


def test_edges_stay_as_they_are() -> None:
    graph = Graph(num_nodes=3, edge_index=[[0, 1], [1, 2]])
    ShortestPaths(4)(graph)
    assert not graph.edge_index.flags.writeable
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]


def test_result_and_settings() -> None:
    encoding: Encoding = ShortestPaths()
    assert (encoding.name, encoding.level, encoding.stored) == ("distance", "pair", True)
    assert encoding(Graph(num_nodes=1, edge_index=[[0], [0]])).dtype == np.uint8
    for wrong in (0, 255):
        with pytest.raises(ConfigError, match=rf"max_hops.*{wrong}.*1\.\.254"):
            ShortestPaths(wrong)
