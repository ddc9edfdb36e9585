"""Molecules as chemists draw them, other graphs with room between their nodes."""

from __future__ import annotations

import numpy as np
import pytest

from egt.explain.explanation import Drawing, draw
from egt.graph import Graph


def molecule(smiles: str) -> Drawing:
    return draw(Graph(num_nodes=1, edge_index=np.zeros((2, 0), int)), smiles, ())


def lengths(drawn: Drawing) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    places = np.array([drawn.x, drawn.y])
    i, j = np.array([edge[:2] for edge in drawn.edges]).T
    return np.asarray(np.linalg.norm(places[:, i] - places[:, j], axis=0))


def test_a_ring_has_alternating_bonds_of_one_length() -> None:
    drawn = molecule("c1ccccc1")
    assert sorted(order for _, _, order in drawn.edges) == [1, 1, 1, 2, 2, 2]
    assert lengths(drawn) == pytest.approx(1.5, abs=0.01)
    assert drawn.labels == [""] * 6
    assert drawn.names == [f"C{k}" for k in range(6)]


@pytest.mark.parametrize(
    ("smiles", "labels"),
    [
        ("CCO", ["", "", "OH"]),
        ("C", ["CH₄"]),
        ("C[N+](=O)[O-]", ["", "N⁺", "O", "O⁻"]),
        ("[NH4+].[Cl-]", ["NH₄⁺", "Cl⁻"]),
        ("C#N", ["", "N"]),
        ("CC[Pt]", ["", "", "Pt"]),
    ],
)
def test_atoms_are_labeled_with_hydrogens_and_charge(smiles: str, labels: list[str]) -> None:
    assert molecule(smiles).labels == labels


def test_bonds_of_a_molecule_that_was_read_with_reservations() -> None:
    drawn = molecule("CN(C)(C)(C)C")  # five bonds at a nitrogen
    assert len(drawn.edges) == 5
    assert all(i < j for i, j, _ in drawn.edges)


def graph(num_nodes: int, edges: list[tuple[int, int]], **fields: object) -> Graph:
    return Graph.undirected(num_nodes=num_nodes, edge_index=np.array(edges).T, **fields)


def test_nodes_of_a_graph_do_not_cover_each_other() -> None:
    star = [(0, k) for k in range(1, 12)]
    for edges in (star, [(k, k + 1) for k in range(11)]):
        drawn = draw(graph(12, edges), None, ())
        places = np.array([drawn.x, drawn.y])
        between = np.linalg.norm(places[:, :, None] - places[:, None], axis=0)[np.triu_indices(12, 1)]
        assert between.min() > 0.5
        assert [edge[:2] for edge in drawn.edges] == edges
        assert drawn.labels == drawn.names == [str(k) for k in range(12)]


def test_a_graph_without_edges_and_one_of_one_node() -> None:
    for count in (1, 2):
        drawn = draw(Graph(num_nodes=count, edge_index=np.zeros((2, 0), int)), None, ())
        assert np.isfinite([drawn.x, drawn.y]).all()
        assert drawn.edges == []


def test_nodes_are_called_as_in_their_data() -> None:
    pair = graph(2, [(0, 1)], node_categories=[[1], [0]])
    assert draw(pair, None, ["anna", "bo"]).names == ["anna", "bo"]
    named = draw(pair, None, (), ["C", "N H1"])
    assert (named.labels, named.names) == (["NH1", "C"], ["NH1 0", "C 1"])
    assert draw(pair, None, (), ["0", "1"]).names == ["0", "1"]  # numbers of kinds would be taken for those of nodes
    several = graph(2, [(0, 1)], node_categories=[[1, 0], [0, 0]])
    assert draw(several, None, (), ["C", "N"]).names == ["0", "1"]
