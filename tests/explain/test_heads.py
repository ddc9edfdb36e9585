"""How selective heads are, on matrices whose entropy, sparsity and gates are known."""

from __future__ import annotations

import numpy as np
import pytest

from egt.explain.analysis import HeadStatistics
from tests.explain.by_hand import attention, chain


def test_entropy_sparsity_and_gates() -> None:
    even, single = np.full((4, 4), 0.25), np.eye(4)
    gates = np.stack([np.full((4, 4), 0.2), np.full((4, 4), 0.8)])
    heads = HeadStatistics(1, 2)
    heads.add(attention(chain(4), [[even, single]], gates[None]))
    assert heads.attended[0] == pytest.approx([4, 1])
    assert heads.mean_entropy[0] == pytest.approx([np.log(4), 0], abs=1e-6)
    assert heads.sparsity[0] == pytest.approx([0, 0.75])
    assert heads.gate_density[0] == pytest.approx([0.2, 0.8])
    table = heads.columns((0,), np.array([[1.5, 0.0]]))
    assert table["layer"] == [1, 1]
    assert table["head"] == [1, 2]
    assert table["open_gates"] == pytest.approx([0, 1])
    assert table["scaler"] == pytest.approx([1, 1])


def test_virtual_nodes_are_looked_at_but_do_not_look() -> None:
    S = np.full((1, 1, 3, 3), 1 / 3)
    S[0, 0, 0] = [1, 0, 0]  # would lower the mean entropy
    heads = HeadStatistics(1, 1)
    heads.add(attention(chain(2), S, num_virtual=1))
    assert heads.attended[0, 0] == pytest.approx(3)
    assert heads.pairs == 6
