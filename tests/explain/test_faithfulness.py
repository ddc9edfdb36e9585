"""The score of faithfulness: what it masks, and when it says not to believe."""

from __future__ import annotations

import numpy as np
import pytest

from egt.explain.importance import Faithfulness, most_important


def score(top: float, random: list[float], untrained: float = 0.0) -> Faithfulness:
    return Faithfulness("nodes", "nodes", 2, 10, top, np.array(random), untrained)


def test_score_and_interval() -> None:
    found = score(3.0, [1.0, 2.0])
    assert found.score == pytest.approx(1.5)
    assert found.interval == pytest.approx((1.05, 1.95))
    assert not found.doubts


def test_random_parts_that_do_as_well_are_a_doubt() -> None:
    [doubt] = score(1.0, [0.5, 1.5]).doubts
    assert (
        doubt == "masking 2 other nodes at random moves the prediction as much as masking the top 2 in 50% of the draws"
    )


def test_an_untrained_model_that_moves_as_much_is_a_doubt() -> None:
    assert not score(1.0, [0.1] * 9, untrained=0.4).doubts
    [doubt] = score(1.0, [0.1] * 9, untrained=0.6).doubts
    assert "an untrained model moves by up to 0.6" in doubt


def test_numbers_that_are_none_prove_nothing() -> None:
    assert len(score(np.nan, [np.nan, np.nan], untrained=np.nan).doubts) == 2


def test_too_few_parts() -> None:
    assert Faithfulness("edges", "edges", 1, 1, 0.0, np.zeros(1), 0.0).doubts == ["there are too few edges to compare"]


def test_parts_that_push_in_opposite_directions_are_not_masked_together() -> None:
    assert set(most_important(np.array([1.0, -2.0, 0.0, 3.0]), 2)) == {0, 3}
    assert set(most_important(np.array([1.0, -2.0, -3.0, 0.1]), 2)) == {1, 2}
