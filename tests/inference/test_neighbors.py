"""Neighbors are the nearest by Euclidean distance, in order."""

from __future__ import annotations

import numpy as np

from egt.inference import neighbors
from egt.inference.neighbors import TrainingRows


def test_the_nearest_come_first_and_equal_rows_are_at_no_distance() -> None:
    random = np.random.default_rng(0)
    known = random.normal(100, 1, (50, 8)).astype(np.float32)
    asked = np.concatenate([known[[7, 30]], random.normal(100, 1, (600, 8)).astype(np.float32)])
    assert len(asked) > 2 * neighbors._ROWS_AT_ONCE
    numbers, distances = TrainingRows(known, [str(k) for k in range(50)]).nearest(asked, 5)
    exact = np.linalg.norm(asked[:, None].astype(np.float64) - known[None], axis=2)
    np.testing.assert_array_equal(numbers, np.argsort(exact, axis=1)[:, :5])
    np.testing.assert_allclose(distances, np.sort(exact, axis=1)[:, :5], rtol=1e-5)
    assert numbers[:2, 0].tolist() == [7, 30]
    assert distances[:2, 0].tolist() == [0, 0]


def test_no_more_neighbors_than_there_are() -> None:
    rows = np.eye(3, dtype=np.float32)
    numbers, _ = TrainingRows(rows, list("abc")).nearest(rows[:1], 10)
    assert sorted(numbers[0].tolist()) == [0, 1, 2]
