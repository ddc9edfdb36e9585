"""Trials in a table: values as people write them."""

from __future__ import annotations

import pytest

from egt.tuning.study import Tried, text, trial_rows


@pytest.mark.parametrize(
    ("value", "expected"), [(1024, "1024"), (0.00051234, "0.000512"), (0.0, "0"), ("mean", "mean")]
)
def test_values(value: float | str, expected: str) -> None:
    assert text(value) == expected


def test_a_trial_without_a_score_has_an_empty_cell() -> None:
    trials = [Tried(0, {"width": 1024, "lr": 0.001}, "done", 0.5, 2, 1.0), Tried(1, {"width": 512}, "open", None, 0, 0)]
    columns, rows = trial_rows(trials, best=0)
    assert columns == ["trial", "width", "lr", "validation", "epochs", "how it ended"]
    assert rows == [["0", "1024", "0.001", "0.5", "2", "done, default, best"], ["1", "512", "", "", "0", "open"]]
    assert trials[0].words == "width 1024, lr 0.001"
