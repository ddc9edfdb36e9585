from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from egt.encodings.encoding import Encoding
from egt.errors import ConfigError, GraphError
from egt.graph import Graph
from egt.inputs.random_walk import RandomWalks

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
    with pytest.raises(ConfigError, match="num_steps is 0"):
        RandomWalks(0)
    negative = Graph(num_nodes=2, edge_index=[[0], [1]], edge_weight=[-1.0], id="g")
    with pytest.raises(GraphError, match=r"graph 'g': edge_weight holds -1\.0"):
        RandomWalks(4, weighted=True)(negative)
