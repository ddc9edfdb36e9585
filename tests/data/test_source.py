from __future__ import annotations

import numpy as np
import pytest

from egt.data.source import check_split, rows_of
from egt.errors import DataError


def test_the_rows_of_a_split_are_plain_numbers_in_its_order() -> None:
    rows = rows_of({"train": np.array([4, 0, 2]), "val": np.zeros(0, dtype=np.int64)}, "train", "zinc")
    assert rows == [4, 0, 2]
    assert all(type(row) is int for row in rows)
    assert rows_of({"val": np.zeros(0, dtype=np.int64)}, "val", "zinc") == []


def test_a_split_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(DataError, match="'valid'"):
        rows_of({"train": np.arange(2), "val": np.arange(1)}, "valid", "zinc")
    check_split("val", ("train", "val"), "zinc")
