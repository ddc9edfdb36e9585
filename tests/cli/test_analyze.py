"""`egt analyze` and `egt explain` from the command line, on a model of molecules."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.runs import egt, read_csv

TRAINED = Path(__file__).resolve().parents[1] / "fixtures/v0_1/molecules"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    shutil.copytree(TRAINED / "artifact", tmp_path / "run/artifact")
    return tmp_path / "run"


def test_analyze_a_file(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = egt(capsys, "analyze", model, TRAINED / "molecules.csv", "--show", "1", "2", "--limit", "6")
    assert done.code == 0, done.err
    assert "on 6 graphs" in done.err
    folder = model / "analysis"  # beside the artifact
    assert (folder / "analysis.html").exists()
    assert (folder / "graph-2.png").exists()
    rows = read_csv(folder / "hops.csv")
    for layer in {row["layer"] for row in rows}:
        weights = [float(row["softmax"]) for row in rows if row["layer"] == layer and row["hop"] != "from virtual"]
        assert sum(weights) == pytest.approx(1, abs=1e-4)


def test_analyze_says_as_json_what_it_found(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egt.explain.analysis_page.can_draw", lambda: False)
    done = egt(capsys, "analyze", model, TRAINED / "molecules.csv", "--limit", "3", "-o", tmp_path / "out", "--json")
    assert done.json["graphs"] == 3
    assert done.json["summary"][0].startswith("Layer")
    assert "analysis.html" in done.json["files"]


def test_explain_a_molecule(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = egt(capsys, "explain", model, "CC(=O)Oc1ccccc1", "-o", tmp_path / "why", "--draws", "20")
    assert done.code == 0, done.err
    assert "faithfulness" in done.out
    assert "elieve" in done.err or "faithful" in done.err
    rows = read_csv(tmp_path / "why/nodes.csv")
    assert [row["name"] for row in rows][:4] == ["C0", "C1", "O2", "O3"]
    assert "<path" in (tmp_path / "why/gradients.svg").read_text()


def test_explain_a_row_of_a_file(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "explain",
        model,
        TRAINED / "molecules.csv",
        "--row",
        "1",
        "--draws",
        "10",
        "--target",
        "size",
        "--set",
        "overrides.smiles=smiles",
        "-o",
        tmp_path / "why",
        "--json",
    )
    done = egt(capsys, *words)
    assert done.code == 0, done.err
    page = (tmp_path / "why/explanation.html").read_text()
    assert "--row 1 --of 0 --draws 10 --target size --set overrides.smiles=smiles</pre>" in page
    assert set(done.json["scores"]) == {"gradients", "rollout"}
    assert done.json["verdict"]


def test_wrong_input_is_one_line(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = egt(capsys, "explain", model, "C1CC", "-o", tmp_path / "why")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert "cannot be read" in done.err
    done = egt(capsys, "explain", model, "absent.csv", "-o", tmp_path / "why")
    assert done.err == "error: absent.csv: there is no such file or folder\n"
    for words, reason in ((("--layers", "99"), "the layers that attend are"), (("--limit", "-1"), "or 0 for all")):
        done = egt(capsys, "analyze", model, TRAINED / "molecules.csv", *words)
        assert (done.code, len(done.err.splitlines())) == (2, 1)
        assert reason in done.err
