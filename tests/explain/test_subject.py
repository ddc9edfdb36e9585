"""What is explained has the names of its data, wherever that comes from."""

from __future__ import annotations

import numpy as np
import pyarrow

from egt.data.benchmark import MoleculeSource, MoleculeTable
from egt.data.molecules import OGB_SCHEMA
from egt.data.source import DataCard, TargetSchema, TrainShare
from egt.explain.explanation import read_subject
from tests.explain.synthetic import tree, untrained


def test_molecules_of_a_benchmark_have_their_smiles() -> None:
    read = MoleculeTable(pyarrow.array(["C", "CCO"]), np.zeros((2, 1)), {"train": np.array([0]), "test": np.array([1])})
    card = DataCard("m", "m", OGB_SCHEMA, TargetSchema("graph", "regression", ("y",)), {}, (1, 2, 3), 4)
    source = MoleculeSource(card, (), lambda: read)
    for each in (source, TrainShare(source, 0.5)):
        column = each.smiles()
        assert column is not None
        assert str(column[1]) == "CCO"
        assert each.names(1) == ()


def test_nodes_without_names_are_numbered() -> None:
    subject = read_subject(untrained(), [tree(0, size=3)], 0)
    assert (subject.smiles, subject.names) == (None, ["0", "1", "2"])
