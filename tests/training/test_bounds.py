"""A run on labels of which some are bounds, from the table to what is said about the model."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import egt
from egt.inference.predictor import load
from tests.cli import runs

pytest.importorskip("rdkit")
QUICK = ["trainer.max_epochs=2", "model.num_layers=1", "split.fractions=[0.6,0.2,0.2]"]


def write(path: Path) -> Path:
    """Alcohols, labeled by their carbons; every third label is a bound that is right."""
    rows = []
    for carbons in range(1, 11):
        for hydroxyls in range(4):
            sign = {0: ">", 1: "<"}.get((carbons + hydroxyls) % 6, "")
            shift = {">": -0.5, "<": 0.5}.get(sign, 0.25)
            rows.append(f"{'C' * carbons}{'C(O)' * hydroxyls}C,{sign}{carbons + shift}")
    path.write_text("smiles,y\n" + "\n".join(rows) + "\n")
    return path


def test_bounds_go_all_the_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    data, out = write(tmp_path / "assay.csv"), tmp_path / "run"
    trained = runs.egt(capsys, "train", data, "--target", "y", "--out", out, "--json", "--set", *QUICK)
    assert "12 of 40 labels" in trained.err
    found = trained.json
    test = found["metrics"]["test"]
    assert test["num_labels"] + test["num_bounds"] == test["num_graphs"] == 8
    assert found["baseline"]["metrics"]["test"]["num_bounds"] == test["num_bounds"]
    assert found["coverage"]["targets"]["y"]["num_labels"] == test["num_labels"]

    metrics = runs.egt(capsys, "evaluate", out, "--data", data, "--json").json["metrics"]
    assert (metrics["num_labels"], metrics["num_bounds"]) == (28, 12)

    model = load(out)
    model.predict_split("test").to_csv(tmp_path / "test.csv")
    given = {cell for _, cell in list(csv.reader(data.open()))[1:]}
    answers = list(csv.DictReader((tmp_path / "test.csv").open()))
    assert {row["y_true"] for row in answers} <= given
    again = model.evaluate("test")
    assert again == pytest.approx(test)


def test_models_of_an_ensemble_and_of_folds_share_bounds(tmp_path: Path) -> None:
    data = write(tmp_path / "assay.csv")
    settings = [*QUICK, "trainer.max_epochs=1", "trainer.baseline=false"]
    seeds = egt.train(data, "y", set=settings, ensemble=2, out=tmp_path / "seeds", progress=False)
    assert seeds.artifact.metrics["test"]["num_bounds"] > 0
    assert np.isfinite(seeds.artifact.metrics["test"]["bounds_kept"])
    folds = egt.train(data, "y", set=settings, folds=4, out=tmp_path / "folds", progress=False)
    metrics = folds.artifact.metrics["test"]
    assert (metrics["num_labels"], metrics["num_bounds"]) == (28, 12)
