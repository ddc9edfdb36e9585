"""The page in a real browser: predict, click, slide, upload, sort; nothing is ever printed on its console."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from egt.explain.page.server import Server
from tests.explain.page.conftest import ASPIRIN

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

NOTHING = "\N{EN DASH}"
"""What the page shows where there is no value."""
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser: install chromium to try the page of `egt app`")
SOON = 60_000
"""Milliseconds, on a machine that does other things as well."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    with playwright.sync_playwright() as running:
        launched = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    """The page of the model; at the end its console must be empty."""
    yield from looking(browser, server)


@pytest.fixture
def pair_page(browser: Browser, pair_server: Server) -> Iterator[Page]:
    """The page of two models that read a temperature too."""
    yield from looking(browser, pair_server)


@pytest.fixture
def class_page(browser: Browser, class_server: Server) -> Iterator[Page]:
    """The page of a model of classes."""
    yield from looking(browser, class_server)


def looking(browser: Browser, server: Server) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    opened = context.new_page()
    opened.set_default_timeout(SOON)
    printed: list[str] = []
    opened.on("console", lambda message: printed.append(f"{message.type}: {message.text}"))
    opened.on("pageerror", lambda error: printed.append(str(error)))
    opened.on("request", lambda request: printed.append(request.url) if server.url not in request.url else None)
    opened.goto(server.url)
    opened.wait_for_selector("#form:enabled")  # `check(force=True)` does not wait
    yield opened
    context.close()
    assert [line for line in printed if not line.startswith("blob:")] == []


def wait_for(page: Page, selector: str, text: str) -> None:
    page.locator(selector, has_text=text).wait_for()


def predict(page: Page, smiles: str) -> None:
    page.fill("#smiles", smiles)
    page.press("#smiles", "Enter")
    wait_for(page, "#working", "Answered in")


def test_a_molecule_is_predicted_and_looked_at(page: Page, server: Server) -> None:
    predict(page, ASPIRIN)
    [expected] = server.session.model.predict([ASPIRIN]).table()
    shown = [float(text) for text in page.locator("#values dd").all_text_contents()]
    assert shown == pytest.approx([expected["solubility"], expected["size"]], rel=1e-3)
    assert page.locator("#drawing .node").count() == 13
    assert "Most looked at on average" in page.inner_text("#said")
    assert page.locator("#curves svg").count() == 2

    page.locator("#drawing .node").nth(2).click()
    assert page.inner_text("#said").startswith("O2 looks most at ")
    assert page.locator("#drawing .node[aria-pressed=true]").get_attribute("aria-label").startswith("O2: ")
    page.keyboard.press("Escape")
    assert "on average" in page.inner_text("#said")


def test_atoms_carry_the_numbers_that_the_tables_say(page: Page) -> None:
    predict(page, ASPIRIN)
    numbers = page.locator("#drawing .node .number").all_text_contents()
    assert numbers == [str(k) for k in range(13)]


def test_what_is_typed_before_the_page_is_ready_is_not_lost(browser: Browser, server: Server) -> None:
    page = browser.new_page()
    page.set_default_timeout(SOON)
    held: list[Route] = []
    page.route("**/api/about", lambda route: held.append(route))
    page.goto(server.url, wait_until="commit")
    page.wait_for_selector("#smiles")
    assert page.locator("#smiles").is_disabled()
    while not held:
        page.wait_for_timeout(20)
    held[0].continue_()
    predict(page, "CCO")
    wait_for(page, "#answer-of", "CCO")
    page.close()


