"""How the edge channel changes, on vectors whose lengths are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from egt.explain.analysis import EdgeEvolution, pair_hops
from tests.explain.by_hand import attention, chain


def test_norm_change_and_likeness_of_each_kind_of_pair() -> None:
    found = attention(chain(3), np.full((1, 1, 3, 3), 1 / 3))
    edges = np.zeros((2, 9, 2), np.float32)
    edges[0, :, 0] = 2.0
    edges[1] = edges[0]
    edges[1, [1, 3, 5, 7]] = [0.0, 3.0]  # edges turn by a right angle, and grow
    edges[1, [2, 6]] = [4.0, 0.0]  # other pairs grow
    found = replace(found, edges=edges)
    evolution = EdgeEvolution(1)
    evolution.add(found, pair_hops(found))
    table = evolution.columns()
    assert table["pairs"] == ["self", "edge", "other"] * 2
    assert table["norm"] == pytest.approx([2, 2, 2, 2, 3, 4])
    assert table["change"] == pytest.approx([0, 0, 0, 0, np.sqrt(13) / 2, 1])
    assert table["likeness_to_input"] == pytest.approx([1, 1, 1, 1, 0, 1])
