"""Cleaning on request: standard molecules in training and prediction, replicates merged, and every change told."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egt
from egt.data.custom import open_custom
from egt.data.source import ALL, SPLITS
from egt.errors import DataError
from tests.cli.runs import SMILES, TINY, write_csv

pytest.importorskip("rdkit")


def table(folder: Path, rows: list[dict[str, object]], **overrides: Any) -> Any:
    return open_custom(write_csv(folder / "t.csv", rows), target="y", overrides=overrides)


@pytest.mark.parametrize(
    ("written", "parent"),
    [
        ("CC(=O)[O-].[Na+]", "CC(=O)O"),
        ("CC[NH3+].[Cl-]", "CCN"),
        ("c1ccccc1CO.O", "OCc1ccccc1"),
        ("C[N+](C)(C)CC", "CC[N+](C)(C)C"),  # no proton to take away: only written otherwise, so not changed
        ("OCC", "CCO"),
    ],
)
def test_the_parent_is_without_salts_solvents_and_charges(tmp_path: Path, written: str, parent: str) -> None:
    rows: list[dict[str, object]] = [{"smiles": text, "y": k / 7} for k, text in enumerate((written, *SMILES))]
    source = table(tmp_path, rows, standardize="parent")
    found = source.smiles()[0]
    new = open_custom([found, parent], schema=source.schema)
    one, other = (reading.graph for reading in new.read_all(new.records(ALL)))
    assert one is not None
    assert other is not None
    assert np.array_equal(np.sort(one.node_categories, 0), np.sort(other.node_categories, 0))
    assert [change[2:4] for change in source.changes()] == ([(written, found)] if found != written else [])
    assert (found != written) == ("." in written)
    assert source.columns(["*"]).get("smiles_original", [written])[0] == written


def test_tautomers_are_unified_only_if_asked(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"smiles": text, "y": k / 7} for k, text in enumerate(("CC(O)=CC", "CCC(C)=O", *SMILES))
    ]
    assert table(tmp_path, rows, standardize="parent").smiles()[0] == "CC(O)=CC"
    assert table(tmp_path, rows, standardize="tautomer").smiles()[0] == "CCC(C)=O"


def test_what_cannot_be_read_stays_and_is_an_error_of_its_row(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"smiles": text, "y": k / 7} for k, text in enumerate(("C1CC", "", *SMILES))]
    source = table(tmp_path, rows, standardize="parent")
    first, second, third = source.read_all(source.records(ALL)[:3])
    assert "C1CC" in first.error
    assert "missing" in second.error
    assert not third.error


def split_of(source: Any, row: int) -> str:
    return next(split for split in SPLITS if row in source.records(split))


@pytest.mark.parametrize(("how", "label"), [("mean", 2.0), ("median", 1.5)])
def test_rows_of_one_molecule_become_one(tmp_path: Path, how: str, label: float) -> None:
    copies = [("CCO", 1.0), ("OCC", 1.5), ("C(C)O", 3.5), ("CCO", "")]
    rows: list[dict[str, object]] = [{"smiles": text, "y": y} for text, y in copies]
    rows += [{"smiles": text, "y": k / 7} for k, text in enumerate(SMILES) if text != "CCO"]
    source = table(tmp_path, rows, replicates=how)
    readings = source.read_all(source.records(ALL))
    assert len(readings) == len(rows) - 3
    assert readings[0].graph.graph_targets == pytest.approx([label])
    assert sum(len(source.records(split)) for split in SPLITS) == len(readings)
    merged, *gone = source.changes()
    assert merged[:4] == (1, "y", "1 | 1.5 | 3.5 | ", f"{label:g}")
    assert "different labels" in merged[4]
    assert [change[0] for change in gone] == [2, 3, 4]


def test_drop_leaves_out_molecules_that_contradict_themselves(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"smiles": "CCO", "y": 1.0}, {"smiles": "OCC", "y": 2.0}]
    rows += [{"smiles": "CCN", "y": 5.0}, {"smiles": "NCC", "y": 5.0}]
    rows += [{"smiles": text, "y": k / 7} for k, text in enumerate(SMILES) if text not in ("CCO", "CCN")]
    source = table(tmp_path, rows, replicates="drop")
    assert source.smiles()[0] == "CCN"
    assert "CCO" not in source.smiles()
    assert len(source.records(ALL)) == len(rows) - 3


def test_classes_take_the_most_common_label(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"smiles": "CCO", "y": each} for each in ("yes", "no", "yes")]
    rows += [{"smiles": "CCN", "y": each} for each in ("yes", "no")]
    rows += [{"smiles": text, "y": ("yes", "no")[k % 2]} for k, text in enumerate(SMILES) if text not in ("CCO", "CCN")]
    source = table(tmp_path, rows, replicates="mean")
    ethanol, amine = (reading.graph.graph_targets for reading in source.read_all(source.records(ALL)[:2]))
    assert source.schema.classes[int(ethanol[0])] == "yes"
    assert np.isnan(amine[0])


def test_other_conditions_and_splits_are_no_replicates(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"smiles": text, "t": k % 2, "y": k / 7} for k, text in enumerate(SMILES * 2)]
    rows[0]["t"] = 5
    assert len(table(tmp_path, rows, replicates="mean", graph_features=["t"]).records(ALL)) == 21
    split: list[dict[str, object]] = [
        {"smiles": text, "split": ("train", "test")[k // 20], "y": k / 7} for k, text in enumerate(SMILES * 2)
    ]
    assert len(table(tmp_path, split, replicates="mean").records(ALL)) == 40


def test_bounds_are_not_averaged(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"smiles": "CCO", "y": y} for y in (">5", "4.5")]
    rows += [{"smiles": text, "y": k / 7} for k, text in enumerate(SMILES) if text != "CCO"]
    assert len(table(tmp_path, rows, replicates="mean").records(ALL)) == len(rows)


def test_words_for_no_number_do_not_keep_replicates_apart(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"smiles": "CCO", "y": y} for y in ("1.5", "n/a", "2.5")]
    rows += [{"smiles": text, "y": k / 7} for k, text in enumerate(SMILES) if text != "CCO"]
    source = table(tmp_path, rows, replicates="mean")
    assert len(source.records(ALL)) == len(rows) - 2
    assert source.read_all(source.records(ALL)[:1])[0].graph.graph_targets == pytest.approx([2.0])


def test_messages_name_the_rows_of_the_file(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"smiles": "CCO", "y": 1.0},
        {"smiles": "OCC", "y": 2.0},
        {"smiles": "C1CC", "y": 3},
    ]
    rows += [{"smiles": text, "y": k / 7} for k, text in enumerate(SMILES[1:])]
    source = table(tmp_path, rows, replicates="mean")
    assert "row 3: " in source.read_all(source.records(ALL))[1].error


def test_labels_of_atoms_are_left_alone(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"smiles": text, "y": str([0.5] * len(text))} for text in ("CCO", "CCN", "CCC") * 4
    ]
    for key, value in (("standardize", "parent"), ("replicates", "mean")):
        with pytest.raises(DataError, match="atoms"):
            table(tmp_path, rows, **{key: value})
    with pytest.raises(DataError, match=r"overrides\.standardize"):
        table(tmp_path, rows, standardize="salts")


def test_a_model_reads_new_molecules_as_it_was_trained(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"smiles": text, "y": k / 7} for k, text in enumerate((*SMILES, "CC(=O)[O-].[Na+]"))
    ]
    settings = [*TINY, "overrides.standardize=parent", "overrides.replicates=mean", "trainer.baseline=false"]
    egt.train(write_csv(tmp_path / "t.csv", rows), "y", set=settings, out=tmp_path / "run", progress=False)
    with (tmp_path / "run" / "changes.csv").open() as file:
        changes = [*csv.DictReader(file)]
    assert [change["row"] for change in changes] == ["21", "5", "21"]  # standardized, then merged with acetic acid
    model = egt.load(tmp_path / "run")
    acid, salt = model.predict(["CC(=O)O", "CC(=O)[O-].[Na+]"])
    assert salt.values == pytest.approx(acid.values)
    assert (salt.familiarity, salt.warning) == (1.0, "")
    assert len(model.predict(["CCO", "CCO"])) == 2, "new rows are never merged"
    assert len(model.predict_split("train")) + len(model.predict_split("val")) + len(model.predict_split("test")) == 20
