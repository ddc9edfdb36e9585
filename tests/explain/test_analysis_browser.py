"""The page of an analysis in a real browser: its script runs to the end and draws everything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egt.explain.analysis import analyze
from egt.explain.analysis_page import analysis_page
from egt.explain.explanation import explain
from egt.explain.explanation_page import drawing, explanation_page
from tests.explain.by_hand import attention, chain
from tests.explain.synthetic import tree, untrained
from tests.paper.test_report_browser import BROWSER, ask


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
    assert seen["tables"] == [4, 4, 4, 4]  # a heat map for each number: the heads, then a row per layer
    assert len(seen["captions"]) == 7


@pytest.mark.skipif(BROWSER is None, reason="no browser: install chromium to look at the page")
def test_the_matrix_answers_to_the_keyboard_and_cosines_below_0_are_drawn(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    found = attention(chain(3), [[np.eye(3)]])
    edges = np.stack([found.edges[0], -found.edges[0]])  # turned around by the layer
    page = analysis_page(analyze([replace(found, edges=edges)]), "tiny", "a chain", "egt analyze tiny")
    (tmp_path / "page.html").write_text(page)
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page()
        opened.goto((tmp_path / "page.html").as_uri())
        opened.locator("canvas").first.press("ArrowDown")
        assert opened.locator(".note").first.text_content() == "node 1 looks at node 0: 0.00"
        opened.locator("canvas").first.press("ArrowRight")
        assert opened.locator(".note").first.text_content() == "node 1 looks at node 1: 1.00"
        opened.locator("canvas").first.press("ArrowUp")
        opened.locator("canvas").first.press("ArrowUp")  # there is nothing above
        assert opened.locator(".note").first.text_content() == "node 0 looks at node 1: 0.00"
        titles = opened.locator("#edges title").all_text_contents()
        names = opened.locator("#hops figcaption span").all_inner_texts()
        heads = opened.locator("#heads thead").first.locator("th").all_inner_texts()
        scale, axes = opened.locator(".scale span").all_inner_texts(), opened.locator("#graph .note").last.inner_text()
        browser.close()
    assert "edges, 1: -1" in titles
    assert [name[2:] for name in names] == ["layer 1", "even"]
    assert heads == ["layer \\ head", "1"]
    assert scale == ["0.0", "1.0"]
    assert axes == "Rows from the top: who looks; columns from the left: who is looked at; nodes 0 to 2."


@pytest.mark.skipif(BROWSER is None, reason="no browser: install chromium to look at the page")
def test_an_explanation_fits_a_phone(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    found = explain(untrained(), [replace(tree(0), id="C" * 120)], draws=5)
    page = explanation_page(found, {method: drawing(found, method) for method in found.importance}, "egt explain")
    (tmp_path / "page.html").write_text(page)
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page(viewport={"width": 390, "height": 800})
        opened.goto((tmp_path / "page.html").as_uri())
        width = opened.evaluate("document.documentElement.scrollWidth")
        table, holder = (
            opened.evaluate(f"document.querySelector('{place}').scrollWidth") for place in (".wide", "body")
        )
        browser.close()
    assert width <= 390
    assert table <= holder
