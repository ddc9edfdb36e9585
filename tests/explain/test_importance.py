"""Importance by hand: rollout on known matrices, integrated gradients that add up."""

from __future__ import annotations

import numpy as np
import pytest

from egt.explain.importance import Importance, edges_of, readers_of, rollout
from egt.graph import Graph
from tests.explain.by_hand import attention, chain


def test_rollout_follows_attention_back_through_gates() -> None:
    # Layer 1: node 1 looks at node 2 only. Layer 2: node 0 looks at node 1 only, through a gate of one half.
    first, second = np.eye(3), np.eye(3)
    first[1] = [0, 0, 1]
    second[0] = [0, 1, 0]
    found = attention(chain(3), [[first], [second]], gates=np.stack([[np.ones((3, 3))], [np.full((3, 3), 0.5)]]))
    nodes = rollout(found, np.array([1.0, 0, 0])).nodes
    # Layer 2 hands node 0 two thirds of itself and one third of node 1, which is half itself and half node 2.
    assert nodes == pytest.approx([2 / 3, 1 / 6, 1 / 6])
    pairs = rollout(found, np.array([1.0, 0, 0])).pairs.reshape(3, 3)
    assert pairs[0, 1] == pytest.approx(1 / 3)
    assert pairs[1, 2] == pytest.approx(1 / 6)
    assert pairs.sum() == pytest.approx(1 / 2)


def test_a_closed_gate_lets_nothing_pass() -> None:
    found = attention(chain(2), np.full((1, 1, 2, 2), 0.5), gates=0.0)
    assert rollout(found, np.array([1.0, 0])).nodes.tolist() == [1, 0]


def test_what_is_read_at_the_end() -> None:
    found = attention(chain(2), np.full((1, 1, 4, 4), 0.25), num_virtual=2)
    pairs = np.array([[0, 1], [1, 1]])
    assert readers_of(found, "graph", 0, pairs).tolist() == [0.5, 0.5, 0, 0]
    assert readers_of(found, "node", 1, pairs).tolist() == [0, 0, 0, 1]
    assert readers_of(found, "edge", 0, pairs).tolist() == [0, 0, 0.5, 0.5]
    plain = attention(chain(2), np.full((1, 1, 2, 2), 0.5))
    assert readers_of(plain, "graph", 0, pairs).tolist() == [0.5, 0.5]


def test_an_edge_is_both_of_its_directions() -> None:
    graph = Graph(num_nodes=3, edge_index=[[1, 0, 2], [0, 1, 1]])
    index = np.stack(np.divmod(np.arange(9), 3))
    edges, members = edges_of(graph, index)
    assert edges.tolist() == [[0, 1], [1, 2]]
    assert members.tolist() == [-1, 0, -1, 0, -1, 1, -1, 1, -1]
    found = Importance("by hand", np.zeros(3), np.arange(9.0), signed=False)
    assert found.of_edges(members).tolist() == [1 + 3, 5 + 7]
