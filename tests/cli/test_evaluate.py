"""What `egt evaluate` shows while it works."""

from __future__ import annotations

from pathlib import Path

import pytest

from egt.cli.output import metric_rows
from egt.inference.artifact import save_artifact
from tests.caches import fresh_cache
from tests.cli.runs import TINY, egt, molecules, write_jsonl
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


def test_scores_name_the_class_they_are_about_which_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    data = molecules(tmp_path / "data.csv", y=["no", "yes", "yes", "yes"] * 5)
    found = {}
    for name, settings in (("yes", ()), ("no", ("overrides.positive=no",))):
        done = egt(capsys, "train", data, "--out", name, "--set", *TINY, "trainer.max_epochs=1", *settings)
        assert done.code == 0, done.err
        assert f"{name}: f1 and average_precision are about it" in done.err
        assert f"f1 (class {name})" in done.out
        shown = egt(capsys, "evaluate", name, "--data", data)
        assert f"average_precision (class {name})" in shown.out
        found[name] = egt(capsys, "evaluate", name, "--data", data, "--json").json
        assert found[name]["positive_class"] == name
    wrong = egt(capsys, "train", data, "--out", "wrong", "--set", "overrides.positive=maybe")
    assert (wrong.code, "overrides.positive is 'maybe', one of two classes; the classes are no, yes" in wrong.err) == (
        2,
        True,
    ), wrong.err


def test_a_score_that_the_labels_do_not_define_is_a_dash_with_its_reason() -> None:
    metrics = {"f1": float("nan"), "mcc": 0.123456, "num_labels": 3.0, "num_graphs": 3.0}
    assert metric_rows(metrics, "yes") == [
        ("f1 (class yes)", "-", "3 labels of 3 graphs, which do not define it"),
        ("mcc", "0.12346", "3 labels of 3 graphs"),
    ]
