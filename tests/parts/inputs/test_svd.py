from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import scipy

from egt.data.encodings.encoding import Encoding
from egt.errors import GraphError
from egt.graph import Graph
from egt.parts import inputs as svd
from egt.parts.inputs import SvdEncoding

MakeGraph = Callable[..., Graph]
KINDS = [
    {"directed": directed, "weighted": weighted, "self_loops": loops}
    for directed, weighted, loops in product((False, True), repeat=3)
]


def halves(encoding: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    u, v = np.split(encoding.astype(np.float64), 2, axis=1)
    return u, v


@pytest.mark.parametrize("kind", KINDS)
def test_full_rank_reconstructs_the_matrix(random_graph: MakeGraph, kind: dict[str, bool]) -> None:
    graph = random_graph(9, seed=1, **kind)
    for weighted in (False, True):
        u, v = halves(SvdEncoding(rank=9, weighted=weighted)(graph))
        np.testing.assert_allclose(u @ v.T, graph.adjacency(weighted=weighted), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_same_subspaces_as_plain_svd(random_graph: MakeGraph, kind: dict[str, bool]) -> None:
    graph = random_graph(14, seed=2, **kind)
    u, v = halves(SvdEncoding(rank=4, weighted=True)(graph))
    left, s, right = np.linalg.svd(graph.adjacency(weighted=True))
    np.testing.assert_allclose(np.linalg.norm(u, axis=0), np.sqrt(s[:4]), rtol=1e-5)
    np.testing.assert_allclose(u @ v.T, (left[:, :4] * s[:4]) @ right[:4], atol=1e-5)


def singular_values_are_distinct(graph: Graph, rank: int, weighted: bool) -> bool:
    s = np.linalg.svd(graph.adjacency(weighted=weighted), compute_uv=False)
    return bool(np.diff(s)[:rank].max() < -1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_renumbering_the_nodes_renumbers_the_rows(random_graph: MakeGraph, kind: dict[str, bool]) -> None:
    encode, num_checked = SvdEncoding(rank=6, weighted=kind["weighted"]), 0
    for seed in range(60):
        graph = random_graph(8 + seed % 17, 0.25, seed, **kind)
        if not singular_values_are_distinct(graph, 6, kind["weighted"]):
            continue
        order = np.random.default_rng(seed).permutation(graph.num_nodes)
        permuted, expected = encode(graph.permuted(order)), encode(graph)[order]
        if has_symmetry(graph, expected, permuted):
            continue
        num_checked += 1
        np.testing.assert_allclose(permuted, expected, atol=1e-5)
    assert num_checked > 20


def has_symmetry(graph: Graph, one: np.ndarray, other: np.ndarray) -> bool:
    """Whether the columns that differ do so by the sign only and hold each value as often as its negative."""
    differing = np.abs(one - other).max(axis=0) > 1e-5
    for a, b in zip(one.T[differing], other.T[differing], strict=True):
        if np.abs(a + b).max() > 1e-5 or np.abs(np.sort(a) - np.sort(-a)).max() > 1e-5:
            return False
    return bool(differing.any())


def test_null_space_adds_no_noise() -> None:
    for num_nodes in range(3, 12):  # complete graphs: matrices of ones, of rank 1
        complete = Graph(num_nodes=num_nodes, edge_index=np.array(np.nonzero(1 - np.eye(num_nodes))))
        u, v = halves(SvdEncoding(rank=num_nodes)(complete))
        np.testing.assert_allclose(u[:, 0], 1.0, rtol=1e-6)
        assert not u[:, 1:].any()
        assert not v[:, 1:].any()


def test_small_graphs_are_padded_with_zeros() -> None:
    lonely = Graph(num_nodes=1, edge_index=[[], []])
    np.testing.assert_array_equal(SvdEncoding(rank=3)(lonely), [[1, 0, 0, 1, 0, 0]])
    loop = Graph(num_nodes=1, edge_index=[[0], [0]])
    np.testing.assert_array_equal(SvdEncoding(rank=1)(loop), [[1, 1]])
    edgeless = SvdEncoding(rank=8)(Graph(num_nodes=3, edge_index=[[], []]))
    u, v = halves(edgeless)
    np.testing.assert_allclose(u @ v.T, np.eye(3), atol=1e-6)
    assert edgeless.shape == (3, 16)
    assert not u[:, 3:].any()
    assert not v[:, 3:].any()


def test_negative_eigenvalue_shows_as_opposite_signs() -> None:
    pair = Graph.undirected(num_nodes=2, edge_index=[[0], [1]], edge_weight=[3.0])  # eigenvalues 4 and -2
    u, v = halves(SvdEncoding(rank=2, weighted=True)(pair))
    np.testing.assert_allclose(u[:, 0], v[:, 0], rtol=1e-6)
    np.testing.assert_allclose(u[:, 1], -v[:, 1], rtol=1e-6)
    np.testing.assert_allclose(np.abs(u), [[np.sqrt(2), 1], [np.sqrt(2), 1]], rtol=1e-6)


def test_of_opposite_eigenvalues_the_positive_one_comes_first() -> None:
    six_and_two = [[0, 0, 0, 1, 1, 1, 2, 2, 2, 6], [3, 4, 5, 3, 4, 5, 3, 4, 5, 7]]  # K33 and an edge: 4, 2 and -2, ...
    graph = Graph.undirected(num_nodes=8, edge_index=six_and_two)
    for seed in range(8):
        u, v = halves(SvdEncoding(rank=3)(graph.permuted(np.random.default_rng(seed).permutation(8))))
        np.testing.assert_allclose(np.linalg.norm(u, axis=0) ** 2, [4, 2, 2], rtol=1e-5)
        np.testing.assert_allclose((u * v).sum(axis=0), [4, 2, -2], rtol=1e-5)


def test_neighbors_of_neighbors_tell_the_sign() -> None:
    from egt.data.encodings.loops import encode_eigenvectors

    decided = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        nodes = np.arange(1, 9)
        graph = Graph.undirected(num_nodes=9, edge_index=np.stack([nodes, rng.integers(0, nodes)]))
        A = graph.adjacency()
        ones, (values, vectors) = np.ones(9), np.linalg.eigh(A)
        degree = A @ ones
        encoding = SvdEncoding(8)(graph)
        np.testing.assert_array_equal(
            encoding, encode_eigenvectors(np.stack([ones, degree, A @ degree]), values, vectors, 8)
        )
        decided += not np.array_equal(encoding, encode_eigenvectors(np.stack([ones, degree]), values, vectors, 8))
    assert decided > 0


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_path_equals_dense_path(
    random_graph: MakeGraph, kind: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = random_graph(60, 0.15, seed=3, **kind)
    encode = SvdEncoding(rank=5, weighted=kind["weighted"])
    dense = encode(graph)
    monkeypatch.setattr(svd, "DENSE_LIMIT", 10)
    sparse = encode(graph)
    np.testing.assert_allclose(sparse, dense, atol=1e-5)
    np.testing.assert_array_equal(encode(graph), sparse)


@pytest.mark.parametrize("directed", [False, True])
def test_large_sparse_graph(random_graph: MakeGraph, directed: bool) -> None:
    graph = random_graph(1600, 0.003, seed=6, directed=directed)
    A = graph.adjacency()
    u, v = halves(SvdEncoding(rank=4)(graph))
    s = (u * u).sum(axis=0)
    assert np.all(np.diff(s) < 0)
    np.testing.assert_allclose(A @ v, u * s, atol=1e-4)
    np.testing.assert_allclose(A.T @ u, v * s, atol=1e-4)


def test_sparse_path_that_does_not_converge_is_an_error_of_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = scipy.sparse.linalg.eigsh
    hurried = {"maxiter": 1, "ncv": 9}
    monkeypatch.setattr(scipy.sparse.linalg, "eigsh", lambda A, **settings: solve(A, **{**settings, **hurried}))
    nodes = np.arange(2000)
    ring = Graph.undirected(num_nodes=2000, edge_index=np.stack([nodes, (nodes + 1) % 2000]), id="ring")
    with pytest.raises(GraphError, match=r"'ring'.*2000"):
        SvdEncoding(rank=8)(ring)


def test_large_graph_without_edges() -> None:
    edgeless = Graph(num_nodes=3000, edge_index=[[], []])
    np.testing.assert_allclose((SvdEncoding(rank=4)(edgeless) ** 2).sum(axis=0), 1.0, rtol=1e-4)


def test_result_and_settings() -> None:
    encoding: Encoding = SvdEncoding(rank=2)
    assert (encoding.name, encoding.level, encoding.stored) == ("svd", "node", True)
    assert encoding == SvdEncoding(rank=2, weighted=False)
    assert encoding(Graph(num_nodes=2, edge_index=[[0], [1]])).dtype == np.float32
