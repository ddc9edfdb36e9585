from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from egt.errors import DataError
from egt.paper.benchmarks.molecule_sets import PCQM4MV2, pcqm_folder, pcqm_sample, read_split_dict


class Payload:
    """Runs code when unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit('the pickle ran code')",))


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "pcqm4m-v2" / "raw" / "data.csv.gz"
    path.parent.mkdir(parents=True)
    with gzip.open(path, "wt") as file:
        file.write("idx,smiles,homolumogap\n0,CCO,3.5\n1,C#N,4.5\n2,CC(C)(C)(C)C,5.5\n3,CN,\n4,C(,\n")
    splits = {"train": [2, 0], "valid": [1], "test-dev": [3], "test-challenge": [4]}
    torch.save({name: np.array(rows) for name, rows in splits.items()}, tmp_path / "pcqm4m-v2" / "split_dict.pt")
    return path


def test_folder_of_the_challenge(raw: Path) -> None:
    source = pcqm_folder(PCQM4MV2, raw)
    assert dict(source.card.split_sizes) == {"train": 2, "val": 1, "test": 1, "test-challenge": 1}
    assert source.records("train") == [2, 0]
    first, relaxed = source.read(0), source.read(2)
    assert first.graph is not None
    assert first.graph.graph_targets is not None
    assert first.graph.graph_targets.tolist() == [3.5]
    assert relaxed.warning
    hidden = source.read(source.records("test")[0]).graph
    assert hidden is not None
    assert hidden.graph_targets is not None
    assert np.isnan(hidden.graph_targets[0])
    assert source.read(4).error


def test_splits_may_be_tensors(tmp_path: Path) -> None:
    torch.save({"train": torch.tensor([1, 2]), "valid": torch.tensor([0])}, tmp_path / "split_dict.pt")
    splits = read_split_dict(tmp_path / "split_dict.pt")
    assert {name: rows.tolist() for name, rows in splits.items()} == {"train": [1, 2], "val": [0]}


def test_a_pickle_that_runs_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "split_dict.pt"
    torch.save({"train": Payload()}, path)
    with pytest.raises(DataError, match="safely"):
        read_split_dict(path)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04"])
def test_a_damaged_split_file_is_reported(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "split_dict.pt"
    path.write_bytes(content)
    with pytest.raises(DataError, match="split_dict"):
        read_split_dict(path)


def test_other_content_is_reported(tmp_path: Path) -> None:
    torch.save({"weights": torch.zeros(2)}, tmp_path / "split_dict.pt")
    with pytest.raises(DataError, match="splits"):
        read_split_dict(tmp_path / "split_dict.pt")


def test_rows_outside_the_table_and_a_missing_split_file_are_reported(raw: Path) -> None:
    split_file = raw.parents[1] / "split_dict.pt"
    torch.save({"train": np.array([5])}, split_file)
    with pytest.raises(DataError, match=r"0\.\.4"):
        pcqm_folder(PCQM4MV2, raw).records("train")
    split_file.unlink()
    with pytest.raises(DataError, match="split_dict"):
        pcqm_folder(PCQM4MV2, raw)


def test_the_sample_has_the_first_gaps_of_the_set(data_dir: Path) -> None:
    source = pcqm_sample(data_dir / "pcqm4mv2" / "pcqm4mv2_first2k_3d.csv.gz")
    assert dict(source.card.split_sizes) == {"train": 1_600, "val": 200, "test": 199}
    targets = source.load(*source.files).targets[:2, 0]
    np.testing.assert_allclose(targets, [3.0477, 4.4110], atol=1e-4)
    assert all(source.read(row).graph is not None for row in source.records("val"))


@pytest.mark.parametrize("rows", ["a text", [[1, 2], [3]], {"a": 1}, torch.tensor([[1, 2]])])
def test_splits_of_anything_but_row_numbers_are_refused(tmp_path: Path, rows: object) -> None:
    torch.save({"train": rows}, tmp_path / "split_dict.pt")
    with pytest.raises(DataError, match="numbers"):
        read_split_dict(tmp_path / "split_dict.pt")
