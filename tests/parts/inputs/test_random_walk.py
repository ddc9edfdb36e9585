from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from egt.data.encodings.encoding import Encoding, listed, merged
from egt.errors import ConfigError, GraphError
from egt.graph import Graph
from egt.parts import inputs as random_walk
from egt.parts.inputs import RandomWalks

MakeGraph = Callable[..., Graph]


def walk(graph: Graph, start: int, num_steps: int, weighted: bool) -> list[dict[int, float]]:
    """Slow and obvious: carry the probabilities along every edge, step by step."""
    weights = graph.edge_weight if weighted and graph.edge_weight is not None else np.ones(graph.num_edges)
    edges = [(int(i), int(j), float(w)) for (i, j), w in zip(graph.edge_index.T, weights, strict=True)]
    places = [{start: 1.0}]
    for _ in range(num_steps - 1):
        after: dict[int, float] = {}
        for node, probability in places[-1].items():
            leaving = [(j, w) for i, j, w in edges if i == node]
            total = sum(w for _, w in leaving)
            for j, w in leaving:
                after[j] = after.get(j, 0.0) + probability * w / total
        places.append(after)
    return places


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_step_by_step_walk(random_graph: MakeGraph, directed: bool, weighted: bool) -> None:
    graph = random_graph(9, 0.2, seed=4, directed=directed, weighted=True, self_loops=True)
    encoding = RandomWalks(5, weighted=weighted)(graph)
    for start in range(graph.num_nodes):
        for step, places in enumerate(walk(graph, start, 5, weighted)):
            expected = [places.get(node, 0.0) for node in range(graph.num_nodes)]
            np.testing.assert_allclose(encoding[start, :, step], expected, atol=1e-6)


def test_rows_without_edges_vanish_after_the_start() -> None:
    encoding = RandomWalks(3)(Graph(num_nodes=2, edge_index=[[0], [1]]))
    np.testing.assert_array_equal(encoding[:, :, 0], np.eye(2))
    np.testing.assert_array_equal(encoding[:, :, 1], [[0, 1], [0, 0]])
    assert not encoding[:, :, 2].any()


def test_result_and_settings() -> None:
    encoding: Encoding = RandomWalks(4)
    assert (encoding.name, encoding.level, encoding.stored) == ("random_walk", "pair", False)
    result = encoding(Graph(num_nodes=1, edge_index=[[], []]))
    assert result.shape == (1, 1, 4)
    assert result.dtype == np.float32
    negative = Graph(num_nodes=2, edge_index=[[0], [1]], edge_weight=[-1.0], id="g")
    with pytest.raises(GraphError, match=r"'g'.*edge_weight"):
        RandomWalks(4, weighted=True)(negative)


@pytest.mark.parametrize("density", [0.08, 0.5])
def test_rows_sum_to_one_where_a_node_has_edges_and_follow_their_direction(
    random_graph: MakeGraph, density: float
) -> None:
    """Along edges on a sparse graph, by products of matrices on a dense one."""
    graph = random_graph(20, density, seed=1, directed=True)
    powers = RandomWalks(4)(graph)
    P = graph.adjacency(self_loops=False)
    P = P / np.maximum(P.sum(1, keepdims=True), 1)
    for k in range(4):
        np.testing.assert_allclose(powers[..., k], np.linalg.matrix_power(P, k), atol=1e-6)
    np.testing.assert_allclose(powers[..., 1].sum(1), P.any(1), atol=1e-6)
    assert not np.allclose(powers[..., 1], powers[..., 1].T)


@pytest.mark.parametrize("small", [0, 1 << 20])
@pytest.mark.parametrize("directed", [False, True])
def test_listed_pairs_have_the_entries_of_the_matrix(
    random_graph: MakeGraph, directed: bool, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Walk by walk on a large graph, out of the matrix on a small one."""
    monkeypatch.setattr(random_walk, "_SMALL", small)
    graph = random_graph(12, 0.2, seed=3, directed=directed)
    walks = RandomWalks(6)
    i, j = graph.listed_pairs
    assert len(i) == graph.num_edges + graph.num_nodes
    [listed_walks] = listed([walks])
    np.testing.assert_allclose(listed_walks(graph), walks(graph)[i, j], atol=1e-6)


def test_parts_of_a_disconnected_graph_never_meet() -> None:
    graph = Graph.undirected(num_nodes=5, edge_index=[[0, 2], [1, 3]])
    powers = RandomWalks(5)(graph)
    assert not powers[:2, 2:].any()
    assert not powers[4, 4, 1:].any()
    np.testing.assert_array_equal(powers[4, :, 0], [0, 0, 0, 0, 1])


def test_inputs_share_one_walk() -> None:
    assert merged([RandomWalks(3), RandomWalks(5)]) == (RandomWalks(5),)
    with pytest.raises(ConfigError, match="weights"):
        merged([RandomWalks(3), RandomWalks(3, weighted=True)])
