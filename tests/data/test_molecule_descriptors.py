"""Descriptors as targets: their numbers, which are chosen, and what becomes of molecules that have none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egt.data.custom import open_custom
from egt.data.molecule_descriptors import (
    KIND,
    Described,
    choose_targets,
    compute_targets,
    describe,
    descriptor_names,
    missing_descriptors,
    with_descriptors,
)
from egt.data.source import GraphsSource, TargetSchema
from egt.errors import DataError
from egt.graph import Graph

Chem = pytest.importorskip("rdkit.Chem")
NAMES = ("MolWt", "TPSA")
SMILES = ["CCO", "c1ccccc1O", "CC(=O)Oc1ccccc1C(=O)O", "CCN(CC)CC", "C1CCNCC1", "CC(C)Cc1ccc(cc1)C(C)C(=O)O"]


def test_numbers_are_those_of_rdkit_in_half_precision() -> None:
    from rdkit.Chem import Crippen, Descriptors, rdFingerprintGenerator

    molecule = Chem.MolFromSmiles("CC(=O)Oc1ccccc1C(=O)O")
    counts = rdFingerprintGenerator.GetMorganGenerator(radius=2).GetSparseCountFingerprint(molecule)
    fragment, times = max(counts.GetNonzeroElements().items(), key=lambda item: item[1])
    names = ("MolWt", "MolLogP", f"fragment {fragment}", "fragment 1")
    expected = [Descriptors.MolWt(molecule), Crippen.MolLogP(molecule), times, 0]  # type: ignore[attr-defined]
    found = compute_targets("CC(=O)Oc1ccccc1C(=O)O", names)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_a_number_beyond_half_precision_is_missing() -> None:
    assert np.isnan(compute_targets("CC(C)CC(C)CC(C)CC(C)CC(C)CC(C)CC(C)CC(C)CC(C)CC(C)CCCCCC", ["Ipc"])).all()


def test_constant_descriptors_are_dropped_and_statistics_are_those_of_the_molecules() -> None:
    chosen = choose_targets(SMILES)
    assert "MolWt" in chosen.names
    assert "NumRadicalElectrons" not in chosen.names  # none has any
    weights = [compute_targets(smiles, ["MolWt"])[0] for smiles in SMILES]
    k = chosen.names.index("MolWt")
    assert chosen.mean[k] == pytest.approx(np.mean(weights, dtype=np.float64), rel=1e-6)
    assert chosen.std[k] == pytest.approx(np.std(weights, dtype=np.float64), rel=1e-6)


def test_fragments_that_all_molecules_have_say_less_than_those_of_half() -> None:
    chosen = choose_targets(["CCO", "CCN", "CCCO", "CCCN"])
    oxygen, hydrogen = (compute_targets(text, chosen.names)[-4:] for text in ("CCO", "CCN"))
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


def test_descriptors_that_this_rdkit_does_not_have_are_named(tmp_path: Path) -> None:
    (tmp_path / "molecules.csv").write_text("smiles\nCCO\n")
    source = open_custom(tmp_path / "molecules.csv", labeled=False)
    with pytest.raises(DataError, match="Tomorrow"):
        with_descriptors(source, ["MolWt", "fragment 12", "Tomorrow"])


def test_only_molecules_have_descriptors() -> None:
    graph = Graph(num_nodes=1, edge_index=np.zeros((2, 0)))
    source = GraphsSource({"train": [graph]}, TargetSchema("graph", "regression", ("y",)))
    with pytest.raises(DataError, match="molecules"):
        with_descriptors(source, ["MolWt"])


def in_common(found: Described) -> int:
    one, other = found.keys
    return len(np.intersect1d(one, other))


def test_they_do_not_depend_on_the_spelling() -> None:
    one, other = describe(["OCC", "CCO"], NAMES).keys
    assert np.array_equal(one, other)
    values = describe(["OCC", "CCO"], descriptor_names()).values
    assert np.array_equal(values[0], values[1])
    assert not np.array_equal(*describe(["CCO", "COC"], NAMES).keys)


def test_mirror_images_differ_in_their_fragments() -> None:
    left, right = describe(["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"], NAMES).keys
    assert len(left) == len(right)
    assert not np.array_equal(left, right)


def test_keys_in_common_count_fragments_as_often_as_both_have_them() -> None:
    pytest.importorskip("rdkit")
    from rdkit.Chem import MolFromSmiles
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    generator = GetMorganGenerator(radius=2, includeChirality=True)
    pair = ["CCCCCCO", "CCCN(CC)C(=O)c1ccccc1"]
    one, other = (generator.GetSparseCountFingerprint(MolFromSmiles(text)).GetNonzeroElements() for text in pair)
    expected = sum(min(count, other.get(number, 0)) for number, count in one.items())
    assert expected > 3
    found = describe(pair, NAMES)
    assert in_common(replace(found, keys=[each[each < KIND] for each in found.keys])) == expected


def test_bins_count_fragments() -> None:
    found = describe(["CCCCO"], NAMES)
    kinds = [np.count_nonzero(found.keys[0] // KIND == kind) for kind in range(3)]
    assert 0 not in kinds
    assert found.counts(64).sum() == len(found.keys[0])
    assert found.counts(1).tolist() == [kinds]


def test_descriptors_are_finite_and_named() -> None:
    names = descriptor_names()
    assert len(names) > 150
    assert not missing_descriptors(names)
    assert missing_descriptors([*names, "Charm"]) == ["Charm"]
    values = describe(["C", "[Na+].[Cl-]", "c1ccccc1", "[2H]C", "CC(C)(C)(C)C"], names).values
    assert np.isfinite(values).all()
    assert np.allclose(describe(["c1ccccc1"], ["MolWt"]).values, np.log1p(78.114), atol=1e-4)


def test_a_text_that_is_no_molecule_is_an_error() -> None:
    with pytest.raises(DataError):
        describe(["CCO", "no molecule"], NAMES)
