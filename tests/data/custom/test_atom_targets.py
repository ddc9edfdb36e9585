"""Lists in the cells of a table of molecules: targets of atoms and bonds, in the order of the SMILES."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.data.columns import column_of_values, holds_lists, objects
from egt.data.custom import CustomSource, open_custom
from egt.data.labels import lists_of
from egt.errors import DataError

Chem = pytest.importorskip("rdkit.Chem")

ATOMS = """smiles,split,charge
CCO,train,"[0.1, 0.2, -0.3]"
C1CC1,train,1;2;3.5
CC=O,val,0.5 nan 0.25
O,test,7
CC,test,
"""
BONDS = """smiles,split,order
CCO,train,"[1, 1]"
CC=O,train,1;2
C,val,[]
C1CC1,test,"['1', '1', '2']"
"""


def opened(tmp_path: Path, content: str = ATOMS, **options: Any) -> CustomSource:
    path = tmp_path / "atoms.csv"
    path.write_text(content)
    return open_custom(path, **options)


def targets(source: CustomSource, level: str = "node") -> list[Any]:
    readings = source.read_all(list(source.records("all")))
    assert [reading.error for reading in readings] == [""] * len(readings)
    return [getattr(reading.graph, f"{level}_targets").tolist() for reading in readings]


@pytest.mark.parametrize(
    ("cell", "values"),
    [
        ("[0.1, null, 3]", [0.1, np.nan, 3.0]),
        ("[0.1, nan, None]", [0.1, np.nan, np.nan]),
        ("[0.1 0.2\n 3]", [0.1, 0.2, 3.0]),
        ("0.1;;3", [0.1, np.nan, 3.0]),
        (" 0.1  0.2 ", [0.1, 0.2]),
        ("5", [5.0]),
        ("[true, false]", [1.0, 0.0]),
    ],
)
def test_spellings_of_numbers(cell: str, values: list[float]) -> None:
    np.testing.assert_array_equal(lists_of(objects([cell])).values, values)
    assert holds_lists(objects([None, cell])) == (cell != "5")


def test_lists_of_texts_vectors_and_nothing() -> None:
    found = lists_of(objects(['["a b", "c"]', None, "['d', 'e']", "[]"]))
    assert found.values.tolist() == ["a b", "c", "d", "e"]
    assert found.counts.tolist() == [2, 0, 2, 0]
    assert found.missing.tolist() == [False, True, False, False]
    vectors = lists_of(column_of_values([[1, 2], [3, None]], "x"))
    np.testing.assert_array_equal(vectors.values, [1, 2, 3, np.nan])
    assert vectors.counts.tolist() == [2, 2]
    assert lists_of(objects(["[" * 100_000])).counts.tolist() == [1], "too deep for JSON is no list"


@pytest.mark.parametrize("cell", ["[Na+].[Cl-]", "[13CH4]", "[nH]", "very soluble", "CCO", "0.5"])
def test_texts_that_are_no_lists(cell: str) -> None:
    assert not holds_lists(objects([cell]))


def test_one_value_per_atom(tmp_path: Path) -> None:
    source = opened(tmp_path, target="charge")
    assert (source.schema.level, source.schema.kind) == ("node", "regression")
    rows = {what: decision for what, decision, _ in source.schema.rows()}
    assert rows["level"] == "node (the lists of 'charge' have one value per atom)"
    expected = [[[0.1], [0.2], [-0.3]], [[1.0], [2.0], [3.5]], [[0.5], [np.nan], [0.25]], [[7.0]], [[np.nan]] * 2]
    for found, right in zip(targets(source), expected, strict=True):
        np.testing.assert_array_equal(found, right)


def test_the_order_is_that_of_the_smiles(tmp_path: Path) -> None:
    """Values that name the element of each atom come out beside it, however the SMILES is written."""
    texts = ["OC(=O)c1ccccc1N", "N#CC1CC1F", "ClC(Br)I"]
    molecules = [Chem.MolFromSmiles(text) for text in texts]
    cells = [";".join(str(atom.GetAtomicNum()) for atom in molecule.GetAtoms()) for molecule in molecules]
    table = "smiles,y\n" + "".join(f"{text},{cell}\n" for text, cell in zip(texts, cells, strict=True))
    source = opened(tmp_path, table, target="y", overrides={"kind": "regression"})
    for row, reading in enumerate(source.read_all(list(source.records("all")))):
        assert reading.graph is not None
        assert reading.graph.node_targets is not None
        np.testing.assert_array_equal(reading.graph.node_targets[:, 0], reading.graph.node_categories[:, 0] + 1)
        assert source.names(row) == [atom.GetSymbol() for atom in molecules[row].GetAtoms()]
    broken = open_custom([("C(", "CO")], schema=source.schema.model_copy(update={"more_smiles": ("other",)}))
    assert broken.names(0) == ["C", "O"]


def test_one_value_per_bond_asked_once(tmp_path: Path) -> None:
    source = opened(tmp_path, BONDS, target="order")
    assert (source.schema.level, source.schema.kind, source.schema.classes) == ("edge", "binary", ("1", "2"))
    assert targets(source, "edge") == [[[0.0], [0.0]], [[0.0], [1.0]], [], [[0.0], [0.0], [1.0]]]
    graph = source.read(source.records("test")[0]).graph
    assert graph is not None
    bonds = Chem.MolFromSmiles("C1CC1").GetBonds()
    assert graph.query_index is not None
    assert graph.query_index.T.tolist() == [[bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()] for bond in bonds]
    new = open_custom(["CCO"], schema=source.schema)
    asked = new.read(new.records("all")[0]).graph
    assert asked is not None
    assert asked.query_index is not None
    assert asked.query_index.shape == (2, 2)
    assert asked.edge_targets is None


def test_a_wrong_count_names_row_expected_and_given(tmp_path: Path) -> None:
    source = opened(tmp_path, ATOMS.replace("1;2;3.5", "1;2"), target="charge")
    bad = source.read_all(list(source.records("all")))[1]
    assert "atoms.csv row 2: target 'charge' holds 2 values, the molecule has 3 atoms" in bad.error
    with pytest.raises(DataError, match="'q'"):
        opened(tmp_path, "smiles,q\nCCO,1 2 3 4 5\nCC,1 2 3 4\n", target="q")
    with pytest.raises(DataError, match="--task"):
        opened(tmp_path, "smiles,q\nC1CC1,1 2 3\nC1CCC1,1 2 3 4\n", target="q")
    assert opened(tmp_path, "smiles,q\nC1CC1,1 2 3\nC1CCC1,1 2 3 4\n", target="q", level="edge").schema.level == "edge"


def test_a_label_that_is_no_class_is_missing_with_a_warning(tmp_path: Path) -> None:
    schema = opened(tmp_path, BONDS, target="order").schema
    new = opened(tmp_path, "smiles,order\nCC,1\nCCO,1;9\n", schema=schema)
    good, strange = new.read_all(list(new.records("all")))
    assert good.warning == ""
    assert strange.warning.startswith("label 'order' is '9', not one of 1, 2")
    assert targets(new, "edge")[0] == [[0.0]]
    assert np.isnan(targets(new, "edge")[1][1])


def test_several_targets_and_mixtures(tmp_path: Path) -> None:
    table = "solute,solvent,a,b\nCC,O,1 2 3,\nCO,C,4 5 6,7 8 9.5\n"
    source = opened(tmp_path, table, target=["a", "b"], overrides={"smiles": ["solute", "solvent"]})
    np.testing.assert_array_equal(targets(source)[0], [[1, np.nan], [2, np.nan], [3, np.nan]])
    np.testing.assert_array_equal(targets(source)[1], [[4, 7], [5, 8], [6, 9.5]])
    with pytest.raises(DataError, match=r"'a'.*'y'"):
        opened(tmp_path, "smiles,a,y\nCCO,1 2 3,0.5\nCC,1 2,1.5\n", target=["a", "y"])


def test_frames_of_lists(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"smiles": ["CCO", "CC"], "y": [[0.5, 1.5, 2.5], [0.5, None]]})
    np.testing.assert_array_equal(targets(open_custom(frame, target="y"))[1], [[0.5], [np.nan]])
    frame.to_parquet(tmp_path / "t.parquet")
    assert targets(open_custom(tmp_path / "t.parquet", target="y"))[0] == [[0.5], [1.5], [2.5]]
    words = pandas.DataFrame({"smiles": ["CCO", "CC"], "y": [["sp3", "sp3", "no"], ["sp3", "sp3"]]})
    assert open_custom(words, target="y").schema.classes == ("no", "sp3")


def test_atoms_that_lost_their_order_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.sdf"
    with Chem.SDWriter(str(path)) as writer:
        molecule = Chem.MolFromSmiles("OCC")
        molecule.SetProp("charge", "1 2 3")
        writer.write(molecule)
    with pytest.raises(DataError, match="atoms"):
        open_custom(path, target="charge")
