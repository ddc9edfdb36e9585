"""What `egt predict` shows while it works, and which of its arguments are files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egt.cli.predict import group_inputs
from egt.inference.artifact import load_artifact, save_artifact
from egt.inference.uncertainty import Calibration
from tests.cli.runs import SMILES, TINY, egt, molecules, read_csv, write_csv, write_jsonl
from tests.inference.test_dropout_draws import dropping
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
    assert group_inputs(["C" * 260, "CCO"]) == [["C" * 260, "CCO"]]


ONLY = ("--columns", "only")


def test_intervals_are_written_on_request_and_other_columns_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calibration = Calibration.of_numbers(np.zeros((4, 1)), np.array([[0.5], [1.0], [2.0], [4.0]]))
    save_artifact(replace(make(), calibration=calibration), tmp_path / "model")
    new = write_jsonl(tmp_path / "new.jsonl", rows(3))
    egt(capsys, "predict", tmp_path / "model", new, "-o", tmp_path / "plain.csv")
    done = egt(capsys, "predict", tmp_path / "model", new, "--interval", "0.5", "-o", tmp_path / "out.csv")
    assert done.code == 0, done.err
    plain, found = read_csv(tmp_path / "plain.csv"), read_csv(tmp_path / "out.csv")
    assert [*found[0]] == ["id", "y_input", "y", "y_low", "y_high", "warning", "error"]
    for before, after in zip(plain, found, strict=True):
        low, high = (float(after.pop(name)) for name in ("y_low", "y_high"))
        assert after == before
        assert high - low == pytest.approx(4)
        assert (low + high) / 2 == pytest.approx(float(after["y"]), abs=1e-6)
    for wrong, reason in ((("--interval", "90"), "between 0 and 1"), (("--calibrated",), "predicts numbers")):
        done = egt(capsys, "predict", tmp_path / "model", new, *wrong)
        assert (done.code, reason in done.err) == (2, True), done.err


def test_a_table_gets_intervals_too_and_an_old_model_says_that_it_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = Path(__file__).parents[1] / "fixtures/v0_1/molecules/artifact"
    done = egt(capsys, "predict", old, "CCO", "--interval", "0.9")
    assert done.code == 2
    assert "has no calibration" in done.err
    names = load_artifact(old).config.task.names
    errors = np.arange(1.0, 10.0)[:, None].repeat(len(names), axis=1)
    save_artifact(
        replace(load_artifact(old), calibration=Calibration.of_numbers(0 * errors, errors)), tmp_path / "model"
    )
    table = write_csv(tmp_path / "t.csv", [{"smiles": text} for text in ("CCO", "nonsense", "CCN")])
    done = egt(capsys, "predict", tmp_path / "model", table, "--interval", "0.5", "-o", tmp_path / "out.csv")
    assert done.code == 0, done.err
    first, bad, _ = read_csv(tmp_path / "out.csv")
    assert float(first[f"{names[0]}_high"]) - float(first[f"{names[0]}_low"]) == pytest.approx(10, rel=1e-4)
    assert bad[f"{names[0]}_low"] == ""


def test_dropout_samples_are_asked_for_by_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_artifact(dropping(), tmp_path / "model")
    new = write_jsonl(tmp_path / "new.jsonl", rows(3))
    found = []
    for name in ("one.csv", "two.csv"):
        done = egt(capsys, "predict", tmp_path / "model", new, "--dropout-samples", "5", "-o", tmp_path / name, *ONLY)
        assert done.code == 0, done.err
        found.append(read_csv(tmp_path / name))
    assert found[0] == found[1]
    assert [*found[0][0]] == ["id", "y", "y_std", "warning", "error"]
    assert all(float(row["y_std"]) > 0 for row in found[0])
    save_artifact(make(), tmp_path / "plain")
    done = egt(capsys, "predict", tmp_path / "plain", new, "--dropout-samples", "5")
    assert (done.code, "this model has no dropout" in done.err) == (2, True), done.err


def test_the_name_of_the_output_says_its_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    save_artifact(make(), tmp_path / "model")
    bad: dict[str, object] = {"nodes": {"x": [1.0]}, "edges": [[0, 7]], "targets": {"y": 1}}
    new = write_jsonl(tmp_path / "new.jsonl", [*rows(3), bad])
    for name in ("out.csv", "out.tsv", "out.parquet", "out.xlsx"):
        done = egt(capsys, "predict", tmp_path / "model", new, "-o", tmp_path / name)
        assert done.code == 0, done.err
    written = read_csv(tmp_path / "out.csv")
    assert (tmp_path / "out.tsv").read_text().splitlines()[0].split("\t") == [*written[0]]
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table.column_names == [*written[0]]
    assert str(table.schema.field("y").type) == "double"
    assert [row["y"] for row in table.to_pylist()] == [float(row["y"]) if row["y"] else None for row in written]
    assert [row["error"] for row in table.to_pylist()] == [row["error"] for row in written]
    for name in ("out.txt", "out.csv.gz"):
        done = egt(capsys, "predict", tmp_path / "model", new, "-o", tmp_path / name)
        assert done.code == 2
        known = ".csv, .tsv, .xlsx, .parquet, .npz"
        assert f"{name}: predictions are written to {known}; choose such a name (-o)" in done.err
        assert not (tmp_path / name).exists()
    done = egt(capsys, "predict", tmp_path / "model", new, "-o", tmp_path / "more.parquet", "--resume")
    assert "a .csv or .tsv file as output (-o)" in done.err


def test_an_atom_of_no_element_is_an_error_of_its_row_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = molecules(tmp_path / "data.csv", y=range(20))
    labeled = write_csv(tmp_path / "labeled.csv", [*read_csv(data), {"smiles": "C[#200]C", "y": 3}])
    assert egt(capsys, "data", "info", labeled).code == 0
    for split in ("random", "scaffold"):
        settings = (*TINY, "trainer.max_epochs=1", "model.num_layers=1", f"split.kind={split}")
        done = egt(capsys, "train", labeled, "--out", split, "--set", *settings)
        assert done.code == 0, done.err
    many = [*SMILES, "[#200]"] * 20  # as many as are shared by several processes
    new = write_csv(tmp_path / "new.csv", [{"smiles": text} for text in many])
    done = egt(capsys, "predict", "random", new, "-o", "out.csv")
    assert done.code == 0, done.err
    found = read_csv(tmp_path / "out.csv")
    assert [row["smiles"] for row in found] == many
    for row in found:
        is_bad = row["smiles"] == "[#200]"
        assert (bool(row["error"]), row["y"] == "") == (is_bad, is_bad)
