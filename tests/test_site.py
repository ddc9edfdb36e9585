"""The documentation site: every page is in it, its reference says what the code does, it works without a network."""

from __future__ import annotations

import inspect
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

from egt.registry import Section

ROOT = Path(__file__).resolve().parents[1]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
REFERENCE = runpy.run_path(str(ROOT / "docs/reference.py"))
WRITTEN = ["*.md", "docs/*.md", "examples/*.ipynb", "benchmarks/README.md", "benchmarks/results/*.md"]
ON_A_FORGE = {"CODE_OF_CONDUCT.md", "SECURITY.md"}


def navigation(part: object) -> Iterator[str]:
    """The files that a part of the navigation lists."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, list | dict):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from navigation(inner)


def test_the_navigation_lists_every_page_once() -> None:
    _, nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")
    listed = list(navigation(yaml.safe_load(nav)))
    written = {path.relative_to(ROOT).as_posix() for pattern in WRITTEN for path in ROOT.glob(pattern)}
    made = {"docs/python.md"}  # while the site is built
    assert (written - ON_A_FORGE) | made <= set(listed), "list the new page under `nav` in mkdocs.yml"
    assert len(set(listed)) == len(listed)
    assert all((ROOT / path).exists() for path in set(listed) - made)


@pytest.mark.parametrize("page", ["options", "settings", "results"])
def test_the_reference_is_in_step_with_the_code(page: str) -> None:
    assert (ROOT / f"docs/{page}.md").read_text() == REFERENCE[f"{page}_page"](), "run `make reference`"


def explained(section: type[Section]) -> set[str]:
    """The settings that the docstring of a section names."""
    doc = inspect.getdoc(section) or ""
    return set(REFERENCE["described"](doc, "Fields")) | set(re.findall(r"`(\w+)`", doc)) | {"kind"}


def test_every_setting_is_explained() -> None:
    unexplained = [
        f"{section.__name__}.{name}"
        for sections in REFERENCE["homes"]()
        for section in REFERENCE["kinds"](sections)
        for name in section.model_fields.keys() - explained(section) - explained(sections[0])
    ]
    assert unexplained == [], "name it in the docstring of its section"


def test_the_reference_holds_values_and_defaults() -> None:
    page = REFERENCE["settings_page"]()
    assert "\n- `lr` (number, above 0; default `0.0005`): " in page
    assert "\n- `readout` ([`model.readout`](#modelreadout); default `mean`): " in page
    assert "\n  - `rank` (whole number, above 0, at most 2048; default `8`)" in page
    assert '\n- `layout` (`auto`, `packed`, `padded`, `edge_list`; default `"auto"`): ' in page
    assert "\n- `WHAT` (text; required): A preset" in REFERENCE["options_page"]()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it, except that its notebooks are not run."""
    pytest.importorskip("mkdocs", reason='no MkDocs: pip install ".[docs]"')
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "EGT_DOCS_EXECUTE": "false"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_no_link_of_the_site_is_broken(site: Path) -> None:
    pages = {path: path.read_text() for path in site.rglob("*.html")}
    places = {path: set(re.findall(r'\bid="?([^"\s>]+)', text)) for path, text in pages.items()}
    broken = []
    for page, text in pages.items():
        for target in re.findall(r'\b(?:href|src)="([^"]*)"', text):
            path, _, place = unquote(target).partition("#")
            end = (page.parent / path).resolve() if path else page
            if re.match(r"[a-z]+:", target) or page.name == "404.html":
                continue
            if not end.is_file() or (place and end in places and place not in places[end]):
                broken.append(f"{page.relative_to(site)}: {target}")
    assert broken == []
    assert len(pages) > 30


@pytest.fixture
def page() -> Iterator[Any]:
    """A page of a browser, 1280 pixels wide."""
    if BROWSER is None:
        pytest.skip("no browser: install chromium to try the site")
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        yield page
        browser.close()


@pytest.mark.slow
def test_the_site_is_searched_in_a_browser_without_a_network(site: Path, page: Any) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if "query" in message.text.lower() else None)
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("/")
    page.keyboard.type("--folds")  # dashes are no operators here
    page.locator(".md-search-result__link", has_text="Cross-validation: --folds K").first.wait_for(timeout=60_000)
    page.locator(".md-search__input").fill("")
    page.keyboard.type("ema_decay")
    found = page.locator(".md-search-result__link", has_text="Settings of a run").first
    found.wait_for(timeout=60_000)
    found.click()
    page.locator("h1", has_text="Settings of a run").wait_for(timeout=60_000)
    assert complaints == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.slow
def test_no_line_of_code_is_cut_off(site: Path, page: Any) -> None:
    for name in ("uncertainty", "commands", "data"):
        page.goto((site / f"docs/{name}.html").as_uri())
        wide = page.evaluate(
            "[...document.querySelectorAll('pre > code')].filter(code => code.scrollWidth > code.clientWidth + 1)"
            ".map(code => code.textContent)"
        )
        assert wide == [], name
