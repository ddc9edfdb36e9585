"""Places of atoms: those of a file, those of RDKit, and how many hydrogens have one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.data.custom import open_custom
from egt.data.molecules import MOST_CONFORMERS, Placement, graph_from_smiles, with_coordinates
from egt.errors import DataError
from egt.graph import Graph

chem = pytest.importorskip("rdkit.Chem")
from rdkit.Chem import rdDistGeom  # noqa: E402

RDKIT = Placement("rdkit", (3,))
FILE = Placement("file", (3,))


def placed(smiles: str = "C[C@H](O)F") -> Any:
    molecule = chem.AddHs(chem.MolFromSmiles(smiles))
    rdDistGeom.EmbedMolecule(molecule, randomSeed=7)
    return molecule


def distances(graph: Graph) -> np.ndarray[Any, Any]:
    places = graph.positions
    assert places is not None
    return np.linalg.norm(places[:, None] - places, axis=-1)


def by_element(graph: Graph) -> np.ndarray[Any, Any]:
    """The distances in an order that does not depend on that of the atoms: by elements, then by size."""
    elements = graph.node_categories[:, 0]
    low, high = np.minimum(elements[:, None], elements), np.maximum(elements[:, None], elements)
    found = distances(graph)
    return found.ravel()[np.lexsort((found.ravel().round(4), high.ravel(), low.ravel()))]


@pytest.mark.parametrize("hydrogens", [False, True])
def test_the_coordinates_of_a_file_go_to_their_atoms(hydrogens: bool) -> None:
    molecule = placed()
    text = with_coordinates(molecule)
    assert text is not None
    graph, warning = graph_from_smiles(text, canonical=True, hydrogens=hydrogens, placement=FILE)
    assert (graph.num_nodes, warning) == (9 if hydrogens else 4, "")
    reference = molecule if hydrogens else chem.RemoveHs(molecule)
    own = Graph(
        num_nodes=reference.GetNumAtoms(),
        edge_index=np.zeros((2, 0), int),
        node_categories=[[atom.GetAtomicNum() - 1] for atom in reference.GetAtoms()],
        positions=reference.GetConformer().GetPositions(),
    )
    np.testing.assert_allclose(by_element(graph), by_element(own), atol=1e-4)


def test_hydrogens_that_a_file_leaves_out_are_placed_near_their_atom() -> None:
    text = with_coordinates(chem.RemoveHs(placed("CCO")))
    assert text is not None
    graph, _ = graph_from_smiles(text, hydrogens=True, placement=FILE)
    assert graph.num_nodes == 9
    bonds = distances(graph)[tuple(graph.edge_index)]
    assert ((bonds > 0.8) & (bonds < 1.7)).all()


@pytest.mark.parametrize("hydrogens", [False, True])
def test_every_spelling_has_the_same_conformer(hydrogens: bool) -> None:
    spellings = ("C[C@H](O)c1ccncc1", "c1cc([C@@H](O)C)ccn1", "[H]O[C@@H](C)c1ccncc1")
    assert len({chem.CanonSmiles(text) for text in spellings}) == 1
    graphs = [graph_from_smiles(text, canonical=True, hydrogens=hydrogens, placement=RDKIT)[0] for text in spellings]
    np.testing.assert_allclose(by_element(graphs[0]), by_element(graphs[2]), atol=1e-5)
    np.testing.assert_allclose(by_element(graphs[0]), by_element(graphs[1]), atol=1e-5)
    bonds = distances(graphs[0])[tuple(graphs[0].edge_index)]
    assert ((bonds > 0.8) & (bonds < 1.7)).all()


def test_several_conformers() -> None:
    graph, _ = graph_from_smiles("CCCCCCO", placement=Placement("rdkit", (4, 3)))
    places = graph.positions
    assert places is not None
    assert places.shape == (7, 4, 3)
    lengths = np.linalg.norm(places[0] - places[-1], axis=-1)
    assert len({*lengths.round(3).tolist()}) > 1


def test_what_cannot_be_placed_keeps_its_row() -> None:
    graph, warning = graph_from_smiles("CCO", placement=FILE)
    assert np.isnan(graph.positions).all()
    assert "no coordinates" in warning
    flat, warning = graph_from_smiles("CC |(0,0,;1,0,)|", placement=FILE)
    assert np.isnan(flat.positions).all()
    open_ends, warning = graph_from_smiles("*CCC*", placement=RDKIT)
    assert np.isnan(open_ends.positions).all()
    assert "RDKit finds no conformer" in warning


def sdf(path: Path, molecules: list[Any]) -> Path:
    with chem.SDWriter(str(path)) as writer:
        for number, molecule in enumerate(molecules):
            molecule.SetProp("y", str(number))
            writer.write(molecule)
    return path


def test_positions_of_an_sdf_are_read_on_request(tmp_path: Path) -> None:
    texts = ["CCO", "CCN", "c1ccccc1O", "CC(=O)O"]
    path = sdf(tmp_path / "a.sdf", [placed(text) for text in texts])
    plain = open_custom(path, target="y")
    assert plain.smiles() == ["CCO", "CCN", "Oc1ccccc1", "CC(=O)O"]
    assert plain.schema.features().positions == ()
    assert any(row[0] == "positions" and "the file has" in row[1] for row in plain.schema.rows())
    source = open_custom(path, target="y", overrides={"positions": "file", "hydrogens": True})
    assert source.smiles() == plain.smiles()
    graphs = [reading.graph for reading in source.read_all(source.records("all"))]
    assert [graph.num_nodes for graph in graphs if graph] == [9, 10, 13, 8]
    assert all(graph is not None and np.isfinite(graph.positions).all() for graph in graphs)
    again = open_custom(["CCO"], schema=source.schema)
    [reading] = again.read_all(again.records("all"))
    assert "no coordinates" in reading.warning
    assert source.fingerprint() != plain.fingerprint()


def test_a_flat_molecule_among_others_keeps_its_row(tmp_path: Path) -> None:
    path = sdf(tmp_path / "a.sdf", [placed("CCO"), chem.MolFromSmiles("CCN"), placed("CCC")])
    source = open_custom(path, target="y", overrides={"positions": "file"})
    first, flat, _ = source.read_all(source.records("all"))
    assert not flat.error
    assert "no coordinates" in flat.warning
    assert first.graph is not None
    assert np.isfinite(first.graph.positions).all()


def test_molecules_of_rdkit_bring_their_places() -> None:
    molecules = [placed("CCO"), placed("CCN")]
    near = open_custom(molecules, labeled=False, overrides={"positions": "file"})
    graphs = [reading.graph for reading in near.read_all(near.records("all"))]
    assert all(graph is not None and np.isfinite(graph.positions).all() for graph in graphs)
    for molecule in molecules:
        places = molecule.GetConformer().GetPositions()
        for atom, place in enumerate(places.tolist()):
            molecule.GetConformer().SetAtomPosition(atom, [2 * number for number in place])
    far = open_custom(molecules, labeled=False, overrides={"positions": "file"})
    assert far.fingerprint() != near.fingerprint()


def test_merged_replicates_keep_the_places_of_their_row(tmp_path: Path) -> None:
    path = sdf(tmp_path / "a.sdf", [placed("CCO"), placed("CCO"), placed("CCCN")])
    source = open_custom(path, target="y", overrides={"positions": "file", "replicates": "mean"})
    graphs = [reading.graph for reading in source.read_all(source.records("all"))]
    assert [graph.num_nodes for graph in graphs if graph] == [3, 4]


def test_mol2(tmp_path: Path) -> None:
    block = (
        "@<TRIPOS>MOLECULE\nmethanol\n 2 1 1 0 0\nSMALL\nNO_CHARGES\n@<TRIPOS>ATOM\n"
        "1 C1 0.0 0.0 0.0 C.3 1 LIG 0.0\n2 O1 1.4 0.0 0.1 O.3 1 LIG 0.0\n@<TRIPOS>BOND\n1 1 2 1\n"
    )
    (tmp_path / "a.mol2").write_text("# remark\n" + block + block.replace("methanol", "broken").replace("O.3", "Zz.9"))
    source = open_custom(tmp_path / "a.mol2", overrides={"positions": "file"}, labeled=False)
    first, second = source.read_all(source.records("all"))
    assert first.graph is not None
    np.testing.assert_allclose(distances(first.graph)[0, 1], np.hypot(1.4, 0.1), atol=1e-5)
    assert second.error


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"positions": "x"}, "file"),
        ({"positions": "file"}, "coordinates"),
        ({"conformers": 3}, "positions=rdkit"),
        ({"positions": "rdkit", "conformers": MOST_CONFORMERS + 1}, "overrides.conformers"),
        ({"hydrogens": "maybe"}, "overrides.hydrogens"),
        ({"positions": "rdkit", "smiles": ["smiles", "other"]}, "places"),
    ],
)
def test_wrong_requests_are_refused(overrides: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("smiles,other,y\nCCO,C,1\nCCN,C,2\nCCC,C,3.5\n")
    with pytest.raises(DataError, match=message):
        open_custom(tmp_path / "a.csv", target="y", overrides=overrides)
