"""Neighbors are drawn evenly, as many as asked for, and the same for the same seed; pairs are those between them."""

from __future__ import annotations

import numpy as np

from egt.data.batching.pieces import ALL
from egt.data.encodings.loops import draw_neighborhood, inner_pairs
from egt.graph import Graph, IntArray

STAR = Graph.undirected(num_nodes=12, edge_index=[[0] * 10, list(range(1, 11))])
"""Node 0 has ten neighbors, and node 11 none."""
PATH = Graph.undirected(num_nodes=6, edge_index=[list(range(5)), list(range(1, 6))])


def _lists(graph: Graph) -> tuple[IntArray, IntArray]:
    i, j = graph.listed_pairs
    return np.searchsorted(i, np.arange(graph.num_nodes + 1)), np.ascontiguousarray(j)


def _drawn(graph: Graph, roots: list[int], limits: list[int], seed: int = 0) -> list[int]:
    found = draw_neighborhood(*_lists(graph), np.array(roots), np.array(limits), seed)
    nodes: list[int] = found.tolist()
    return nodes


def test_each_hop_goes_one_step_further() -> None:
    assert _drawn(PATH, [2], [ALL]) == [1, 2, 3]
    assert _drawn(PATH, [2], [ALL, ALL]) == [0, 1, 2, 3, 4]
    assert _drawn(PATH, [0, 5], [1]) == [0, 1, 4, 5]


def test_a_limit_is_kept_and_a_node_without_neighbors_stays_alone() -> None:
    for seed in range(20):
        nodes = _drawn(STAR, [0], [3], seed)
        assert len(nodes) == 4
        assert 0 in nodes
        assert 11 not in nodes
    assert _drawn(STAR, [11], [3, 3]) == [11]
    assert _drawn(STAR, [0], [10]) == _drawn(STAR, [0], [ALL]) == list(range(11))


def test_draws_follow_the_seed_and_are_even() -> None:
    draws = [_drawn(STAR, [0], [3], seed) for seed in range(2000)]
    assert draws == [_drawn(STAR, [0], [3], seed) for seed in range(2000)]
    counts = np.bincount(np.concatenate(draws), minlength=12)[1:11]
    # Each neighbor comes with chance 0.3: 600 times, with a deviation of 20.5.
    assert np.abs(counts - 600).max() < 85


def test_inner_pairs_are_those_between_the_nodes() -> None:
    nodes = np.array([0, 1, 3, 4])
    rows = inner_pairs(*_lists(PATH), nodes)
    pairs = PATH.listed_pairs
    expected = [k for k, (i, j) in enumerate(pairs.T.tolist()) if i in nodes and j in nodes]
    assert rows.tolist() == expected
    assert {tuple(pair) for pair in pairs[:, rows].T.tolist()} == {
        (0, 0), (0, 1), (1, 0), (1, 1), (3, 3), (3, 4), (4, 3), (4, 4),
    }  # fmt: skip
