from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from egt.data.encodings.encoding import Encoding, Listed
from egt.graph import Graph
from egt.parts.inputs import ShortWalks

MakeGraph = Callable[..., Graph]


@pytest.mark.parametrize("directed", [False, True])
def test_equals_powers_of_the_matrices(random_graph: MakeGraph, directed: bool) -> None:
    graph = random_graph(30, 0.08, seed=2, directed=directed, weighted=True, self_loops=True)
    A = graph.adjacency(self_loops=False)
    np.fill_diagonal(A, 0)
    M = A / np.maximum(A.sum(axis=1, keepdims=True), 1)
    share = np.maximum(A.sum(axis=0) / A.sum(), 1e-300)
    encoding = ShortWalks()(graph)
    for column, steps in enumerate((2, 3, 4)):
        numbers, lifts = np.linalg.matrix_power(A, steps), np.linalg.matrix_power(M, steps) / share
        np.testing.assert_allclose(encoding[:, :, column], np.log1p(numbers), rtol=1e-5)
        np.testing.assert_allclose(encoding[:, :, 3 + column], np.log1p(lifts), rtol=1e-5)


def test_common_neighbors_and_lift_by_hand() -> None:
    """0 and 1 share the nodes 2 and 3: two walks of two steps; a walker from 0 ends in 0 or 1, equally often."""
    graph = Graph.undirected(num_nodes=5, edge_index=[[0, 0, 1, 1], [2, 3, 2, 3]])
    encoding = ShortWalks()(graph)
    np.testing.assert_allclose(np.expm1(encoding[0, 1]), [2, 0, 8, 0.5 / (2 / 8), 0, 0.5 / (2 / 8)], rtol=1e-5)
    assert not encoding[4].any()
    assert not encoding[:, 4].any()


def test_some_pairs_have_the_rows_that_they_have_among_all(random_graph: MakeGraph) -> None:
    graph = random_graph(25, 0.1, seed=1, directed=True)
    graph = replace(graph, query_index=[[3, 0, 0, 24], [1, 7, 3, 24]])
    i, j = graph.listed_pairs
    np.testing.assert_array_equal(Listed(ShortWalks())(graph), ShortWalks()(graph)[i, j])


def test_a_star_takes_no_array_of_all_pairs() -> None:
    """Every two leaves share the center; asked about is one pair of them."""
    num_leaves = 50_000
    star = Graph.undirected(num_nodes=num_leaves + 1, edge_index=[[0] * num_leaves, range(1, num_leaves + 1)])
    row = ShortWalks().at(star, np.array([[1], [2]]))[0]
    np.testing.assert_allclose(np.expm1(row), [1, 0, num_leaves, 2, 0, 2], rtol=1e-4)


def test_result() -> None:
    encoding: Encoding = ShortWalks()
    assert (encoding.name, encoding.level, encoding.stored) == ("walks", "pair", True)
    result = encoding(Graph(num_nodes=2, edge_index=[[], []]))
    assert result.shape == (2, 2, 6)
    assert result.dtype == np.float32
    assert not result.any()
