"""Other inputs than a SMILES and a number: several molecules in a row, targets of atoms and of bonds."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import egt as front
from egt.explain.page.session import Session
from tests.cli.runs import SMILES, TINY, egt, write_csv

Chem = pytest.importorskip("rdkit.Chem")

QUICK = (*TINY, "trainer.max_epochs=1", "model.num_layers=1")
SOLVENTS = ("O", "CCO", "CC(C)=O", "c1ccccc1")


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def mixtures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a model of solute and solvent, with its data beside it."""
    folder = tmp_path_factory.mktemp("mixtures")
    rows = [{"solute": text, "solvent": SOLVENTS[k % 4], "y": float(k)} for k, text in enumerate(SMILES)]
    data = write_csv(folder / "mixtures.csv", rows)
    front.train(data, "y", smiles=["solute", "solvent"], set=QUICK, out=folder / "run", progress=False)
    return folder


def test_mixtures_are_predicted_from_files_and_from_pairs(
    mixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = egt(capsys, "predict", mixtures / "run", mixtures / "mixtures.csv", "-o", tmp_path / "out.csv")
    assert done.code == 0, done.err
    rows = table(tmp_path / "out.csv")
    assert list(rows[0])[:5] == ["id", "solute", "solvent", "y_input", "y"]
    assert [row["solute"] for row in rows] == list(SMILES)
    typed = egt(capsys, "predict", mixtures / "run", "CCO,O", "O,CCO", "CCO", "CCO,C(", "--json").json["predictions"]
    ethanol, water, alone, broken = typed
    assert ethanol["y"] == pytest.approx(float(rows[0]["y"]), rel=1e-4)
    assert ethanol["y"] != water["y"], "which of the two is the solvent matters"
    assert alone["error"] == "SMILES row 3: the SMILES of column 'solvent' is missing"
    assert broken["error"].startswith("SMILES row 4: column 'solvent': SMILES 'C(' cannot be read")
    pairs = front.load(mixtures / "run").predict([("CCO", "O")]).table()
    assert pairs[0]["y"] == pytest.approx(ethanol["y"], rel=1e-5)


def test_mixtures_with_other_names_are_evaluated_and_described(
    mixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_csv(tmp_path / "other.csv", [{"b": "O", "a": "CCO", "y": 1.5}, {"b": "CCO", "a": "CC", "y": 2.5}])
    refused = egt(capsys, "evaluate", mixtures / "run", "--data", other)
    assert refused.code == 2
    assert "the model reads 2 SMILES in each row (solute, solvent)" in refused.err
    found = egt(capsys, "evaluate", mixtures / "run", "--data", other, "--smiles", "a", "b", "--json")
    assert found.json["metrics"]["num_labels"] == 2
    info = egt(capsys, "data", "info", other, "--target", "y", "--smiles", "a", "b", "--json").json["schema"]
    assert (info["smiles"], info["more_smiles"]) == ("a", ["b"])
    shown = egt(capsys, "data", "info", other, "--target", "y", "--smiles", "a", "b")
    assert "a, b: 2 components of one graph" in shown.out


def listed(text: str, parts: str) -> list[Any]:
    molecule = Chem.MolFromSmiles(text)
    if parts == "atoms":
        return [atom.GetMass() / 10 for atom in molecule.GetAtoms()]
    return ["ring" if bond.IsInRing() else "chain" for bond in molecule.GetBonds()]


@pytest.mark.parametrize("parts", ["atoms", "bonds"])
def test_atoms_and_bonds_are_learned_and_predicted_row_by_row(
    parts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"smiles": text, "y": json.dumps(listed(text, parts))} for text in SMILES]
    data = write_csv(tmp_path / "data.csv", rows)
    done = egt(capsys, "train", data, "--target", "y", "--out", tmp_path / "run", "--set", *QUICK)
    assert done.code == 0, done.err
    level = {"atoms": "node", "bonds": "edge"}[parts]
    assert f"{level} (the lists of 'y'" in done.err, "what was found out is shown"
    assert egt(capsys, "predict", tmp_path / "run", data, "-o", tmp_path / "out.csv").code == 0
    found = table(tmp_path / "out.csv")
    assert len(found) == sum(len(listed(text, parts)) for text in SMILES)
    first = [row for row in found if row["graph"] == "0"]
    if parts == "atoms":
        assert [(row["node"], row["node_name"]) for row in first] == [("0", "C"), ("1", "C"), ("2", "O")]
        assert all(row["y"] for row in found)
    else:
        assert [(row["source_name"], row["target_name"]) for row in first] == [("C", "C"), ("C", "O")]
        assert {"y_chain_probability", "y_ring_probability"} & found[0].keys()
    labels = egt(capsys, "evaluate", tmp_path / "run", "--data", data, "--json").json["metrics"]["num_labels"]
    assert labels == len(found)
    resumed = egt(capsys, "predict", tmp_path / "run", data, "-o", tmp_path / "out.csv", "--resume")
    assert f"this model writes one per {level}" in resumed.err


def test_mixtures_in_the_page(mixtures: Path) -> None:
    session = Session.of(mixtures / "run", front.load(mixtures / "run"))
    session.warm_up()
    opened = session.smiles(["CCO,O", "CCO"])
    assert opened["columns"][:3] == ["id", "solute", "solvent"]
    assert opened["rows"][0][1:3] == ["CCO", "O"]
    assert session.look(opened["data"], 0)["drawing"]["labels"] == ["", "", "OH", "OH₂"]
