"""Answers added up one after another, or in parts, have the mean and the deviation of all of them."""

from __future__ import annotations

import numpy as np

from egt.inference.uncertainty import Spread

VALUES = np.random.default_rng(0).normal(1e4, 1.0, size=(7, 3, 2)).astype(np.float32)


def test_one_after_another_is_all_at_once() -> None:
    total = Spread.of(VALUES[0])
    for value in VALUES[1:]:
        total = total + Spread.of(value)
    exact = VALUES.astype(np.float64)
    assert total.count == 7
    np.testing.assert_allclose(total.mean, exact.mean(0), rtol=1e-12)
    np.testing.assert_allclose(total.std, exact.std(0, ddof=1), rtol=1e-9)


def test_parts_of_unequal_size_are_weighed_by_it() -> None:
    exact = VALUES.astype(np.float64)
    parts = [Spread.of(part.mean(0), part.std(0, ddof=1), len(part)) for part in (exact[:2], exact[2:])]
    total = parts[0] + parts[1]
    np.testing.assert_allclose(total.mean, exact.mean(0), rtol=1e-12)
    np.testing.assert_allclose(total.std, exact.std(0, ddof=1), rtol=1e-9)
