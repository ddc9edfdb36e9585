from __future__ import annotations

import numpy as np
import pytest

from egt.graph import Graph
from egt.paper.benchmarks.block_models import (
    CLUSTER,
    CLUSTER_SEED,
    PATTERN,
    PATTERN_SEED,
    _patterns,
    cluster_graph,
    pattern_graph,
)


def _labels(graph: Graph) -> np.ndarray:
    assert graph.node_targets is not None
    return graph.node_targets[:, 0].astype(int)


def _density(graphs: list[Graph], same: bool) -> float:
    """The share of existing edges among the pairs with equal (or unequal) labels."""
    edges = pairs = 0
    for graph in graphs:
        label = _labels(graph)
        equal = label[:, None] == label[None, :]
        wanted = (equal if same else ~equal) & ~np.eye(len(label), dtype=bool)
        edges += int((graph.adjacency(self_loops=False).astype(bool) & wanted).sum())
        pairs += int(wanted.sum())
    return edges / pairs


@pytest.fixture(scope="module")
def patterns() -> list[Graph]:
    return [pattern_graph(PATTERN_SEED, "train", number) for number in range(2_000)]


@pytest.fixture(scope="module")
def clusters() -> list[Graph]:
    return [cluster_graph(CLUSTER_SEED, "train", number) for number in range(400)]


def test_the_patterns_of_the_default_seed_have_the_nodes_of_the_published_ones() -> None:
    sizes = [len(pattern[1]) for pattern in _patterns(PATTERN_SEED)]
    assert len(sizes) == 100
    assert sum(sizes) == 2_099
    assert min(sizes) >= 5
    assert max(sizes) <= 34


def test_pattern_has_the_published_range_and_share(patterns: list[Graph]) -> None:
    nodes = np.array([graph.num_nodes for graph in patterns])
    assert nodes.min() >= 44
    assert nodes.max() <= 188
    assert nodes.mean() == pytest.approx(118.9, abs=1.0)
    share = sum(_labels(graph).sum() for graph in patterns) / nodes.sum()
    assert 100 * share == pytest.approx(17.65, abs=0.3)
    assert np.mean([graph.num_edges for graph in patterns]) == pytest.approx(PATTERN.mean_edges, rel=0.03)


def test_pattern_signals_are_uniform_and_the_graph_is_undirected_without_loops(patterns: list[Graph]) -> None:
    signals = np.bincount(np.concatenate([graph.node_categories[:, 0] for graph in patterns]))
    np.testing.assert_allclose(signals / signals.sum(), 1 / 3, atol=0.01)
    for graph in patterns[:20]:
        PATTERN.schema.check(graph)
        assert graph.is_symmetric
        assert (graph.edge_index[0] != graph.edge_index[1]).all()


def test_pattern_nodes_are_joined_to_others_with_probability_one_half(patterns: list[Graph]) -> None:
    assert _density(patterns[:300], same=False) == pytest.approx(0.5, abs=0.01)


def test_graphs_with_the_same_number_modulo_100_carry_the_same_pattern() -> None:
    inside = []
    for number in (3, 103):
        graph = pattern_graph(PATTERN_SEED, "train", number)
        nodes = np.flatnonzero(_labels(graph))
        degrees = graph.adjacency(self_loops=False)[np.ix_(nodes, nodes)].sum(axis=1)
        signals = graph.node_categories[nodes, 0]
        inside.append(sorted(zip(degrees.tolist(), signals.tolist(), strict=True)))
    assert inside[0] == inside[1]


def test_pattern_nodes_are_shuffled(patterns: list[Graph]) -> None:
    positions = np.concatenate([np.flatnonzero(_labels(graph)) / graph.num_nodes for graph in patterns[:300]])
    assert positions.mean() == pytest.approx(0.5, abs=0.02)


def test_cluster_has_the_published_range_and_densities(clusters: list[Graph]) -> None:
    nodes = np.array([graph.num_nodes for graph in clusters])
    assert nodes.min() >= 41
    assert nodes.max() <= 190
    assert nodes.mean() == pytest.approx(117.2, abs=3.0)
    assert _density(clusters, same=True) == pytest.approx(0.55, abs=0.01)
    assert _density(clusters, same=False) == pytest.approx(0.25, abs=0.01)


def test_one_node_of_each_cluster_carries_its_number(clusters: list[Graph]) -> None:
    for graph in clusters[:50]:
        CLUSTER.schema.check(graph)
        assert graph.is_symmetric
        signals = graph.node_categories[:, 0]
        marked = np.flatnonzero(signals)
        assert sorted(signals[marked].tolist()) == [1, 2, 3, 4, 5, 6]
        assert (_labels(graph)[marked] == signals[marked] - 1).all()
        assert np.bincount(_labels(graph)).min() >= 5
        assert np.bincount(_labels(graph)).max() <= 34
