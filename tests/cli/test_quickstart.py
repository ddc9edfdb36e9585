"""`make run` in small: it trains, compares with a baseline, and leaves a report that stands alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import egt
from examples.quickstart import main
from tests.caches import fresh_cache
from tests.cli.runs import TINY


def test_it_runs_and_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EGT_CACHE_DIR", fresh_cache(tmp_path))
    folder = tmp_path / "quickstart"
    few = "data.options={split_sizes: {train: 6, val: 2, test: 2}}"
    main(folder, [few, *TINY], epochs=2)
    out = capsys.readouterr().out
    assert "linear model" in out or "most common class" in out
    assert "egt predict" in out
    report = (folder / "report.html").read_text()
    assert "baseline: " in report
    assert "ROC curve" in report
    assert "http" not in report.replace("http://www.w3.org/2000/svg", "")
    assert egt.load(folder).evaluate("test")["weighted_accuracy"] >= 0
    main(folder, [few, *TINY], epochs=2)  # again, in place of the first
