"""The hop profile of attention that is known: every number can be computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from egt.explain.analysis import HopProfile, pair_hops
from egt.graph import Graph
from egt.inference.attention_capture import Attention
from tests.explain.by_hand import attention, chain


def profile(*found: Attention) -> dict[tuple[int, str], tuple[float, float, float]]:
    hops = HopProfile(*found[0].product.shape[:2])
    for each in found:
        hops.add(each, pair_hops(each))
    table = hops.columns(found[0].layers)
    places = zip(table["layer"], table["hop"], strict=True)
    return dict(zip(places, zip(table["product"], table["softmax"], table["even"], strict=True), strict=True))


def test_weights_are_summed_over_a_hop_and_averaged_over_nodes_heads_and_graphs() -> None:
    # Nodes 0 - 1 - 2. Head 1 looks at the node itself; head 2 looks at the next node with 3/4, at itself with 1/4.
    itself = np.eye(3)
    onward = np.array([[0.25, 0.75, 0], [0, 0.25, 0.75], [0.75, 0, 0.25]])  # 2 -> 0 is two hops
    three = attention(chain(3), [[itself, onward]], gates=0.5)
    found = profile(three)
    assert found[1, "0"][:2] == pytest.approx(((1 + 0.25) / 2 / 2, (1 + 0.25) / 2))
    assert found[1, "1"][:2] == pytest.approx((0.75 * 2 / 3 / 2 / 2, 0.75 * 2 / 3 / 2))
    assert found[1, "2"][:2] == pytest.approx((0.75 / 3 / 2 / 2, 0.75 / 3 / 2))
    assert [even for _, _, even in found.values()] == pytest.approx([3 / 9, 4 / 9, 2 / 9])
    alone = attention(chain(1), [[np.ones((1, 1))] * 2], gates=1.0)
    both = profile(three, alone)  # four nodes now: each counts the same, whatever graph it is of
    assert both[1, "0"][0] == pytest.approx((3 * (1 + 0.25) / 2 / 2 + 1) / 4)
    assert both[1, "2"][1] == pytest.approx(0.75 / 4 / 2)


def test_all_softmax_weights_of_a_layer_add_up_to_one() -> None:
    random = np.random.default_rng(0)
    S = random.random((2, 3, 6, 6))
    found = profile(attention(chain(6), S / S.sum(-1, keepdims=True), gates=random.random((2, 3, 6, 6))))
    for layer in (1, 2):
        assert sum(softmax for (number, _), (_, softmax, _) in found.items() if number == layer) == pytest.approx(1)


def test_unreachable_and_virtual_nodes_stand_apart() -> None:
    graph = Graph.undirected(num_nodes=3, edge_index=[[0], [1]])  # node 2 is alone
    S = np.full((1, 1, 4, 4), 0.25)
    S[0, 0, 0] = [0.1, 0.2, 0.3, 0.4]  # the virtual node looks
    found = profile(attention(graph, S, num_virtual=1))
    assert found[1, "0"][0] == pytest.approx(0.25)
    assert found[1, "1"][0] == pytest.approx(2 * 0.25 / 3)
    assert found[1, "unreachable"][0] == pytest.approx((1 + 1 + 2) * 0.25 / 3)
    assert found[1, "to virtual"][0] == pytest.approx(0.25)
    assert found[1, "from virtual"][0] == pytest.approx(1.0)


def test_hops_follow_the_direction_of_edges() -> None:
    found = attention(Graph(num_nodes=3, edge_index=[[0, 1], [1, 2]]), np.full((1, 1, 3, 3), 1 / 3))
    assert pair_hops(found).reshape(3, 3).tolist() == [[0, 1, 2], [255, 0, 1], [255, 255, 0]]


@pytest.mark.parametrize("num_virtual", [0, 1])
def test_the_hops_of_a_list_of_pairs_are_those_of_the_matrix(num_virtual: int) -> None:
    size = 4 + num_virtual
    graph = Graph(num_nodes=4, edge_index=[[0, 1, 3], [1, 2, 0]])  # listed pairs need not be edges
    whole = attention(graph, np.full((1, 1, size, size), 1 / size), num_virtual=num_virtual)
    rows = np.flatnonzero(np.arange(size * size) % 3 != 1)
    index, values = whole.pair_index[:, rows], whole.softmax[..., rows]
    sparse = Attention(graph, (0,), num_virtual, index, values, values, values, whole.scalers, whole.edges[:, rows])
    assert pair_hops(sparse).tolist() == pair_hops(whole)[rows].tolist()
    assert {2, 255} <= {*pair_hops(sparse).tolist()}


def test_reach_is_the_mean_hop_of_the_weight() -> None:
    found = attention(chain(3), [[np.array([[0.5, 0, 0.5], [0, 1, 0], [0, 0, 1]])]])
    hops = HopProfile(1, 1)
    hops.add(found, pair_hops(found))
    assert hops.reach(hops.product)[0, 0] == pytest.approx(0.5 * 2 / 3)
    assert hops.within(hops.product, 1)[0, 0] == pytest.approx(2.5 / 3)
