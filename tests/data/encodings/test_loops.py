"""The compiled loops compute what plain numpy does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from egt.data.encodings import loops, plain_loops
from egt.graph import Graph
from egt.native.library import library

if library() is None:
    pytest.skip("no compiled library here: the plain loops are all there is", allow_module_level=True)

MakeGraph = Callable[..., Graph]


@pytest.mark.parametrize("max_hops", [2, 5, 254])
def test_hop_distances(random_graph: MakeGraph, max_hops: int) -> None:
    graphs = [
        random_graph(num_nodes, 2 / num_nodes, seed=num_nodes, directed=directed, weighted=False)
        for num_nodes in (1, 2, 23, 64, 65, 150)
        for directed in (False, True)
    ]
    for graph, found in zip(graphs, loops.hop_distances(graphs, max_hops), strict=True):
        np.testing.assert_array_equal(found, plain_loops.hop_distances(graph, max_hops))


@pytest.mark.parametrize("at_once", [1, 100, 10**6])
def test_encodings_of_many_graphs(random_graph: MakeGraph, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(loops, "_ENTRIES_AT_ONCE", at_once)
    graphs = [
        random_graph(num_nodes, 0.3, seed=seed, directed=directed, weighted=weighted)
        for num_nodes in (1, 2, 5, 23)
        for seed in range(5)
        for directed in (False, True)
        for weighted in (False, True)
    ]
    given = [np.ones(g.num_edges) if g.edge_weight is None else g.edge_weight.astype(np.float64) for g in graphs]
    compiled = loops.encode_undirected(graphs, given, 8)
    one_by_one = [loops.encode_undirected([g], [entries], 8)[0] for g, entries in zip(graphs, given, strict=True)]
    monkeypatch.setattr(loops, "library", lambda: None)
    plain = loops.encode_undirected(graphs, given, 8)
    assert {found is None for found in compiled} == {True, False}
    for found, alone, expected in zip(compiled, one_by_one, plain, strict=True):
        assert (found is None) == (alone is None) == (expected is None)
        if found is not None:
            np.testing.assert_array_equal(found, alone)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("columns", [1, 3, 9])
def test_signs_and_triplets(columns: int) -> None:
    rng = np.random.default_rng(columns)
    for _ in range(50):
        u, v = rng.standard_normal((2, 9, columns)).round(1)
        u[:, 0] = [1, -1, 2, -2, 3, -3, 0, 0, 0]  # no moment tells its sign
        s = np.sort(rng.random(columns))[::-1] * (rng.random(columns) > 0.2)
        weights = np.ones((2, 9))
        np.testing.assert_array_equal(loops.signs_of_pairs(weights, u, v), plain_loops.signs_of_pairs(weights, u, v))
        found = loops.encode_triplets(weights, u, s, v, 10)
        np.testing.assert_array_equal(found, plain_loops.encode_triplets(weights, u, s, v, 10))
        assert not found[:, columns:10].any()


def test_the_last_moment_tells_the_sign_where_the_others_vanish() -> None:
    """The sums of u^3, v^3 and u^2 v are 0, that of u v^2 is negative."""
    root = np.sqrt(5.25)
    u, v = np.array([[1.0], [-1], [2], [-2]]), np.array([[1.0], [1], [root / 2 - 0.25], [-root / 2 - 0.25]])
    for of_pairs in (loops.signs_of_pairs, plain_loops.signs_of_pairs):
        assert of_pairs(np.ones((1, 4)), u, v).tolist() == [-1.0]
        assert of_pairs(np.ones((1, 4)), -u, v).tolist() == [1.0]


def test_fewer_vectors_than_nodes() -> None:
    rng = np.random.default_rng(0)
    values, vectors = np.array([-2.0, 0.5, 2.0]), rng.standard_normal((6, 3))
    found = loops.encode_eigenvectors(np.ones((1, 6)), values, vectors, 2)
    np.testing.assert_array_equal(found, plain_loops.encode_eigenvectors(np.ones((1, 6)), values, vectors, 2))
    np.testing.assert_allclose(np.abs(found[:, :2]), np.abs(vectors[:, [2, 0]]) * np.sqrt(2), rtol=1e-6)


def test_molecules_need_no_scipy() -> None:
    """Its matrices take long to load, which a prediction for one molecule would wait for."""
    code = (
        "import sys; from egt.data.encodings.encoding import ShortestPaths; from egt.parts.inputs import SvdEncoding;"
        "from egt.data.molecules import graph_from_smiles; graph, _ = graph_from_smiles('CCO');"
        "ShortestPaths(16)(graph); SvdEncoding(8)(graph); assert not {'scipy.linalg', 'scipy.sparse'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("directed", [False, True])
def test_pairs(random_graph: MakeGraph, directed: bool) -> None:
    rng = np.random.default_rng(0)
    for num_nodes in (1, 2, 23, 150):
        graph = random_graph(num_nodes, 2 / num_nodes, seed=num_nodes, directed=directed, weighted=False)
        pairs = rng.integers(0, num_nodes, (2, 200))
        for ordered in (pairs, pairs[:, np.argsort(pairs[0], kind="stable")]):
            np.testing.assert_array_equal(loops.pair_walks(graph, ordered), plain_loops.pair_walks(graph, ordered))
            for max_hops in (2, 254):
                np.testing.assert_array_equal(
                    loops.pair_distances(graph, ordered, max_hops), plain_loops.pair_distances(graph, ordered, max_hops)
                )


def test_walks(random_graph: MakeGraph) -> None:
    for num_nodes in (1, 2, 23, 70):
        for directed in (False, True):
            graph = random_graph(num_nodes, 2 / num_nodes, seed=num_nodes, directed=directed, weighted=False)
            weights = np.random.default_rng(num_nodes).random(graph.num_edges).round(1)  # some are 0
            pairs = np.indices((num_nodes, num_nodes)).reshape(2, -1)[:, ::3]
            for compiled, plain in (
                (loops.walk_powers(graph, weights, 9), plain_loops.walk_powers(graph, weights, 9)),
                (
                    loops.walk_powers_at(graph, weights, 9, pairs),
                    plain_loops.walk_powers_at(graph, weights, 9, pairs),
                ),
            ):
                if graph.num_edges <= loops.DENSE * num_nodes**2:
                    np.testing.assert_array_equal(compiled, plain)
            np.testing.assert_allclose(
                plain_loops.dense_walk_powers(graph, weights, 9),
                plain_loops.walk_powers(graph, weights, 9),
                rtol=1e-5,
                atol=1e-7,
            )


def test_neighborhoods_draw_the_same(random_graph: MakeGraph) -> None:
    graph = random_graph(80, 0.1, seed=0, directed=True, weighted=False)
    i, keys = graph.listed_pairs
    start = np.searchsorted(i, np.arange(81))
    for seed in (0, 7, 2**63 + 5, 2**64 - 1):
        for limits in ([], [0], [3], [3, 2, 1], [-1, 2], [2, -1]):
            given = (start, np.ascontiguousarray(keys), np.array([5, 5, 40, 79]), np.array(limits, np.int64), seed)
            nodes = loops.draw_neighborhood(*given)
            np.testing.assert_array_equal(nodes, plain_loops.draw_neighborhood(*given))
            np.testing.assert_array_equal(
                loops.inner_pairs(*given[:2], nodes), plain_loops.inner_pairs(*given[:2], nodes)
            )


def test_draws_are_those_of_earlier_versions() -> None:
    """A resumed run draws the pieces that the interrupted one would have drawn."""
    start, keys = np.arange(0, 1601, 40), np.tile(np.arange(40), 40)
    nodes = loops.draw_neighborhood(start, keys, np.array([3]), np.array([4, 2]), 2**63 + 12345)
    assert nodes.tolist() == [2, 3, 8, 10, 11, 15, 17, 18, 28, 29, 37]
