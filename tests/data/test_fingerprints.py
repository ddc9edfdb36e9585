"""Fingerprints: whole fragments in common, whatever the numbering of the atoms and the other graphs of a batch."""

from __future__ import annotations

import numpy as np
import pytest

from egt.data.fingerprints import BITS, fingerprints, identities
from egt.data.molecules import graph_from_smiles
from egt.graph import Graph
from tests.graphs import random_graph

pytest.importorskip("rdkit")
MOLECULES = ["CCO", "c1ccncc1C(=O)N", "C[N+](C)(C)CC([O-])=O", "C", "CC#N.O", "C[C@H](N)C(=O)O"]


def graphs(*smiles: str) -> list[Graph]:
    return [graph_from_smiles(text, canonical=True)[0] for text in smiles]


def test_the_numbering_of_the_atoms_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    given = [*graphs(*MOLECULES), random_graph(rng, sizes=(5,) * 9, bonds=(3,) * 3)]
    others = [graph.permuted(rng.permutation(graph.num_nodes)) for graph in given]
    assert (fingerprints(given) == fingerprints(others)).all()
    assert (identities(given) == identities(others)).all()


def test_other_molecules_of_the_batch_do_not_matter() -> None:
    given = graphs(*MOLECULES)
    assert (fingerprints(given) == np.concatenate([fingerprints([graph]) for graph in given])).all()
    assert identities(given).tolist() == [int(identities([graph])[0]) for graph in given]


def test_a_bit_stands_for_a_neighborhood_of_up_to_two_bonds() -> None:
    [methane, ethane, hexane, octane, nonane] = fingerprints(graphs("C", "CC", "CCCCCC", "CCCCCCCC", "CCCCCCCCC"))
    assert methane.sum() == 3  # one atom, radius 0, 1 and 2
    assert ethane.sum() == 3  # two atoms that are alike
    assert hexane.sum() == 2 + 3 + 3  # CH3 and CH2; then also the CH2 beside CH3
    assert (octane == nonane).all()  # nothing longer than the neighborhoods
    assert not (methane & ethane).any()  # CH4 is no CH3
    assert fingerprints(graphs("C")).shape == (1, BITS)


@pytest.mark.parametrize(("one", "other"), [("CCCCCCCC", "CCCCCCCCC"), ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O")])
def test_identities_tell_apart_what_fingerprints_do_not(one: str, other: str) -> None:
    given = graphs(one, other)
    assert (fingerprints(given)[0] == fingerprints(given)[1]).all()
    assert len({*identities(given).tolist()}) == 2


@pytest.mark.parametrize(
    ("one", "other"), [("CCO", "CC=O"), ("CCN", "CC[NH3+]"), ("C1CCCCC1", "CCCCCC"), ("CC=C", "CCC")]
)
def test_bonds_charges_and_rings_are_in_the_fragments(one: str, other: str) -> None:
    given = fingerprints(graphs(one, other))
    assert (given[0] != given[1]).any()


def test_the_categories_of_edges_are_in_the_fragments() -> None:
    pair = {"num_nodes": 2, "edge_index": [[0], [1]], "node_categories": [[3], [3]]}
    single, double = (Graph.undirected(**pair, edge_categories=[[kind]]) for kind in (0, 1))
    assert (fingerprints([single])[0] != fingerprints([double])[0]).any()


def test_no_graphs_have_no_fingerprints() -> None:
    assert fingerprints([]).shape == (0, BITS)
    assert identities([]).shape == (0,)
