"""Neighbors are the nearest by Euclidean distance, in order."""

from __future__ import annotations

import numpy as np

from egt.inference import neighbors
from egt.inference.neighbors import KnownRows, _Draw


def test_the_nearest_come_first_and_equal_rows_are_at_no_distance() -> None:
    random = np.random.default_rng(0)
    known = random.normal(100, 1, (50, 8)).astype(np.float32)
    asked = np.concatenate([known[[7, 30]], random.normal(100, 1, (600, 8)).astype(np.float32)])
    assert len(asked) > 2 * neighbors._ROWS_AT_ONCE
    numbers, distances = KnownRows(known, [str(k) for k in range(50)], np.zeros((0, 50))).nearest(asked, 5)
    exact = np.linalg.norm(asked[:, None].astype(np.float64) - known[None], axis=2)
    np.testing.assert_array_equal(numbers, np.argsort(exact, axis=1)[:, :5])
    np.testing.assert_allclose(distances, np.sort(exact, axis=1)[:, :5], rtol=1e-5)
    assert numbers[:2, 0].tolist() == [7, 30]
    assert distances[:2, 0].tolist() == [0, 0]


def test_no_more_neighbors_than_there_are() -> None:
    rows = np.eye(3, dtype=np.float32)
    numbers, _ = KnownRows(rows, list("abc"), np.zeros((0, 3))).nearest(rows[:1], 10)
    assert sorted(numbers[0].tolist()) == [0, 1, 2]


def test_a_draw_is_bounded_even_and_keeps_rows_with_their_places() -> None:
    draw = _Draw(500)
    for graph in range(100):
        draw.add(np.arange(100)[:, None] + 100 * graph, np.full(100, graph), np.arange(100))
        assert draw._num_kept <= 1000
    rows, graphs, places = draw.finish()
    assert (draw.seen, len(rows), len({*rows[:, 0].tolist()})) == (10_000, 500, 500)
    np.testing.assert_array_equal(rows[:, 0], graphs * 100 + places)
    assert abs(graphs.mean() - 49.5) < 6  # neither the first nor the last graphs only
