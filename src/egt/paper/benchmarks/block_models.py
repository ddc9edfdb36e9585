"""PATTERN and CLUSTER: the stochastic block models of the benchmark.

An edge between two nodes exists with a probability that depends only on whether they are in the same community.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from egt.data.benchmark import AUTHORS_URL, BENCHMARKING_GNNS, BENCHMARKS, Benchmark, graph_random, hdf5_files, recipe
from egt.data.source import DataCard, TargetSchema
from egt.graph import FeatureSchema, Graph, IntArray

PATTERN = DataCard(
    name="pattern",
    title="PATTERN: find the nodes of a planted pattern in a stochastic block model",
    schema=FeatureSchema(node_categories=(3,)),
    target=TargetSchema("node", "multiclass", ("in_pattern",), 2, ("background", "pattern")),
    split_sizes={"train": 10_000, "val": 2_000, "test": 2_000},
    num_nodes=(44, 118.9, 188),
    mean_edges=6_098.9,
    license="MIT",
    citation=BENCHMARKING_GNNS,
    target_meaning="whether the node belongs to the planted pattern",
    metric="weighted accuracy",
    vocabulary={"signal": ("0", "1", "2")},
    urls=(AUTHORS_URL,),
)

CLUSTER = replace(
    PATTERN,
    name="cluster",
    title="CLUSTER: semi-supervised communities of a stochastic block model",
    schema=FeatureSchema(node_categories=(7,)),
    target=TargetSchema("node", "multiclass", ("cluster",), 6),
    split_sizes={"train": 10_000, "val": 1_000, "test": 1_000},
    num_nodes=(41, 117.2, 190),
    mean_edges=4_303.9,
    target_meaning="the community of the node; one node of each community carries its number as input",
    vocabulary={"signal": ("none", *(f"community {number}" for number in range(6)))},
)

PATTERN_SEED = 1713
"""The first seed whose 100 patterns have 2,099 nodes in all, as those of the published set do (209,900 pattern nodes in
10,000 graphs); the share of pattern nodes depends on the patterns drawn."""

CLUSTER_SEED = 0
_COMMUNITY_SIZE = (5, 35)  # from 5 to 34 nodes
_NUM_PATTERNS = 100
_NUM_SIGNALS = 3
_PATTERN_NODES = range(44, 189)
_CLUSTER_NODES = range(41, 191)


def pattern_graph(seed: int, split: str, number: int) -> Graph:
    """Return one graph of PATTERN.

    Five communities (edge probability 0.5 inside, 0.35 between) and one of 100 fixed patterns, each node of which is
    joined to each other node with probability 0.5. Graph k has pattern k mod 100, so the first graphs are as balanced
    as the whole set. A draw outside the published range of 44 to 188 nodes is repeated.
    """
    random = graph_random(seed, split, number)
    pattern, signals_inside = _patterns(seed)[number % _NUM_PATTERNS]
    inside = len(pattern)
    while True:
        community = _communities(random, 5)
        if len(community) + inside in _PATTERN_NODES:
            break
    outside = len(community)
    edges = np.zeros((outside + inside,) * 2, dtype=bool)
    edges[:outside, :outside] = _block_edges(random, community, same=0.5, other=0.35)
    edges[outside:, outside:] = pattern
    edges[:outside, outside:] = random.random((outside, inside)) < 0.5
    edges[outside:, :outside] = edges[:outside, outside:].T
    signals = np.concatenate([random.integers(_NUM_SIGNALS, size=outside), signals_inside])
    label = np.repeat([0.0, 1.0], [outside, inside])
    return _shuffle(random, edges, signals, label, f"{split}/{number}")


def cluster_graph(seed: int, split: str, number: int) -> Graph:
    """Return one graph of CLUSTER.

    Six communities (edge probability 0.55 inside, 0.25 between); one node of community r has the signal r + 1, all
    others 0. A draw outside the published range of 41 to 190 nodes is repeated.
    """
    random = graph_random(seed, split, number)
    while True:
        community = _communities(random, 6)
        if len(community) in _CLUSTER_NODES:
            break
    edges = _block_edges(random, community, same=0.55, other=0.25)
    signals = np.zeros(len(community), dtype=np.int64)
    for r in range(6):
        signals[random.choice(np.flatnonzero(community == r))] = r + 1
    return _shuffle(random, edges, signals, community.astype(np.float64), f"{split}/{number}")


@lru_cache(maxsize=4)
def _patterns(seed: int) -> list[tuple[NDArray[np.bool_], IntArray]]:
    """Return the 100 patterns of a data set: (n, n) symmetric edges and (n,) signals of the nodes."""
    random = np.random.default_rng(np.random.SeedSequence(seed))
    patterns = []
    for _ in range(_NUM_PATTERNS):
        size = int(random.integers(*_COMMUNITY_SIZE))
        edges = _block_edges(random, np.zeros(size, dtype=np.int64), same=0.5, other=0.0)
        patterns.append((edges, random.integers(_NUM_SIGNALS, size=size)))
    return patterns


def _communities(random: np.random.Generator, count: int) -> IntArray:
    """(N,) the community of each node; sizes are uniform in 5..34."""
    return np.repeat(np.arange(count), random.integers(*_COMMUNITY_SIZE, size=count))


def _block_edges(random: np.random.Generator, community: IntArray, *, same: float, other: float) -> NDArray[np.bool_]:
    """(N, N) symmetric edges without loops: probability `same` inside a community, `other` between two."""
    probability = np.where(community[:, None] == community[None, :], same, other)
    upper = np.triu(random.random(probability.shape) < probability, k=1)
    return upper | upper.T


def _shuffle(
    random: np.random.Generator,
    edges: NDArray[np.bool_],
    signals: IntArray,
    labels: NDArray[np.float64],
    name: str,
) -> Graph:
    """Return the graph with its nodes in random order."""
    order = random.permutation(len(signals))
    return Graph(
        num_nodes=len(order),
        edge_index=np.stack(np.nonzero(edges[np.ix_(order, order)])),
        node_categories=signals[order],
        node_targets=labels[order],
        id=name,
    )


_MADE_BY = "stochastic block model of the benchmark"

BENCHMARKS.register("pattern")(
    Benchmark(PATTERN, hdf5_files(PATTERN), recipe(PATTERN, pattern_graph, PATTERN_SEED, _MADE_BY))
)

BENCHMARKS.register("cluster")(
    Benchmark(CLUSTER, hdf5_files(CLUSTER), recipe(CLUSTER, cluster_graph, CLUSTER_SEED, _MADE_BY))
)
