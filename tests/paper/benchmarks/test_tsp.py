from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from egt.data.benchmark import graph_random, open_benchmark
from egt.errors import DataError
from egt.graph import Graph
from egt.paper.benchmarks.tsp import TSP, TSP_SEED, nearest_neighbors, solve_tour, tour_edges, tsp_graph


def _length(cities: np.ndarray, tour: np.ndarray) -> float:
    return float(np.linalg.norm(cities[tour] - cities[np.roll(tour, -1)], axis=1).sum())


def _round_trip(edges: np.ndarray) -> int:
    """The number of nodes on the closed walk from node 0 along symmetric edges of degree 2."""
    assert (edges.sum(axis=1) == 2).all()
    previous, current, steps = -1, 0, 0
    while current or not steps:
        step = next(int(k) for k in np.flatnonzero(edges[current]) if k != previous)
        previous, current, steps = current, step, steps + 1
    return steps


def test_the_tour_is_the_shortest_of_all() -> None:
    cities = np.random.default_rng(0).random((7, 2))
    best = min(_length(cities, np.array([0, *rest])) for rest in permutations(range(1, 7)))
    tour = solve_tour(cities)
    assert sorted(tour.tolist()) == list(range(7))
    assert abs(_length(cities, tour) - best) < 1e-5


def test_tour_edges_are_one_closed_round_trip() -> None:
    tour = solve_tour(np.random.default_rng(1).random((60, 2)))
    edges = tour_edges(tour)
    assert np.array_equal(edges, edges.T)
    assert _round_trip(edges) == 60


def test_nearest_neighbors_equal_a_slow_search() -> None:
    points = np.random.default_rng(2).random((12, 2))
    edge_index, length = nearest_neighbors(points, 4)
    for node in range(12):
        others = sorted((float(np.hypot(*(points[node] - points[k]))), k) for k in range(12) if k != node)[:4]
        mine = edge_index[0] == node
        assert edge_index[1, mine].tolist() == [k for _, k in others]
        np.testing.assert_allclose(length[mine], [d for d, _ in others], rtol=1e-6)


def test_labels_of_a_graph_are_one_round_trip_along_its_edges() -> None:
    graph = tsp_graph(0, "train", _small_graph(0, "train"))
    TSP.schema.check(graph)
    assert graph.num_edges == 25 * graph.num_nodes
    assert _round_trip(_labelled(graph)) == graph.num_nodes


def test_the_labels_of_a_set_are_one_closed_tour_in_every_graph() -> None:
    source = open_benchmark("tsp", options={"split_sizes": {"train": 400}})
    few = [record for record in source.records("train") if _num_cities(*record) < 100][:30]  # quickly solved
    graphs = [reading.graph for reading in map(source.read, few) if reading.graph is not None]
    assert len(graphs) == 30
    for graph in graphs:  # every city has two neighbors on the tour, and the walk along it visits all of them
        assert _round_trip(_labelled(graph)) == graph.num_nodes


def test_an_edge_and_its_opposite_have_the_same_label() -> None:
    graph = tsp_graph(3, "val", _small_graph(3, "val"))
    assert graph.edge_targets is not None
    label = {(int(i), int(j)): float(t) for (i, j), t in zip(graph.edge_index.T, graph.edge_targets[:, 0], strict=True)}
    assert all(label[j, i] == value for (i, j), value in label.items() if (j, i) in label)


def test_the_number_of_cities_is_between_50_and_500() -> None:
    numbers = [int(graph_random(0, "train", k).integers(50, 501)) for k in range(2_000)]
    assert min(numbers) >= 50
    assert max(numbers) <= 500
    assert abs(np.mean(numbers) - 275) < 10


def test_smaller_graphs_on_request() -> None:
    source = open_benchmark("tsp", options={"split_sizes": {"train": 12}, "cities": [6, 9]})
    graphs = [reading.graph for reading in map(source.read, source.records("train")) if reading.graph is not None]
    assert {graph.num_nodes for graph in graphs} == {6, 7, 8, 9}
    assert all(_round_trip(_labelled(graph)) == graph.num_nodes for graph in graphs)
    assert source.card.num_nodes == (6, 7.5, 9)
    assert "6 to 9 cities" in source.card.notes
    whole = open_benchmark("tsp", options={"split_sizes": {"train": 12}})
    assert source.fingerprint() != whole.fingerprint()
    asked = open_benchmark("tsp", options={"split_sizes": {"train": 12}, "cities": [50, 500]})
    assert asked.fingerprint() == whole.fingerprint()


@pytest.mark.parametrize("cities", [[9, 6], [2, 6], [6], ["6", "9"], 6])
def test_sizes_that_make_no_graphs_are_refused(cities: object) -> None:
    with pytest.raises(DataError, match="cities"):
        open_benchmark("tsp", options={"cities": cities})


def _small_graph(seed: int, split: str) -> int:
    """The number of a graph with few cities: its tour is found in milliseconds."""
    return next(k for k in range(1_000) if _num_cities(split, k, seed) < 60)


def _num_cities(split: str, number: int, seed: int = TSP_SEED) -> int:
    return int(graph_random(seed, split, number).integers(50, 501))


def _labelled(graph: Graph) -> np.ndarray:
    assert graph.edge_targets is not None
    edges = np.zeros((graph.num_nodes,) * 2, dtype=bool)
    i, j = graph.edge_index[:, graph.edge_targets[:, 0] == 1]
    edges[i, j] = edges[j, i] = True
    return edges
