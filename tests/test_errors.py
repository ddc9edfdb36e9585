"""Numbers in messages agree with their nouns."""

from __future__ import annotations

import pytest

from egt.errors import counted


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 rows"), (1, "1 row"), (1.0, "1 row"), (2, "2 rows"), (20000, "20,000 rows")]
)
def test_a_number_agrees_with_its_noun(number: float, text: str) -> None:
    assert counted(number, "row") == text
