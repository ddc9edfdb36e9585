"""Descriptors as targets: their numbers, which are chosen, and what becomes of molecules that have none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from egt.data.custom import open_custom
from egt.data.molecule_descriptors import check_descriptors, choose_descriptors, describe, with_descriptors
from egt.data.source import GraphsSource, TargetSchema
from egt.errors import DataError
from egt.graph import Graph

Chem = pytest.importorskip("rdkit.Chem")
SMILES = ["CCO", "c1ccccc1O", "CC(=O)Oc1ccccc1C(=O)O", "CCN(CC)CC", "C1CCNCC1", "CC(C)Cc1ccc(cc1)C(C)C(=O)O"]


def test_numbers_are_those_of_rdkit_in_half_precision() -> None:
    from rdkit.Chem import Crippen, Descriptors, rdFingerprintGenerator

    molecule = Chem.MolFromSmiles("CC(=O)Oc1ccccc1C(=O)O")
    counts = rdFingerprintGenerator.GetMorganGenerator(radius=2).GetSparseCountFingerprint(molecule)
    fragment, times = max(counts.GetNonzeroElements().items(), key=lambda item: item[1])
    names = ("MolWt", "MolLogP", f"fragment {fragment}", "fragment 1")
    expected = [Descriptors.MolWt(molecule), Crippen.MolLogP(molecule), times, 0]  # type: ignore[attr-defined]
    found = describe("CC(=O)Oc1ccccc1C(=O)O", names)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_a_number_beyond_half_precision_is_missing() -> None:
    assert np.isnan(describe("CC(C)CC(C)CC(C)CC(C)CC(C)CC(C)CC(C)CC(C)CC(C)CC(C)CCCCCC", ["Ipc"])).all()


def test_constant_descriptors_are_dropped_and_statistics_are_those_of_the_molecules() -> None:
    chosen = choose_descriptors(SMILES)
    assert "MolWt" in chosen.names
    assert "NumRadicalElectrons" not in chosen.names  # none has any
    weights = [describe(smiles, ["MolWt"])[0] for smiles in SMILES]
    k = chosen.names.index("MolWt")
    assert chosen.mean[k] == pytest.approx(np.mean(weights, dtype=np.float64), rel=1e-6)
    assert chosen.std[k] == pytest.approx(np.std(weights, dtype=np.float64), rel=1e-6)


def test_fragments_that_all_molecules_have_say_less_than_those_of_half() -> None:
    chosen = choose_descriptors(["CCO", "CCN", "CCCO", "CCCN"])
    oxygen, hydrogen = (describe(text, chosen.names)[-4:] for text in ("CCO", "CCN"))
    assert not np.array_equal(oxygen, hydrogen)


def test_rows_keep_their_place_and_unreadable_ones_their_error(tmp_path: Path) -> None:
    file = tmp_path / "molecules.csv"
    file.write_text("smiles\nCCO\nnonsense\nc1ccccc1\n")
    source = with_descriptors(open_custom(file, labeled=False), ["MolWt", "RingCount"])
    readings = source.read_all(source.records("all"))
    assert [reading.graph is None for reading in readings] == [False, True, False]
    assert readings[1].error
    last = readings[2].graph
    assert last is not None
    assert last.graph_targets is not None
    np.testing.assert_allclose(last.graph_targets, [78.11, 1], rtol=1e-3)
    assert source.card.target.names == ("MolWt", "RingCount")


def test_other_descriptors_are_other_content(tmp_path: Path) -> None:
    file = tmp_path / "molecules.csv"
    file.write_text("smiles\nCCO\nCCN\n")
    source = open_custom(file, labeled=False)
    prints = {with_descriptors(source, names).fingerprint() for names in (["MolWt"], ["RingCount"])}
    assert len({*prints, source.fingerprint()}) == 3


def test_descriptors_that_this_rdkit_does_not_have_are_named() -> None:
    with pytest.raises(DataError, match="Tomorrow"):
        check_descriptors(["MolWt", "fragment 12", "Tomorrow"])


def test_only_molecules_have_descriptors() -> None:
    graph = Graph(num_nodes=1, edge_index=np.zeros((2, 0)))
    source = GraphsSource({"train": [graph]}, TargetSchema("graph", "regression", ("y",)))
    with pytest.raises(DataError, match="molecules"):
        with_descriptors(source, ["MolWt"])
