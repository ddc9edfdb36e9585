"""Runs over the same graphs become one: means and deviations, and reasons where one of them has no answer."""

from __future__ import annotations

import numpy as np
import pytest

from egt.inference.answering import Answer, pool


def answer(value: float, std: float | None = None) -> Answer:
    pairs = np.array([[0], [1]])
    return np.array([[value]], np.float32), pairs, None if std is None else np.array([[std]], np.float32)


def test_the_mean_and_the_deviation_over_runs() -> None:
    found = pool(iter([[answer(1), "too large"], [answer(2), "too large"], [answer(6), "too large"]]))
    assert found[1] == "too large"
    assert not isinstance(found[0], str)
    values, pairs, std = found[0]
    assert pairs is not None
    assert (values.item(), pairs.tolist()) == (3.0, [[0], [1]])
    assert std is not None
    assert std.item() == pytest.approx(np.std([1, 2, 6], ddof=1))


def test_runs_that_are_means_of_draws_count_as_their_draws() -> None:
    draws = np.array([[1.0, 4.0], [2.0, 9.0]])
    found = pool([[answer(row.mean(), row.std(ddof=1))] for row in draws], count=2)[0]
    assert not isinstance(found, str)
    assert found[2] is not None
    assert found[0].item() == pytest.approx(4.0)
    assert found[2].item() == pytest.approx(draws.std(ddof=1))
