from __future__ import annotations

import gzip
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egt.errors import DataError
from egt.paper.benchmarks.molecule_sets import MOLHIV, MOLPCBA, molhiv_table, ogb_folder

TWO_TASKS = replace(MOLPCBA, target=replace(MOLPCBA.target, names=("a", "b")))


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.write(text)
    return path


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    """Two tasks with missing labels, in OGB's layout."""
    _write(tmp_path / "pcba/split/scaffold/train.csv.gz", "2\n0\n")
    _write(tmp_path / "pcba/split/scaffold/valid.csv.gz", "1\n")
    _write(tmp_path / "pcba/split/scaffold/test.csv.gz", "3\n")
    table = "PCBA-1,PCBA-2,smiles,mol_id\n1.0,,CCO,CID1\n0.0,1.0,C#N,CID2\n,,c1ccccc1,CID3\n,0.0,C(,CID4\n"
    return _write(tmp_path / "pcba/mapping/mol.csv.gz", table)


def test_folder_of_ogb_gives_names_splits_and_missing_labels(mapping: Path) -> None:
    source = ogb_folder(TWO_TASKS, mapping)
    assert source.card.target.names == ("PCBA-1", "PCBA-2")
    assert dict(source.card.split_sizes) == {"train": 2, "val": 1, "test": 1}
    assert source.records("train") == [2, 0]
    graph = source.read(0).graph
    assert graph is not None
    assert graph.graph_targets is not None
    np.testing.assert_array_equal(graph.graph_targets, [1.0, np.nan])
    assert graph.num_nodes == 3
    bad = source.read(3)
    assert (bad.row, bad.id, bad.graph) == (3, "3", None)
    assert bad.error


def test_fingerprint_changes_with_the_split_files(mapping: Path) -> None:
    before = ogb_folder(TWO_TASKS, mapping).fingerprint()
    _write(mapping.parents[1] / "split/scaffold/test.csv.gz", "3\n1\n")
    assert ogb_folder(TWO_TASKS, mapping).fingerprint() != before


@pytest.mark.parametrize("content", [b"", b"2\n0,1\n", b"\x1f\x8b broken"])
def test_damaged_split_file_is_named(mapping: Path, content: bytes) -> None:
    (mapping.parents[1] / "split/scaffold/valid.csv.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"valid\.csv\.gz"):
        ogb_folder(TWO_TASKS, mapping).records("val")


def test_missing_split_file_is_named(mapping: Path) -> None:
    (mapping.parents[1] / "split/scaffold/valid.csv.gz").unlink()
    with pytest.raises(DataError, match=r"valid\.csv\.gz"):
        ogb_folder(TWO_TASKS, mapping)


def test_row_outside_the_table_is_reported(mapping: Path) -> None:
    _write(mapping.parents[1] / "split/scaffold/test.csv.gz", "4\n")
    with pytest.raises(DataError, match=r"0\.\.3"):
        ogb_folder(TWO_TASKS, mapping).records("test")


def test_number_of_tasks_must_be_that_of_the_card(mapping: Path) -> None:
    with pytest.raises(DataError, match="columns"):
        ogb_folder(MOLPCBA, mapping)


def test_table_with_a_bad_molecule_keeps_its_rows_aligned(tmp_path: Path) -> None:
    path = _write(tmp_path / "molhiv.csv.gz", "split,smiles,y\ntrain,C(,1\nvalid,CC(C)(C)(C)C,0\ntest,CO,\n")
    source = molhiv_table(path)
    readings = [source.read(row) for split in ("train", "val", "test") for row in source.records(split)]
    assert [reading.row for reading in readings] == [0, 1, 2]
    assert readings[0].error
    assert readings[1].warning
    assert readings[1].graph is not None
    missing = readings[2].graph
    assert missing is not None
    assert missing.graph_targets is not None
    assert np.isnan(missing.graph_targets).all()


def test_targets_that_are_no_numbers_are_reported(tmp_path: Path) -> None:
    path = _write(tmp_path / "molhiv.csv.gz", "split,smiles,y\ntrain,C,active\n")
    with pytest.raises(DataError, match="'y'"):
        molhiv_table(path).records("train")


def test_molhiv_has_all_rows_and_the_positives_of_the_scaffold_split(data_dir: Path) -> None:
    source = molhiv_table(data_dir / "molhiv" / "molhiv.csv.gz")
    assert dict(source.card.split_sizes) == dict(MOLHIV.split_sizes)
    table = source.load(*source.files)
    assert len(table.smiles) == 41_127
    positives = [int(table.targets[source.records(split)].sum()) for split in ("train", "val", "test")]
    assert positives == [1232, 81, 130]


def test_the_seven_relaxed_molecules_of_molhiv_are_marked(data_dir: Path) -> None:
    source = molhiv_table(data_dir / "molhiv" / "molhiv.csv.gz")
    for row in (137, 987, 12882, 18293, 30784, 30785, 35728):
        reading = source.read(row)
        assert reading.graph is not None
        assert "relaxed sanitization" in reading.warning


def test_a_table_without_empty_cells_is_read_without_pandas(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("split,smiles,y\ntrain,C,1\nvalid,CC,0\n")
    code = (
        "import sys; from pathlib import Path; from egt.paper.benchmarks.molecule_sets import molhiv_table;"
        f"table = molhiv_table(Path({str(path)!r})); targets = table.load(*table.files).targets;"
        "assert targets.tolist() == [[1.0], [0.0]], targets; assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
