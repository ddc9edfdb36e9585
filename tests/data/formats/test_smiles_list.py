"""Lists of SMILES, with names or without, and tables that are called .txt."""

from __future__ import annotations

from pathlib import Path

import pytest

from egt.data.custom import open_custom, read_raw
from egt.data.schema import CustomSchema
from egt.errors import DataError

MOLECULES = CustomSchema(format="molecules", level="graph", kind="regression", targets=("y",), smiles="smiles")


def test_a_molecule_a_line_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.smi").write_text("CCO ethanol 96 %\nc1ccccc1\n\nCCN\tethylamine\nCC ethane\n\n")
    source = open_custom(tmp_path / "a.smi", schema=MOLECULES)
    readings = source.read_all(source.records("all"))
    assert source.smiles() == ["CCO", "c1ccccc1", "", "CCN", "CC"]
    assert [reading.id for reading in readings] == ["ethanol 96 %", "row 2", "row 3", "ethylamine", "ethane"]
    assert [reading.graph is None for reading in readings] == [False, False, True, False, False]
    assert "the SMILES is missing" in readings[2].error


def test_a_line_of_names_on_top_is_no_molecule(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("smiles\nCCO\nCC\n")
    assert list(read_raw(tmp_path / "a.txt").table["smiles"]) == ["CCO", "CC"]


def test_a_table_that_is_called_txt(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("id\tSMILES\ty\na\tCCO\t0.5\nb\tCC\t1.5\nc\tC\t2.5\n")
    source = open_custom(tmp_path / "a.txt")
    assert (source.schema.smiles, source.schema.targets, source.schema.id) == ("SMILES", ("y",), "id")


def test_an_empty_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.smi").write_text("\n\n")
    with pytest.raises(DataError, match=r"a\.smi"):
        read_raw(tmp_path / "a.smi")
