"""An analysis of many graphs keeps those that are shown, and says what it cannot do."""

from __future__ import annotations

import numpy as np
import pytest

from egt.errors import DataError
from egt.explain.analysis import analyze
from tests.explain.by_hand import attention, chain


def test_rows_that_could_not_be_read_are_counted_and_shown_ones_kept() -> None:
    found = [attention(chain(size, id=f"{size}"), np.full((1, 1, size, size), 1 / size)) for size in (2, 3)]
    analysis = analyze([found[0], None, found[1]], show=(2,))
    assert (analysis.graphs, analysis.unread) == (2, 1)
    assert {row: each.graph.id for row, each in analysis.shown.items()} == {2: "3"}
    for wrong in (7, -1, 1):
        with pytest.raises(DataError, match=rf"--show.*{wrong}.*0\.\.2"):
            analyze([found[0], None, found[1]], show=(2, wrong))
    assert {*analyze([None, found[0], found[1]]).shown} == {1}  # the first that could be read
    with pytest.raises(DataError, match="no graph"):
        analyze([None])
