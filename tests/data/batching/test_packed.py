"""Where nodes and pairs stand in the packed layout, by plain loops."""

from __future__ import annotations

import pytest
import torch

from egt.data.batching.layout import Packed

SIZES = [3, 3, 1, 4, 3]


def places(sizes: list[int]) -> list[tuple[int, int, int]]:
    return [(b, i, j) for b, n in enumerate(sizes) for i in range(n) for j in range(n)]


def test_pairs_stand_graph_by_graph_and_row_by_row() -> None:
    index = Packed(SIZES).pair_indices
    assert list(zip(index.graph.tolist(), index.i.tolist(), index.j.tolist(), strict=True)) == places(SIZES)


@pytest.mark.parametrize("num_virtual", [0, 1, 2])
def test_virtual_nodes_come_first_and_the_others_keep_their_order(num_virtual: int) -> None:
    wide, nodes, pairs = Packed(SIZES).with_virtual(num_virtual)
    new = places([size + num_virtual for size in SIZES])
    moved = [(b, i - num_virtual, j - num_virtual) for b, i, j in (new[row] for row in pairs.tolist())]
    assert moved == places(SIZES)
    own = [(b, i) for b, n in enumerate(SIZES) for i in range(n)]
    at = list(zip(wide.node_indices.graph.tolist(), wide.node_indices.i.tolist(), strict=True))
    assert [(b, i - num_virtual) for b, i in (at[row] for row in nodes.tolist())] == own


@pytest.mark.parametrize("num_virtual", [1, 2])
def test_pairs_with_virtual_nodes_stand_in_front_of_the_others(num_virtual: int) -> None:
    torch.manual_seed(0)
    wide, _, rows = Packed(SIZES).with_virtual(num_virtual)
    x = torch.randn(len(rows), 3, dtype=torch.float64, requires_grad=True)
    table = torch.randn(num_virtual + 1, num_virtual + 1, 3, dtype=torch.float64, requires_grad=True)
    found = wide.with_virtual_pairs(x, table, rows)
    old = dict(zip(rows.tolist(), x.unbind(0), strict=True))
    for row, (_, i, j) in enumerate(places([*wide.sizes])):
        expected = old.get(row, table[min(i, num_virtual), min(j, num_virtual)])
        assert torch.equal(found[row], expected)
    assert torch.autograd.gradcheck(lambda x, table: wide.with_virtual_pairs(x, table, rows), (x, table))
