"""What is computed of given matrices and positions, and the settings that are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from egt.data.encodings.encoding import Encoding, Listed
from egt.graph import Graph
from egt.parts.inputs import Centered, Given, MatrixSvd
from tests.graphs import tiny_config


def matrix_graph(n: int = 6, *, symmetric: bool = True) -> Graph:
    rng = np.random.default_rng(n)
    values = rng.normal(size=(n, n, 2))
    if symmetric:
        values = values + values.swapaxes(0, 1)
    return Graph(num_nodes=n, edge_index=[[0, 1], [1, 2]], pair_values=values, positions=rng.normal(size=(n, 3)))


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_svd_of_a_matrix_approximates_it(symmetric: bool) -> None:
    graph = matrix_graph(symmetric=symmetric)
    assert graph.pair_values is not None
    full = MatrixSvd(6, 1)(graph)
    np.testing.assert_allclose(full[:, :6] @ full[:, 6:].T, graph.pair_values[:, :, 1], atol=1e-5)
    two = MatrixSvd(2, 1)(graph)
    assert two.shape == (6, 4)
    rest = np.linalg.svd(graph.pair_values[:, :, 1], compute_uv=False)[2:]
    left = graph.pair_values[:, :, 1] - two[:, :2] @ two[:, 2:].T
    assert np.linalg.norm(left) == pytest.approx(np.linalg.norm(rest), rel=1e-4)


def test_the_svd_follows_a_renumbering_and_reads_missing_entries_as_zero() -> None:
    graph = matrix_graph()
    assert graph.pair_values is not None
    order = np.array([3, 1, 5, 0, 2, 4])
    np.testing.assert_allclose(MatrixSvd(3, 0)(graph.permuted(order)), MatrixSvd(3, 0)(graph)[order], atol=1e-5)
    ranked = replace(graph, ranks=order)
    np.testing.assert_allclose(MatrixSvd(3, 0)(ranked), MatrixSvd(3, 0)(graph), atol=1e-5)
    holes, zeros = graph.pair_values.copy(), graph.pair_values.copy()
    holes[1, 2], zeros[1, 2] = np.nan, 0.0
    np.testing.assert_array_equal(
        MatrixSvd(3, 0)(replace(graph, pair_values=holes)), MatrixSvd(3, 0)(replace(graph, pair_values=zeros))
    )


def test_some_pairs_have_the_entries_that_they_have_among_all() -> None:
    graph = matrix_graph()
    i, j = graph.listed_pairs
    np.testing.assert_array_equal(Listed(Given("pair_values"))(graph), Given("pair_values")(graph)[i, j])
    encoding: Encoding = Given("pair_values")
    assert (encoding.name, encoding.level, encoding.stored) == ("pair_values", "pair", False)


def test_positions_are_centered_and_keep_their_distances_far_away() -> None:
    graph = replace(matrix_graph(), positions=np.array([[0.0, 0], [1, 0], [0, 1], [np.nan] * 2, [3, 3], [1, 3]]) + 4096)
    places = Centered()(graph)
    assert places.shape == (6, 1, 2)
    np.testing.assert_allclose(np.nanmean(places, axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(places[4, 0] - places[0, 0]), np.sqrt(18), rtol=1e-6)
    assert np.isnan(places[3]).all()


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ({"node_inputs": [{"kind": "svd", "rank": 2, "matrix": 0}]}, "svd"),
        ({"pair_inputs": [{"kind": "positions", "types": 9}]}, "types"),
        ({"pair_inputs": [{"kind": "positions", "noise": -1.0}]}, "noise"),
        ({"pair_inputs": [{"kind": "pair_values", "num_values": 0}]}, "num_values"),
    ],
)
def test_settings_that_do_not_fit_are_refused(model: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        tiny_config(**model)
