"""What `egt predict` shows while it works, and which of its arguments are files."""

from __future__ import annotations

from pathlib import Path

import pytest

from egt.artifact.artifact import save_artifact
from egt.cli.predict import grouped
from tests.cli.runs import egt, read_csv, write_jsonl
from tests.inference.test_predictor import make


def rows(count: int) -> list[dict[str, object]]:
    return [{"nodes": {"x": [0.5 * k, 1.0, 2.0]}, "edges": [[0, 1], [1, 2]], "targets": {"y": k}} for k in range(count)]


def test_a_bar_for_reading_for_preparing_and_for_predicting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_artifact(make(), tmp_path / "model")
    new = write_jsonl(tmp_path / "new.jsonl", rows(9))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "300")
    done = egt(capsys, "predict", tmp_path / "model", new, "-o", tmp_path / "out.csv")
    assert done.code == 0, done.err
    for stage in ("reading", "preparing", "predicting"):
        assert f"{stage} {new}" in done.err
    assert "9/9" in done.err
    assert len(read_csv(tmp_path / "out.csv")) == 9
    quiet = egt(capsys, "predict", tmp_path / "model", new, "--json")
    assert quiet.err == ""
    assert quiet.json["rows"] == 9


@pytest.mark.parametrize("name", ["absent.csv", "absent.ndjson", "absent.pt", "absent.graphml", "absent.TSV.gz"])
def test_a_file_that_is_not_there_is_not_taken_for_a_molecule(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_artifact(make(), tmp_path / "model")
    done = egt(capsys, "predict", tmp_path / "model", tmp_path / name)
    assert done.code == 2
    assert f"{name}: there is no such file or folder" in done.err


def test_a_smiles_longer_than_any_file_name_is_a_smiles() -> None:
    assert grouped(["C" * 260, "CCO"]) == [["C" * 260, "CCO"]]