def test_an_ensemble_shows_how_certain_it_is_and_one_model_at_a_time(pair_page: Page, pair_server: Server) -> None:
    pair_page.fill("[data-feature=temperature]", "20")
    predict(pair_page, "CCCO")
    opened = pair_server.session.smiles(["CCCO"], {"temperature": 20.0})
    answer = dict(zip(opened["columns"], opened["rows"][0], strict=True))
    shown = pair_page.inner_text("#values dd")
    value, low, high = (float(text) for text in re.findall(r"-?\d+\.?\d*", shown)[:3])
    for number, name in ((value, ""), (low, "_low"), (high, "_high")):
        assert number == pytest.approx(answer[f"solubility{name}"], abs=0.5)
    assert "90% interval" in shown
    assert "between the models" in shown
    assert "90% of rows" in pair_page.inner_text("#meaning")
    before = pair_page.evaluate("document.getElementById('matrix').toDataURL()")
    with pair_page.expect_response("**/api/weights"):
        pair_page.select_option("#member", "1")
    wait_for(pair_page, "#working", "Answered in")
    assert pair_page.evaluate("document.getElementById('matrix').toDataURL()") != before
    assert "mean of 2 models" in pair_page.inner_text("#facts")
    predict(pair_page, "CCO\nCO")
    assert "solubility_low" in pair_page.inner_text("#table thead")
    assert "solubility_low" in pair_server.session.smiles(["CCO", "CO"])["csv"]


def test_a_class_has_its_set_and_is_explained_by_its_log_odds(class_page: Page, class_server: Server) -> None:
    predict(class_page, "CCCO")
    opened = class_server.session.smiles(["CCCO"])
    answer = dict(zip(opened["columns"], opened["rows"][0], strict=True))
    shown = class_page.inner_text("#values dd >> nth=0").splitlines()
    assert shown[0] == answer["kind"]
    assert shown[1] == f"90% set: {answer['kind_set'].replace('|', ', ') or 'empty, unlike all classes'}"
    assert "hold the true class of 90% of rows" in class_page.inner_text("#meaning")
    class_page.click("#explain")
    class_page.wait_for_selector("#explanation:visible")
    assert re.match(r"log-odds of kind .*\(probability 0\.\d+\)", class_page.inner_text("#why-title-of"))


def test_sliders_change_what_is_shown(page: Page) -> None:
    predict(page, ASPIRIN)
    before = page.inner_text("#said"), page.evaluate("document.getElementById('matrix').toDataURL()")
    bars = page.inner_html("#hops")
    with page.expect_response("**/api/weights"):
        page.press("#layer", "ArrowLeft")
    assert page.inner_text("#layer-shown") == "1 of 2"
    with page.expect_response("**/api/weights"):
        page.press("#head", "ArrowRight")
    assert page.inner_text("#head-shown") == "1 of 2"
    page.locator("#said", has_not_text=before[0]).wait_for()
    assert page.evaluate("document.getElementById('matrix').toDataURL()") != before[1]
    assert page.inner_html("#hops") != bars


def test_everything_is_reached_with_the_keyboard(page: Page) -> None:
    page.focus("#smiles")
    page.keyboard.type("CCO")
    page.keyboard.press("Enter")
    page.wait_for_selector("#drawing .node")
    page.focus("#drawing .node[tabindex='0']")
    names = [page.evaluate("document.activeElement.getAttribute('aria-label')").split(":")[0]]
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
        names.append(page.evaluate("document.activeElement.getAttribute('aria-label')").split(":")[0])
    assert names == ["C0", "C1", "O2", "C1"]
    page.keyboard.press("Enter")
    assert page.inner_text("#said").startswith("C1 looks most at ")
    page.keyboard.press("Tab")  # the drawing is one stop
    assert page.evaluate("document.activeElement.closest('#drawing')") is None


def test_bad_input_gets_a_kind_word(page: Page) -> None:
    page.fill("#smiles", "C1CC")
    page.click("#from-smiles .main")
    page.wait_for_selector("#problem:visible")
    assert page.inner_text("#problem").startswith("Sorry, “C1CC” could not be read as a molecule: unclosed ring")
    page.get_by_role("radio", name="File").check(force=True)
    for name, reason in (("photo.exe", "not known"), ("empty.csv", "the file is empty")):
        page.set_input_files("#file", {"name": name, "mimeType": "text/plain", "buffer": b""})
        page.click("#from-file .main")
        wait_for(page, "#problem", f"{name}: ")
        assert reason in page.inner_text("#problem")
    page.set_input_files("#file", {"name": "big.csv", "mimeType": "text/plain", "buffer": b"x" * 5_000_001})
    page.click("#from-file .main")
    wait_for(page, "#problem", "at most 5 MB")


