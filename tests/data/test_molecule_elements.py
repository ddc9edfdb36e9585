"""Elements are read from the text of a SMILES as RDKit reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from egt.data.custom import open_custom
from egt.data.molecules import elements_of
from tests.cli.runs import molecules

TEXTS = [
    "CCO", "c1ccccc1Cl", "[Fe+2]", "C[C@@H](N)C(=O)O", "[nH]1cccc1", "N[Pt](N)(Cl)Cl", "[13CH4]", "[se]1cccc1", "BrCI",
    "[Na+].[Cl-]", "[Sc]", "OB(O)c1ccsc1", "[2H]C([2H])[2H]", "C[Si](C)(C)C", "P(=O)(F)F", "[Cu+2].[O-]S(=O)(=O)[O-]",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_elements_are_those_of_rdkit(text: str) -> None:
    chem = pytest.importorskip("rdkit.Chem")
    assert elements_of([text]) == {atom.GetSymbol() for atom in chem.MolFromSmiles(text).GetAtoms()} - {"H"}


def test_any_atom_is_told() -> None:
    assert elements_of(["*CC"]) == {"*", "C"}
    assert elements_of(["[*:1]CC"]) == {"*", "C"}


def test_elements_of_many_molecules_together() -> None:
    assert elements_of(["CC", "BrC", "[Fe+2]", "", "N"]) == {"C", "Br", "Fe", "N"}


def test_an_open_bracket_hides_nothing_of_the_next_molecule() -> None:
    assert elements_of(["[C", "[Fe+2]CC"]) == {"C", "Fe"}


@pytest.mark.parametrize("text", ["c1ccccc1 benzene", "CCO\tBrick", "CC |$R1;$|", " CC", " "])
def test_a_name_behind_a_molecule_has_no_elements(text: str) -> None:
    assert elements_of([text]) <= {"C", "O"}


def test_a_name_behind_a_molecule_is_not_warned_of(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    trained = open_custom(molecules(tmp_path / "data.csv", y=range(20)))
    new = open_custom(["CCO benzene", "[Fe] iron"], schema=trained.schema)
    assert [new.read(record).warning for record in new.records("all")] == ["", "not in the training molecules: Fe"]
