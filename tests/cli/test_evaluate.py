"""What `egt evaluate` shows while it works."""

from __future__ import annotations

from pathlib import Path

import pytest

from egt.artifact.artifact import save_artifact
from tests.caches import fresh_cache
from tests.cli.runs import egt, write_jsonl
from tests.cli.test_predict import rows
from tests.inference.test_predictor import make


def test_a_bar_for_reading_for_preparing_and_for_evaluating(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EGT_CACHE_DIR", fresh_cache(tmp_path))
    save_artifact(make(), tmp_path / "model")
    data = write_jsonl(tmp_path / "labeled.jsonl", rows(9))
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = egt(capsys, "evaluate", tmp_path / "model", "--data", data)
    assert done.code == 0, done.err
    for stage in ("reading", "preparing", "evaluating"):
        assert stage in done.err
    assert "9/9" in done.err
    assert "9/9" not in done.out
    quiet = egt(capsys, "evaluate", tmp_path / "model", "--data", data, "--json")
    assert quiet.err == ""
    assert quiet.json["metrics"]["num_labels"] == 9
