from __future__ import annotations

import numpy as np
import pytest

from egt.sources.custom.cells import column_of_texts


def test_numbers_with_missing_cells() -> None:
    np.testing.assert_equal(column_of_texts([" 1.5", "NA", "-2e3", ""]), [1.5, np.nan, -2000.0, np.nan])
    np.testing.assert_equal(column_of_texts(["0", "0.50", "-0", "10"]), [0, 0.5, 0, 10])


@pytest.mark.parametrize("cells", [["True", "False", ""], ["TRUE", "false", "NA"], ["true", "FALSE", "None"]])
def test_true_and_false_are_one_and_zero_however_they_are_written(cells: list[str]) -> None:
    np.testing.assert_equal(column_of_texts(cells), [1, 0, np.nan])


@pytest.mark.parametrize(
    "cells",
    [
        ["007", "042"],  # leading zeros
        ["9007199254740993", "9007199254740992"],  # two names, one float64
        ["1" + "0" * 400, "2"],
        ["true", "1"],
        ["1,5", "2,5"],
    ],
)
def test_what_a_number_would_spoil_stays_a_text(cells: list[str]) -> None:
    assert column_of_texts(cells).tolist() == cells


def test_large_round_numbers_are_numbers() -> None:
    assert column_of_texts(["10000000000000000000", "1"]).tolist() == [1e19, 1.0]


def test_a_decimal_comma_where_the_comma_is_free() -> None:
    np.testing.assert_equal(column_of_texts(["1,5", "-2", "", "3,25e2"], decimal_comma=True), [1.5, -2, np.nan, 325])
    assert column_of_texts(["1,5", "1.5"], decimal_comma=True).tolist() == ["1,5", "1.5"], "two spellings: no guess"
