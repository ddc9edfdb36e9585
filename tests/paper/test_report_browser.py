"""The report of `make run` in a real browser: everything is drawn, nothing spills over, wide and narrow."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from egt.api import train
from egt.pages import Sheet, page
from egt.paper.report import write_report
from egt.paper.results import collect, read_records
from egt.tuning.study import Tried, trial_rows
from examples.quickstart import main
from tests.caches import fresh_cache
from tests.cli.runs import TINY, molecules

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
ASK = """<script>
const size = element => { const box = element.getBoundingClientRect(); return [box.width, box.height, box.right]; };
const all = (selector, look) => [...document.querySelectorAll(selector)].map(look);
document.body.innerHTML = '<pre id="answer">' + JSON.stringify({
    width: innerWidth, page: document.documentElement.scrollWidth,
    charts: all('svg', size), captions: all('figcaption', element => element.textContent),
    wide: all('.wide', element => [element.scrollWidth, element.clientWidth]),
    headings: all('h2', element => element.textContent), tables: all('table', element => element.rows.length),
}) + '</pre>';
</script>"""


def ask(report: str, folder: Path, width: int) -> dict[str, Any]:
    """What the browser has laid out at a width of its window."""
    assert BROWSER is not None
    asked = folder / "asked.html"
    asked.write_text(report.replace("</body>", ASK + "</body>"))
    command = [BROWSER, *FLAGS, f"--user-data-dir={folder / 'profile'}", f"--window-size={width},900", "--dump-dom"]
    done = subprocess.run([*command, asked.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    answer = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout, re.DOTALL)
    assert answer is not None, done.stdout[:500]
    found: dict[str, Any] = json.loads(answer[1])
    return found


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no browser: install chromium to look at the report")
def test_the_report_is_drawn_completely_on_a_wide_and_on_a_narrow_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EGT_CACHE_DIR", fresh_cache(tmp_path))
    main(tmp_path / "run", ["data.options={split_sizes: {train: 6, val: 2, test: 2}}", *TINY], epochs=2)
    report = (tmp_path / "run" / "report.html").read_text()
    for width in (1280, 500):
        seen = ask(report, tmp_path, width)
        assert seen["page"] <= seen["width"], f"the page is wider than a window of {width}"
        assert len(seen["charts"]) == 5
        for chart_width, height, right in seen["charts"]:
            assert chart_width > 100
            assert height > 80
            assert right <= seen["width"]
        assert all(seen["captions"])
        assert all(seen["headings"])
        assert all(rows > 1 for rows in seen["tables"])


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no browser: install chromium to look at the report")
def test_the_pages_of_egt_report_fit_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGT_CACHE_DIR", fresh_cache(tmp_path))
    table = molecules(tmp_path / "data.csv", active=[k % 2 for k in range(20)])
    split = ["split=random", "split.fractions=[0.4, 0.2, 0.4]"]
    train(table, "active", set=[*TINY, *split], out=tmp_path / "run", progress=False)
    records, unfinished = read_records([tmp_path / "run"])
    write_report(collect(records), unfinished, tmp_path / "report")
    for name, charts in (("report.html", 2), ("data-seed0.html", 5)):
        for width in (1280, 500):
            seen = ask((tmp_path / "report" / name).read_text(), tmp_path, width)
            assert seen["page"] <= seen["width"], f"{name} is wider than a window of {width}"
            assert len(seen["charts"]) >= charts  # drawings of molecules are some more
            assert all(chart_width > 80 and right <= seen["width"] for chart_width, _, right in seen["charts"])


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no browser: install chromium to look at the report")
def test_a_wide_table_has_its_last_column_on_the_screen(tmp_path: Path) -> None:
    trial = Tried(0, {f"some long knob {k}": 0.125 for k in range(7)}, "done", 0.5, 10, 1.0)
    shown = page("Wide", "", [("Trials", Sheet("", *trial_rows([trial], 0)).html()), ("Text", "<p>below</p>")])
    seen = ask(shown, tmp_path, 1200)
    assert seen["page"] <= seen["width"]
    [[content, visible]] = seen["wide"]
    assert 960 < content <= visible  # wider than the text
    narrow = ask(shown, tmp_path, 500)
    assert narrow["page"] <= narrow["width"]
