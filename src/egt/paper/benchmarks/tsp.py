"""TSP: random cities, the 25 nearest neighbors of each, and the shortest round trip as the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.benchmark import (
    AUTHORS_URL,
    BENCHMARKING_GNNS,
    BENCHMARKS,
    Benchmark,
    GeneratedSource,
    graph_random,
    hdf5_files,
)
from egt.data.source import DataCard, Source, TargetSchema
from egt.errors import DataError, require_extra
from egt.graph import FeatureSchema, FloatArray, Graph, IntArray

TSP = DataCard(
    name="tsp",
    title="TSP: edges of the shortest round trip through 50 to 500 cities",
    schema=FeatureSchema(num_node_values=2, num_edge_values=1),
    target=TargetSchema("edge", "multiclass", ("in_tour",), 2, ("not in the tour", "in the tour")),
    split_sizes={"train": 10_000, "val": 1_000, "test": 1_000},
    num_nodes=(50, 275.4, 500),
    mean_edges=6_885.0,
    license="MIT",
    citation=BENCHMARKING_GNNS,
    target_meaning="whether the edge lies in the optimal tour (either direction)",
    metric="F1 of the class in_tour",
    urls=(AUTHORS_URL,),
)

TSP_SEED = 0
SOLVER = (
    "tours by LKH (elkai) on Euclidean distances, one run; LKH is free for academic and non-commercial use only. "
    "Scores are not comparable with published ones: the public script solves with distances rounded to integers "
    "(Concorde's GEO norm), and its tours share only about 0.9 (F1) of their edges with these"
)

NUM_NEIGHBORS = 25
_CITIES = (50, 500)
_FEWEST = 5
_SCALE = 1e6  # LKH rounds distances to integers


def tsp_graph(seed: int, split: str, number: int, fewest: int = _CITIES[0], most: int = _CITIES[1]) -> Graph:
    """Return one graph of TSP: node values are the coordinates in the unit square, edge values the distances.

    An edge has label 1 if the tour goes along it in either direction. It has `fewest` to `most` cities.
    """
    random = graph_random(seed, split, number)
    cities = random.random((int(random.integers(fewest, most + 1)), 2))
    edge_index, distance = nearest_neighbors(cities, NUM_NEIGHBORS)
    in_tour = tour_edges(solve_tour(cities))
    return Graph(
        num_nodes=len(cities),
        edge_index=edge_index,
        node_values=cities.astype(np.float32),
        edge_values=distance,
        edge_targets=in_tour[edge_index[0], edge_index[1]].astype(np.float64),
        id=f"{split}/{number}",
    )


def nearest_neighbors(points: NDArray[np.float64], count: int) -> tuple[IntArray, FloatArray]:
    """(2, N * count) edges from each point to its nearest others, or to all if they are fewer, and their lengths."""
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    np.fill_diagonal(distance, np.inf)
    neighbors = np.argsort(distance, axis=1, kind="stable")[:, : min(count, len(points) - 1)]
    source = np.repeat(np.arange(len(points)), neighbors.shape[1])
    target = neighbors.reshape(-1)
    return np.stack([source, target]), distance[source, target].astype(np.float32)


def solve_tour(cities: NDArray[np.float64]) -> IntArray:
    """(N,) the cities in the order of the shortest round trip that LKH finds."""
    problem = {str(number): (float(x), float(y)) for number, (x, y) in enumerate(cities * _SCALE)}
    closed = require_elkai().Coordinates2D(problem).solve_tsp(runs=1)
    return np.array(closed[:-1], dtype=np.int64)


def tour_edges(tour: IntArray) -> NDArray[np.bool_]:
    """(N, N) True between cities that follow each other on the round trip."""
    following = np.roll(tour, -1)
    edges = np.zeros((len(tour),) * 2, dtype=bool)
    edges[tour, following] = edges[following, tour] = True
    return edges


def require_elkai() -> Any:
    """Return the `elkai` module."""
    with require_extra("gen", "making TSP graphs needs elkai", DataError):
        import elkai
    return elkai


def _generate(
    seed: int = TSP_SEED, split_sizes: Mapping[str, int] | None = None, cities: Sequence[int] = _CITIES
) -> Source:
    require_elkai()
    match cities:
        case (int(fewest), int(most)) if _FEWEST <= fewest <= most:
            pass
        case _:
            raise DataError(f"tsp: cities is {cities}; give the fewest (at least {_FEWEST}) and the most of a graph")
    if (fewest, most) == _CITIES:
        return GeneratedSource(TSP, tsp_graph, seed, SOLVER, split_sizes)
    mean = (fewest + most) / 2
    card = replace(
        TSP,
        title=f"TSP: edges of the shortest round trip through {fewest} to {most} cities",
        num_nodes=(fewest, mean, most),
        mean_edges=min(NUM_NEIGHBORS, mean - 1) * mean,
    )
    made_by = f"{fewest} to {most} cities; {SOLVER}"
    return GeneratedSource(card, partial(tsp_graph, fewest=fewest, most=most), seed, made_by, split_sizes)


BENCHMARKS.register("tsp")(Benchmark(TSP, hdf5_files(TSP), _generate))
