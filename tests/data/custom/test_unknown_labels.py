"""Labels that are not understood are counted and named, wherever they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from egt.data.custom import open_custom
from tests.cli.runs import SMILES, TINY, blocks, egt, molecules, read_csv, ring, write_csv, write_jsonl

Capture = pytest.CaptureFixture[str]


def test_evaluation_counts_labels_of_unknown_classes(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    data = molecules(tmp_path / "data.csv", y=["active", "inactive"] * 10)
    assert egt(capsys, "train", data, "--out", "run", "--set", *TINY, "trainer.max_epochs=1").code == 0
    assert "count as missing" not in caplog.text
    other = molecules(tmp_path / "other.csv", y=["active", "Inactive", "maybe", "inactive", "Inactive"] * 4)
    done = egt(capsys, "evaluate", "run", "--data", other, "--json")
    assert done.json["metrics"]["num_labels"] == 8
    expected = "12 labels of 'y' are not one of 'inactive', 'active', and count as missing: 'Inactive' (8), 'maybe' (4)"
    assert expected in caplog.text
    caplog.clear()
    molecules(data, y=["active", "inactive", *["maybe"] * 2, *["active", "inactive"] * 8])  # a run.yaml on changed data
    assert egt(capsys, "train", "run/config.yaml", "--out", "again").code == 0
    assert "2 labels of 'y' are not one of 'inactive', 'active', and count as missing: 'maybe' (2)" in caplog.text


def test_training_counts_labels_of_all_splits(tmp_path: Path) -> None:
    columns = {"y": [*range(17), "low", "high", "low"], "split": ["train"] * 15 + ["val"] * 3 + ["test"] * 2}
    table = molecules(tmp_path / "data.csv", **columns)
    (warning,) = open_custom(table, target="y", overrides={"kind": "regression"}).warnings()
    assert warning == "3 labels of 'y' are not a finite number, and count as missing: 'low' (2), 'high' (1)"


def test_labels_of_nodes_atoms_and_many_values_are_counted(tmp_path: Path) -> None:
    schema = open_custom(blocks(tmp_path / "one"), target="label").schema
    nodes = read_csv(blocks(tmp_path / "two") / "nodes.csv")
    write_csv(tmp_path / "two/nodes.csv", [{**node, "label": f"c{k}"} for k, node in enumerate(nodes)])
    (warning,) = open_custom(tmp_path / "two", schema=schema).unknown_labels()
    assert warning.startswith("24 labels of 'label' are not one of 'a', 'b', and count as missing: 'c0' (1), ")
    assert warning.endswith(", ... 24 in all")
    atoms = write_csv(tmp_path / "atoms.csv", [{"smiles": text, "q": "[1, 2, x]"} for text in SMILES[:3]])
    source = open_custom(atoms, target="q", level="node", overrides={"kind": "regression"})
    assert source.unknown_labels() == ["3 labels of 'q' are not a finite number, and count as missing: 'x' (3)"]
    links = open_custom(write_jsonl(tmp_path / "links.jsonl", [ring(12)]), level="link")
    assert links.unknown_labels() == []
