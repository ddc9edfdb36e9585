from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.data import molecules as molecule_binary
from egt.data.molecules import (
    MoleculeFeatures,
    binary_form,
    features_atom_by_atom,
    ogb_features,
    parse_smiles,
    raw_numbers,
)
from egt.paper.benchmarks.molecule_sets import molhiv_table

KNOWN = [
    "CC(=O)Oc1ccccc1C(=O)O",
    "OC(=O)[C@@H](N)CC1=CNC2=CC=CC=C12",
    "F/C=C\\F",
    "CC(/Cl)=C(/F)Br",
    "[O-][n+]1ccccc1.[Na+]",
    "[13CH3][2H]",
    "[CH2]C",
    "[H][H]",
    "[Fe+2]",
    "[Pt@SP1](F)(Cl)(Br)I",
    "C12C3C4C1C5C2C3C45",
    "C" * 254,
]
STRANGE = ["[CH3:1]C", "*C", "C~C", "C" * 255]
"""A number of a map, a label, a query, and more atoms than one byte numbers."""


def molecules(smiles: list[str]) -> list[Any]:
    return [molecule for molecule, _ in parse_smiles(smiles)]


def forms(smiles: list[str]) -> list[bytes]:
    return [binary_form(molecule) for molecule in molecules(smiles)]


def assert_equal(one: MoleculeFeatures, other: MoleculeFeatures, what: str) -> None:
    for name in ("atoms", "edge_index", "bonds"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), (what, name)


def test_numbers_of_a_small_molecule() -> None:
    raw = raw_numbers(forms(["C[NH+]=[CH-]", "C"]))
    assert raw.readable.tolist() == [True, True]
    assert (raw.num_atoms.tolist(), raw.num_bonds.tolist()) == ([3, 1], [2, 0])
    # atomic number, chiral tag, degree, charge, hydrogens, radicals, hybridization, aromatic, ring
    assert raw.atoms.tolist() == [
        [6, 0, 4, 0, 3, 0, 4, 0, 0],
        [7, 0, 3, 1, 1, 0, 3, 0, 0],
        [6, 0, 2, -1, 1, 0, 3, 0, 0],
        [6, 0, 4, 0, 4, 0, 4, 0, 0],
    ]
    assert raw.bonds.tolist() == [[0, 1, 1, 0, 0], [1, 2, 2, 0, 0]]


def test_what_is_read_is_what_rdkit_answers() -> None:
    given = forms(KNOWN)
    assert raw_numbers(given).readable.all()
    for smiles, molecule, features in zip(KNOWN, molecules(KNOWN), ogb_features(given), strict=True):
        assert_equal(features, features_atom_by_atom(molecule), smiles)


def test_a_molecule_with_something_unknown_is_asked_and_the_others_keep_their_places() -> None:
    mixed = [smiles for pair in zip(STRANGE, KNOWN, strict=False) for smiles in pair]
    given = forms(mixed)
    assert raw_numbers(given).readable.tolist() == [False, True] * len(STRANGE)
    for smiles, molecule, features in zip(mixed, molecules(mixed), ogb_features(given), strict=True):
        assert_equal(features, features_atom_by_atom(molecule), smiles)


def test_nothing_is_read_from_another_version_of_the_form() -> None:
    newer = bytearray(*forms(["CCO"]))
    newer[12] = 5
    raw = raw_numbers([bytes(newer), *forms(["CCO"])])
    assert (raw.readable.tolist(), raw.num_atoms.tolist(), len(raw.atoms)) == ([False, True], [0, 3], 3)


@pytest.mark.parametrize("place", range(29, 76))
@pytest.mark.parametrize("value", [0, 7, 64, 255])
def test_a_damaged_form_is_read_within_its_bounds(place: int, value: int) -> None:
    damaged = bytearray(*forms(["CC=O"]))
    damaged[min(place, len(damaged) - 1)] = value
    raw = raw_numbers([bytes(damaged), *forms(["CCO"])])
    assert raw.readable[1]
    assert raw.atoms[-3:, 0].tolist() == [6, 6, 8]


def test_an_atom_in_brackets_has_the_hydrogens_that_it_names() -> None:
    """Whatever its valence would leave for more: no SMILES at hand writes both, so the flag is set by hand."""
    [form] = forms(["CCO"])
    in_brackets = bytearray(form)
    in_brackets[31] |= 1 << 5  # the flags of the first atom
    raw = raw_numbers([form, bytes(in_brackets)])
    assert raw.atoms[:, 4].tolist() == [3, 2, 1, 0, 2, 1]


def test_a_damaged_number_of_bonds_takes_no_memory() -> None:
    damaged = bytearray(*forms(["CC=O"]))
    damaged[24:28] = b"\xff\xff\xff\x00"
    tracemalloc.start()
    raw = raw_numbers([bytes(damaged), *forms(["CCO"])])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert raw.readable.tolist() == [False, True]
    assert most < 1_000_000


def test_without_a_compiler_rdkit_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ogb_features(forms(KNOWN))
    monkeypatch.setattr(molecule_binary, "library", lambda: None)
    assert not raw_numbers(forms(KNOWN)).readable.any()
    for smiles, one, other in zip(KNOWN, ogb_features(forms(KNOWN)), expected, strict=True):
        assert_equal(one, other, smiles)


def test_no_molecules() -> None:
    assert ogb_features([]) == []


def test_molhiv_sample_is_what_rdkit_answers(data_dir: Path) -> None:
    source = molhiv_table(data_dir / "molhiv" / "molhiv.csv.gz")
    smiles = source.load(*source.files).smiles.to_pylist()[::40]
    given = forms(smiles)
    assert raw_numbers(given).readable.all()
    for text, molecule, features in zip(smiles, molecules(smiles), ogb_features(given), strict=True):
        assert_equal(features, features_atom_by_atom(molecule), text)
