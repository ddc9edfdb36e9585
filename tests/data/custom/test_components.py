"""Rows of several SMILES: one graph of components without an edge between them, whose atoms know their column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.data.custom import CustomSource, open_custom
from egt.data.encodings.encoding import ShortestPaths
from egt.data.molecules import graph_from_smiles
from egt.errors import DataError
from egt.graph import Graph

pytest.importorskip("rdkit")

TABLE = """solute,solvent,split,y
CCO,O,train,0.5
C1CC1,[Na+].[Cl-],train,1.5
CCBr,O,val,2.5
CCO,CC=O,test,3.5
"""
BOTH = {"smiles": ["solute", "solvent"]}


def opened(tmp_path: Path, content: str = TABLE, **options: Any) -> CustomSource:
    path = tmp_path / "mixtures.csv"
    path.write_text(content)
    return open_custom(path, **options)


def graphs(source: CustomSource, split: str = "all") -> list[Graph]:
    readings = source.read_all(list(source.records(split)))
    return [reading.graph for reading in readings if reading.graph is not None]


def test_the_molecules_of_a_row_are_components_of_one_graph(tmp_path: Path) -> None:
    source = opened(tmp_path, overrides=BOTH)
    assert source.schema.smiles_columns == ("solute", "solvent")
    found = graphs(source)[1]
    ring, salt = (graph_from_smiles(text)[0] for text in ("C1CC1", "[Na+].[Cl-]"))
    np.testing.assert_array_equal(found.node_categories[:, -1], [0, 0, 0, 1, 1])
    np.testing.assert_array_equal(found.node_categories[:, :-1], np.r_[ring.node_categories, salt.node_categories])
    np.testing.assert_array_equal(found.edge_index, ring.edge_index)
    assert found.graph_targets is not None
    assert found.graph_targets.tolist() == [1.5]
    last = graphs(source)[3]
    ethanol, aldehyde = (graph_from_smiles(text)[0] for text in ("CCO", "CC=O"))
    np.testing.assert_array_equal(last.edge_index, np.c_[ethanol.edge_index, aldehyde.edge_index + 3])
    np.testing.assert_array_equal(last.edge_categories, np.r_[ethanol.edge_categories, aldehyde.edge_categories])
    source.schema.features().check(found)
    assert source.schema.features().node_categories == (*(128,) * 9, 2)
    assert not found.node_categories.flags.writeable


def test_no_path_leads_from_one_component_to_another(tmp_path: Path) -> None:
    distances = ShortestPaths(4)(graphs(opened(tmp_path, overrides=BOTH))[0])
    np.testing.assert_array_equal(distances[:3, 3], 5)
    assert distances[0, 2] == 2


def test_a_ring_does_not_close_in_the_next_column(tmp_path: Path) -> None:
    source = opened(tmp_path, TABLE.replace("CCBr,O", "C1,C1"), overrides=BOTH)
    [reading] = source.read_all(list(source.records("val")))
    assert "mixtures.csv row 3: column 'solute': SMILES 'C1' cannot be read" in reading.error


def test_a_bad_row_names_the_column(tmp_path: Path) -> None:
    rows = "solute,solvent\nCCO,C(\nCCO,\nC[N](C)(C)C,O\n"
    new = opened(tmp_path, rows, schema=opened(tmp_path, overrides=BOTH).schema)
    broken, missing, relaxed = new.read_all(list(new.records("all")))
    assert "mixtures.csv row 1: column 'solvent': SMILES 'C(' cannot be read" in broken.error
    assert missing.error.endswith("mixtures.csv row 2: the SMILES of column 'solvent' is missing")
    assert relaxed.graph is not None
    assert relaxed.warning.startswith("column 'solute': read with relaxed sanitization")
    assert "not in the training molecules: N" in relaxed.warning


def test_new_data_is_read_by_names_in_the_order_of_the_model(tmp_path: Path) -> None:
    schema = opened(tmp_path, overrides=BOTH).schema
    swapped = opened(tmp_path, "solvent,solute\nO,CCO\n", schema=schema)
    np.testing.assert_array_equal(graphs(swapped)[0].node_categories[:, -1], [0, 0, 0, 1])
    other = opened(tmp_path, "b,a\nO,CCO\n", schema=schema, overrides={"smiles": ["a", "b"]})
    assert other.components() == {"a": ["CCO"], "b": ["O"]}
    assert open_custom([("CCO", "O")], schema=schema).components() == {"solute": ["CCO"], "solvent": ["O"]}
    with pytest.raises(DataError, match="--smiles"):
        opened(tmp_path, "a_smiles,b_smiles\nO,CCO\n", schema=schema)
    with pytest.raises(DataError, match="columns"):
        opened(tmp_path, "a,b\nO,CCO\n", schema=schema, overrides={"smiles": "a"})
    with pytest.raises(DataError, match="SMILES"):
        open_custom([("CCO", "O", "N")], schema=schema)


def test_wrong_columns(tmp_path: Path) -> None:
    for given, message in (
        (["solute", "solute"], "column 'solute' is given twice"),
        (["solute", "y"], "column 'y' holds numbers, not SMILES"),
        (["solute", "water"], "there is no column 'water'"),
        (3, "overrides.smiles is 3; give the names of columns"),
    ):
        with pytest.raises(DataError, match=message):
            opened(tmp_path, target="y", overrides={"smiles": given})


def test_the_same_molecules_in_other_roles_are_no_repetition(tmp_path: Path) -> None:
    rows = "solute,solvent,split,y\n" + "CCO,O,train,0.5\nO,CCO,val,9.5\nCCO,N,test,0.5\n"
    assert opened(tmp_path, rows, overrides=BOTH).warnings() == []
    [warning] = opened(tmp_path, rows + "OCC,O,test,0.5\n", overrides=BOTH).warnings()
    assert "1 molecule in several splits (CCO + O: train and test)" in warning


def test_one_column_stays_what_it_was(tmp_path: Path) -> None:
    single = opened(tmp_path, target="y", overrides={"smiles": "solute"})
    assert single.schema == opened(tmp_path, target="y", overrides={"smiles": ["solute"]}).schema
    assert single.components() == {}
    assert graphs(single)[0].node_categories.shape == (3, 9)
    assert single.fingerprint() != opened(tmp_path, overrides=BOTH).fingerprint()
