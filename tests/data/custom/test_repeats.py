"""Repeated molecules are found by what they are, in whatever spelling, graphs as they are written; both are told."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from egt.data import labels as module
from egt.data.custom import open_custom
from egt.data.labels import molecule_keys, repeats

pytest.importorskip("rdkit")
SMILES = ["CCO", "OCC", "CCN", "CCN", "CCC", ""]
CODES = np.array([0, 2, 0, 0, 1, 0], np.int8)
NONE = np.full((6, 1), np.nan)


def molecule_repeats(targets: NDArray[np.float64], codes: NDArray[np.int8] | None, *, classes: bool) -> list[str]:
    keys = molecule_keys([SMILES])
    labels = np.stack([targets, targets], axis=2)
    return repeats(keys, keys, labels, codes, classes=[classes], what="molecule", advice="divide otherwise")


def test_a_molecule_in_two_splits_is_found_in_another_spelling() -> None:
    [warning] = molecule_repeats(NONE, CODES, classes=False)
    assert warning.startswith("1 molecule in several splits (CCO: train and test)")
    assert molecule_repeats(NONE, np.zeros(6, np.int8), classes=False) == []


def test_different_classes_conflict_and_numbers_may_scatter() -> None:
    labels = np.array([[1.0], [0.0], [0.0], [0.0], [1.0], [np.nan]])
    [warning] = molecule_repeats(labels, None, classes=True)
    assert warning == "1 molecule more than once with different labels (e.g. CCO)"
    close = np.array([[1.0], [1.1], [3.0], [9.0], [5.0], [np.nan]])
    [warning] = molecule_repeats(close, None, classes=False)
    assert "1 molecule more than once with labels that differ by more than" in warning
    assert warning.endswith("(e.g. CCN: 3 and 9)")


def test_an_outlier_does_not_hide_a_conflict() -> None:
    keys = ["twice", "twice", *map(str, range(20))]
    usual = np.linspace(4.0, 6.0, 20)
    for outlier in (5.0, -9999.0):
        labels = np.array([4.0, 8.0, *usual[:-1], outlier])[:, None, None].repeat(2, axis=2)
        [warning] = repeats(keys, keys, labels, None, classes=[False], what="molecule", advice="")
        assert "twice" in warning


def test_many_rows_are_compared_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_COMPARED", 3)
    assert molecule_repeats(NONE, CODES, classes=False) == []


def test_the_same_graph_in_two_splits(tmp_path: Path) -> None:
    def line(name: str, split: str, element: str, label: float) -> str:
        nodes = {"element": ["C", element], "title": [f"{name}0", f"{name}1"]}
        graph = {"id": name, "split": split, "nodes": nodes, "edges": [[0, 1]], "targets": {"y": label}}
        return json.dumps(graph)

    rows = [("a", "train", "O", 1.5), ("b", "train", "N", 2.5), ("c", "val", "S", 3.5), ("d", "test", "O", 9.5)]
    (tmp_path / "g.jsonl").write_text("\n".join(line(*row) for row in rows))
    overrides = {"node_features": {"title": "ignored"}}
    shared, torn = open_custom(tmp_path / "g.jsonl", overrides=overrides).warnings()
    assert shared.startswith("1 graph in several splits (a: train and test), which flatters the scores; remove")
    assert torn.startswith("1 graph more than once with labels that differ")
    assert torn.endswith("(e.g. a: 1.5 and 9.5)")
    assert open_custom(tmp_path / "g.jsonl").warnings() == [], "titles that the model reads tell the graphs apart"
