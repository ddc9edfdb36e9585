from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from egt.data.encodings.encoding import Encoding
from egt.graph import Graph
from egt.parts import inputs
from egt.parts.inputs import LaplacianEigenvectors

MakeGraph = Callable[..., Graph]


def laplacian(graph: Graph) -> np.ndarray:
    """Slow and obvious: entry by entry."""
    neighbors: list[set[int]] = [set() for _ in range(graph.num_nodes)]
    for i, j in graph.edge_index.T.tolist():
        if i != j:
            neighbors[i].add(j)
            neighbors[j].add(i)
    L = np.zeros((graph.num_nodes, graph.num_nodes))
    for i, around in enumerate(neighbors):
        L[i, i] = 1.0 if around else 0.0
        for j in around:
            L[i, j] = -1.0 / np.sqrt(len(around) * len(neighbors[j]))
    return L


@pytest.mark.parametrize("directed", [False, True])
def test_columns_are_the_first_non_trivial_eigenvectors(random_graph: MakeGraph, directed: bool) -> None:
    graph = random_graph(12, 0.12, seed=5, directed=directed, self_loops=True, weighted=True)
    L = laplacian(graph)
    nontrivial = [value for value in np.linalg.eigvalsh(L) if value > 1e-8]
    vectors = LaplacianEigenvectors(4)(graph).astype(np.float64)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(4), atol=1e-5)
    np.testing.assert_allclose(L @ vectors, vectors * nontrivial[:4], atol=1e-5)


def test_renumbering_the_nodes_renumbers_the_rows(random_graph: MakeGraph) -> None:
    encode = LaplacianEigenvectors(4)
    for seed in range(30):
        graph = random_graph(20, 0.3, seed)
        order = np.random.default_rng(seed).permutation(20)
        np.testing.assert_allclose(encode(graph.permuted(order)), encode(graph)[order], atol=1e-5)


def test_sparse_products_find_the_same_in_large_graphs(
    random_graph: MakeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = [random_graph(40, 0.025, seed, directed=True) for seed in range(5)]
    assert any(np.bincount(graph.edge_index.flatten(), minlength=40).min() == 0 for graph in graphs)  # a node alone
    dense = [LaplacianEigenvectors(4)(graph) for graph in graphs]
    monkeypatch.setattr(inputs, "DENSE_LIMIT", 0)
    for graph, expected in zip(graphs, dense, strict=True):
        np.testing.assert_allclose(LaplacianEigenvectors(4)(graph), expected, atol=1e-4)
        np.testing.assert_allclose(LaplacianEigenvectors(4, scaled=True)(graph), expected * 40**0.5, atol=1e-3)


def test_disconnected_and_small_graphs() -> None:
    two_pairs = Graph.undirected(num_nodes=5, edge_index=[[0, 2], [1, 3]])
    vectors = LaplacianEigenvectors(6)(two_pairs)  # eigenvalues 0 (three components) and 2, 2
    assert not vectors[4].any()
    assert not vectors[:, 2:].any()
    np.testing.assert_allclose(np.linalg.norm(vectors[:, :2], axis=0), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(LaplacianEigenvectors(2)(Graph(num_nodes=1, edge_index=[[], []])), [[0, 0]])


def test_result_and_settings() -> None:
    encoding: Encoding = LaplacianEigenvectors(3)
    assert (encoding.name, encoding.level, encoding.stored) == ("laplacian", "node", True)
    assert encoding(Graph(num_nodes=2, edge_index=[[0], [1]])).dtype == np.float32