def test_text_of_users_never_becomes_markup(page: Page) -> None:
    evil = b"name,smiles\n<img src=x onerror=console.log(1)>,<b>C</b>\n<i>two</i>,CCO\n"
    page.get_by_role("radio", name="File").check(force=True)
    page.set_input_files("#file", {"name": "evil.csv", "mimeType": "text/csv", "buffer": evil})
    page.click("#from-file .main")
    page.wait_for_selector("#table:visible")
    assert "<b>C</b>" in page.inner_text("#table tbody")
    assert page.locator("#table img, #table b, #table i").count() == 0


def numbers_in_column(page: Page, column: int) -> list[float]:
    """The numbers in a column of the table, from above."""
    cells = page.locator(f"#table tbody tr td:nth-child({column})").all_inner_texts()
    return [float(text) for text in cells if text != NOTHING]


def test_a_table_is_sorted_and_downloaded(page: Page, server: Server) -> None:
    smiles = ["CCCCCC", "CO", "C1CC", "c1ccccc1O"]
    predict(page, "\n".join(smiles))
    page.get_by_role("button", name="size").click()
    sizes = numbers_in_column(page, 4)
    assert sizes == sorted(sizes)
    page.get_by_role("button", name="size").click()
    assert page.locator("#table th[aria-sort=descending]").count() == 1
    again = numbers_in_column(page, 4)
    assert again == sizes[::-1]
    with page.expect_download() as waiting:
        page.click("#csv")
    text = waiting.value.path().read_text()
    expected = server.session.model.predict(smiles)
    assert [line.split(",")[1] for line in text.splitlines()[1:]] == smiles
    assert text.splitlines()[0].split(",") == expected.columns
    page.locator("#table tbody tr", has_text="CCCCCC").click()
    wait_for(page, "#answer-of", "CCCCCC")


def test_a_graph_of_the_data_set_and_why(page: Page, server: Server) -> None:
    page.get_by_role("radio", name="Data set").check(force=True)
    page.select_option("#split", "test")
    page.fill("#row", "1")
    page.click("#from-split .main")
    page.wait_for_selector("#answer:visible")
    expected = server.session.model.predict_split("test")[1]
    assert page.inner_text("#answer-of") == expected.smiles
    assert "true value" in page.inner_text("#values")
    page.click("#explain")
    page.wait_for_selector("#explanation:visible")
    assert "believe" in page.inner_text("#verdict") or "faithful" in page.inner_text("#verdict")
    assert "score" in page.inner_text("#scores")
    page.get_by_role("radio", name="Attention rollout").check(force=True)
    assert "Attention rollout" in page.inner_text("#why-title-of")


def test_it_fits_a_phone_in_the_dark(browser: Browser, server: Server) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme="dark", has_touch=True)
    page = context.new_page()
    page.set_default_timeout(SOON)
    page.goto(server.url)
    predict(page, ASPIRIN)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("#drawing .node").nth(2).tap()
    assert page.inner_text("#said").startswith("O2 ")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(int(part) for part in ground[4:-1].split(",")) < 150
    context.close()


class _Foreign(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>foreign</title>")

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_another_page_reads_and_changes_nothing(
    browser: Browser, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.session, "smiles", lambda **_: pytest.fail("another page was answered"))
    attempt = """async ([url, options]) => {
        try { await fetch(url, options); return "answered"; } catch { return "refused"; }
    }"""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Foreign) as foreign:
        Thread(target=foreign.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        page = browser.new_page()
        page.goto(f"http://localhost:{foreign.server_port}/")
        assert page.evaluate(attempt, [f"{server.url}api/about", {}]) == "refused"
        for kind, mode in (("application/json", "cors"), ("text/plain", "no-cors")):
            headers = {"Content-Type": kind}
            options = {"method": "POST", "mode": mode, "headers": headers, "body": '{"smiles": ["C"]}'}
            assert page.evaluate(attempt, [f"{server.url}api/smiles", options]) == "refused"
        page.close()
        foreign.shutdown()
