from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from egt.data.molecules import (
    OGB_ATOM_FEATURES,
    OGB_BOND_FEATURES,
    OGB_SCHEMA,
    ZINC_ATOMS,
    ZINC_BONDS,
    graph_from_smiles,
    is_flat,
)
from egt.graph import Graph
from egt.paper.benchmarks.molecule_sets import molhiv_table

SMILES = [
    "CC(=O)Oc1ccccc1C(=O)O",
    "C",
    "O=C=O",
    "C#N",
    "c1ccc2ccccc2c1",
    "Cl[C@H](/C=C/C)Br",
    "F/C=C\\F",
    "C/C=N/O",
    "[Na+].[Cl-]",
    "[NH4+]",
    "[O-][n+]1ccccc1",
    "[CH3]",
    "[CH2]C",
    "O=S(=O)(O)O",
    "FS(F)(F)(F)(F)F",
    "FP(F)(F)(F)F",
    "[Fe+2]",
    "[2H]C",
    "[H][H]",
    "*C",
    "[Au+3]",
    "[U]",
    "C1CC1.C1CCC1",
    "[NH3]->[Cu]",
    "[Re]$[Re]",
    "C~C",
    "O=[N+]([O-])c1ccccc1",
    "C[P@](=O)(O)c1ccccc1",
    "[Pt@SP1](F)(Cl)(Br)I",
    "OC(=O)[C@@H](N)CC1=CNC2=CC=CC=C12",
    "C%12CCCC%12",
    "c1cc[nH]c1",
    "B1OCCO1",
    "[C-]#[O+]",
    "[N-]=[N+]=NC",
    "CC=CC |w:1.0|",
]


def _assert_equal(smiles: str, graph: Graph) -> None:
    from ogb.utils import smiles2graph

    expected = smiles2graph(smiles)
    assert np.array_equal(graph.node_categories, expected["node_feat"]), smiles
    assert np.array_equal(graph.edge_index, expected["edge_index"]), smiles
    assert np.array_equal(graph.edge_categories, expected["edge_feat"]), smiles


@pytest.mark.parametrize("smiles", SMILES)
def test_features_equal_those_of_ogb(smiles: str) -> None:
    graph, warning = graph_from_smiles(smiles)
    assert warning == ""
    _assert_equal(smiles, graph)


def test_flat_smiles_are_those_without_stereo_hydrogen_atoms_metals_and_unusual_bonds() -> None:
    for smiles in ("CC(=O)Oc1ccccc1C#N.C%12CC%12", "c1cc[nH]c1", "[O-][N+](=O)c1ccccc1", "[NH4+].[Cl-]", "[CH2]C"):
        assert is_flat(smiles), smiles
    for smiles in ("F/C=C/F", "F\\C=C/F", "[C@H](F)(Cl)Br", "[H]C", "[2H]C", "[Fe+2]", "[Cu]", "[Na]Cl", "[Si]"):
        assert not is_flat(smiles), smiles
    for smiles in ("N->C", "C~C", "C$C", "*C", "CC |w:1|", "C C"):
        assert not is_flat(smiles), smiles


def test_vocabularies_have_the_sizes_of_ogb_and_fit_the_tables_of_the_model() -> None:
    from ogb.utils.features import get_atom_feature_dims, get_bond_feature_dims

    atoms, bonds = ([len(values) for values in each.values()] for each in (OGB_ATOM_FEATURES, OGB_BOND_FEATURES))
    assert (atoms, bonds) == (get_atom_feature_dims(), get_bond_feature_dims())
    assert all(true <= table for true, table in zip(atoms, OGB_SCHEMA.node_categories, strict=True))
    assert all(true <= table for true, table in zip(bonds, OGB_SCHEMA.edge_categories, strict=True))


def test_zinc_vocabulary_has_28_atom_and_4_bond_types() -> None:
    assert len(set(ZINC_ATOMS)) == 28
    assert len(set(ZINC_BONDS)) == 4


def test_zinc_vocabulary_is_that_of_the_data(data_dir: Path) -> None:
    import json

    meta = json.loads((data_dir / "zinc" / "zinc_meta.json").read_text())
    assert list(ZINC_ATOMS) == meta["atom_vocab"]
    assert list(ZINC_BONDS) == meta["bond_vocab"]


def test_molhiv_sample_equals_ogb(data_dir: Path) -> None:
    source = molhiv_table(data_dir / "molhiv" / "molhiv.csv.gz")
    smiles = source.load(*source.files).smiles
    for reading in source.read_all(source.records("train")[::40]):
        assert reading.graph is not None
        if not reading.warning:
            _assert_equal(smiles[reading.row].as_py(), reading.graph)


@pytest.mark.slow
def test_every_molecule_of_molhiv_equals_ogb_but_the_seven_that_rdkit_refuses(data_dir: Path) -> None:
    source = molhiv_table(data_dir / "molhiv" / "molhiv.csv.gz")
    smiles = source.load(*source.files).smiles
    relaxed = []
    for reading in source.read_all(range(len(smiles))):
        assert reading.graph is not None
        if reading.warning:
            relaxed.append(reading.row)
        else:
            _assert_equal(smiles[reading.row].as_py(), reading.graph)
    assert len(smiles) == 41_127
    assert relaxed == [137, 987, 12882, 18293, 30784, 30785, 35728]
