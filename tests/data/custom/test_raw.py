from __future__ import annotations

import numpy as np

from egt.data.columns import Column, column_of_values, encode_target


def column(*values: object) -> Column:
    return column_of_values(list(values), "test")


def test_encoding_keeps_missing_and_reports_strange_values() -> None:
    encoded, strange = encode_target(column("b", None, "a", "z"), ["a", "b"])
    np.testing.assert_equal(encoded, [1.0, np.nan, 0.0, np.nan])
    assert strange == ["z"]
    encoded, strange = encode_target(column("1.5", "<5"), [])
    np.testing.assert_equal(encoded, [1.5, np.nan])
    assert strange == ["<5"]
