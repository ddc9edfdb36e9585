"""`egt embed`: rows in the order of the input, and the nearest training molecules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from egt.inference import predictor
from egt.inference.artifact import EnsembleArtifact, load_artifact, save_ensemble
from tests.cli.runs import SMILES, TINY, egt, molecules

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from egt.api import train

    folder = tmp_path_factory.mktemp("embed")
    table = molecules(folder / "data.csv", size=[len(text) for text in SMILES])
    train(table, "size", set=TINY, out=folder / "run", progress=False)
    return folder / "run"


def test_rows_errors_and_neighbors(run: Path, tmp_path: Path, capsys: Capture) -> None:
    done = egt(
        capsys, "embed", run, "CCO", "C1CC", "c1ccccc1", "-o", tmp_path / "x.parquet", "--neighbors", "3", "--json"
    )
    assert (done.code, done.json["rows"], done.json["errors"]) == (0, 3, 1)
    good, bad, ring = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert [row["smiles"] for row in (good, bad, ring)] == ["CCO", "C1CC", "c1ccccc1"]
    assert "C1CC" in bad["error"]
    assert bad["embedding"] is bad["neighbors"] is bad["neighbor_distances"] is None
    assert len(ring["neighbors"]) == 3
    assert ring["neighbor_distances"] == sorted(ring["neighbor_distances"])
    train = pq.read_table(_embed_split(run, tmp_path, capsys)).to_pylist()
    rows = np.array([row["embedding"] for row in train])
    distances = np.linalg.norm(rows - np.array(ring["embedding"]), axis=1)
    nearest = [train[k]["smiles"] for k in np.argsort(distances)[:3]]
    assert ring["neighbor_smiles"] == nearest
    assert set(ring["neighbors"]) <= {row["id"] for row in train}


def _embed_split(run: Path, tmp_path: Path, capsys: Capture) -> Path:
    assert egt(capsys, "embed", run, "--split", "train", "-o", tmp_path / "train.parquet").code == 0
    return tmp_path / "train.parquet"


def test_a_table_is_embedded_part_by_part(
    run: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts = tmp_path / "whole.npy", tmp_path / "parts.npy"
    assert egt(capsys, "embed", run, run.parent / "data.csv", "-o", whole, "--level", "node").code == 0
    monkeypatch.setattr(predictor.Predictor.open_blocks, "__kwdefaults__", {"rows": 7, "skip": 0})
    done = egt(capsys, "embed", run, run.parent / "data.csv", "-o", parts, "--level", "node")
    assert "20 rows, 0 with an error" in done.err
    np.testing.assert_allclose(np.load(parts), np.load(whole), rtol=1e-4, atol=1e-5)


def test_neighbors_need_the_training_data(run: Path, tmp_path: Path, capsys: Capture) -> None:
    (run.parent / "data.csv").rename(run.parent / "away.csv")
    done = egt(capsys, "embed", run, "CCO", "-o", tmp_path / "x.parquet", "--neighbors", "3")
    (run.parent / "away.csv").rename(run.parent / "data.csv")
    assert done.code == 2
    assert "the data of this run is not there" in done.err


def test_either_inputs_or_a_split(run: Path, tmp_path: Path, capsys: Capture) -> None:
    done = egt(capsys, "embed", run, "-o", tmp_path / "x.parquet")
    assert (done.code, "either inputs" in done.err) == (2, True)


def test_of_an_ensemble_the_first_model_embeds(
    run: Path, tmp_path: Path, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    artifact = load_artifact(run / "artifact")
    save_ensemble(EnsembleArtifact("seeds", (artifact,) * 2), [run / "artifact"] * 2, tmp_path / "two")
    done = egt(capsys, "embed", tmp_path / "two", "CCO", "-o", tmp_path / "x.npy")
    assert done.code == 0, done.err
    assert f"the first one embeds, {tmp_path / 'two/member0'}" in caplog.text
    egt(capsys, "embed", run, "CCO", "-o", tmp_path / "y.npy")
    assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "y.npy").read_bytes()
