from __future__ import annotations

import numpy as np
import pytest

from egt.data.custom_source import merge_edges


def test_undirected_edges_listed_once_get_their_opposite() -> None:
    merged = merge_edges(np.array([[0, 1, 2], [1, 2, 2]]), np.array([5.0, 6.0, 7.0]), 3, directed=False)
    assert merged.index.tolist() == [[0, 1, 2, 1, 2], [1, 2, 2, 0, 1]], "a self-loop stays one edge"
    assert merged.rows.tolist() == [0, 1, 2, 0, 1]
    assert merged.weight is not None
    assert merged.weight.tolist() == [5, 6, 7, 5, 6]
    assert merged.num_merged == 0


def test_undirected_edges_listed_in_both_directions_are_not_parallel() -> None:
    merged = merge_edges(np.array([[1, 0], [0, 1]]), np.array([2.0, 2.0]), 2, directed=False)
    assert merged.index.tolist() == [[1, 0], [0, 1]]
    assert merged.weight is not None
    assert merged.weight.tolist() == [2, 2]
    assert merged.num_merged == 0


@pytest.mark.parametrize("directed", [True, False])
def test_parallel_edges_are_merged(directed: bool) -> None:
    merged = merge_edges(np.array([[1, 0, 1], [2, 1, 2]]), np.array([1.0, 2.0, 4.0]), 3, directed=directed)
    assert merged.index[:, :2].tolist() == [[1, 0], [2, 1]], "in the order of the list"
    assert merged.rows[:2].tolist() == [0, 1]
    assert merged.weight is not None
    assert merged.weight[:2].tolist() == [5, 2]
    assert merged.num_merged == 1
    assert merged.index.shape[1] == (2 if directed else 4)
