"""The page of an analysis in a real browser: its script runs to the end and draws everything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from egt.analysis.analysis import analyze
from egt.analysis.analysis_page import analysis_page
from tests.analysis.by_hand import attention, chain
from tests.reporting.test_browser import BROWSER, ask


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no browser: install chromium to look at the page")
@pytest.mark.parametrize("width", [1280, 500])
def test_everything_is_drawn_on_a_wide_and_on_a_narrow_screen(width: int, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    S = random.random((3, 4, 9, 9))
    found = attention(chain(7), S / S.sum(-1, keepdims=True), gates=random.random(S.shape), num_virtual=2)
    page = analysis_page(analyze([found]), "tiny", "a chain", "egt analyze tiny")
    seen = ask(page, tmp_path, width)
    assert seen["page"] <= seen["width"], f"the page is wider than a window of {width}"
    assert len(seen["charts"]) == 3  # hops, and two of the edge channel
    assert all(chart_width > 100 for chart_width, _, _ in seen["charts"])
    assert seen["tables"] == [3, 3, 3, 3]  # a heat map for each number: a row per layer
    assert len(seen["captions"]) == 6
