"""Where the nodes of a graph stand on the page and what is written on them; the page draws them itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.charts import edges_to_draw, spring_positions
from egt.graph import Graph

_LENGTH, _APART = 1.5, 1.0
"""Of a bond, and of two nodes that do not touch; graphs are drawn in the same unit."""


@dataclass(frozen=True)
class Drawing:
    """A graph to draw.

    Fields:
        x, y: (N,) places, y downwards.
        labels: (N,) what is written on a node; "" for a carbon atom.
        names: (N,) what a node is called.
        edges: (i, j, order) for each edge, i < j; the order of a bond, 1 for other edges.
    """

    x: list[float]
    y: list[float]
    labels: list[str]
    names: list[str]
    edges: list[tuple[int, int, float]]


def draw(graph: Graph, smiles: str | None, names: Sequence[str], vocabulary: Sequence[str] = ()) -> Drawing:
    """Place the nodes of a graph: a molecule as chemists draw it, any other graph by springs.

    Args:
        graph: the graph.
        smiles: of a molecule.
        names: what the data calls the nodes; empty where they are numbered.
        vocabulary: what the first category of a node means; empty if nobody knows.
    """
    if smiles is not None:
        return _molecule(smiles)
    places = spring_positions(graph)
    places = places * _scale(graph, places)
    edges = [(i, j, 1.0) for i, j in edges_to_draw(graph)]
    kinds = _kinds(graph, vocabulary)
    called = list(names) or [f"{kind} {k}".strip() for k, kind in enumerate(kinds)]
    return Drawing(*_rounded(places), kinds if any(kinds) else called, called, edges)


def _scale(graph: Graph, places: NDArray[np.float64]) -> float:
    """Return a factor that makes most edges as long as bonds, or a little longer if nodes would touch."""
    ends = places[graph.edge_index]
    lengths = np.linalg.norm(ends[0] - ends[1], axis=1)
    common = _LENGTH / max(float(np.median(lengths)) if len(lengths) else 1.0, 0.05)
    between = np.linalg.norm(places[:, None] - places, axis=2)[np.triu_indices(len(places), 1)]
    nearest = float(between.min(initial=np.inf))
    return min(max(common, _APART / max(nearest, 1e-9)), 2.5 * common)


def _kinds(graph: Graph, vocabulary: Sequence[str]) -> list[str]:
    """Return what each node is, where one category has a word for it; "" elsewhere."""
    if graph.node_categories.shape[1] != 1 or not any(word[:1].isalpha() for word in vocabulary):
        return [""] * graph.num_nodes
    words = dict(enumerate(word.replace(" ", "") for word in vocabulary))
    return [words.get(k, "?") for k in graph.node_categories[:, 0].tolist()]


def _molecule(smiles: str) -> Drawing:
    from rdkit.Chem import rdDepictor

    from egt.data.molecules import parse_smiles

    [(molecule, _)] = parse_smiles([smiles])
    rdDepictor.Compute2DCoords(molecule)
    places = molecule.GetConformer().GetPositions()[:, :2] * [1, -1]
    atoms = list(molecule.GetAtoms())
    names = [f"{atom.GetSymbol()}{atom.GetIdx()}" for atom in atoms]
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), order) for bond, order in _bonds(molecule)]
    edges = [(min(i, j), max(i, j), order) for i, j, order in bonds]
    return Drawing(*_rounded(places), [_atom_label(atom) for atom in atoms], names, edges)


def _bonds(molecule: Any) -> list[tuple[Any, float]]:
    """Return the bonds with their order: 1, 2, 3, or 1.5 in a ring that has no such form."""
    from rdkit import Chem

    drawn = Chem.Mol(molecule)
    with Chem.rdBase.BlockLogs():
        try:
            Chem.Kekulize(drawn)
        except Chem.KekulizeException:
            drawn = molecule
    return [(bond, bond.GetBondTypeAsDouble()) for bond in drawn.GetBonds()]


def _atom_label(atom: Any) -> str:
    """Return the element with its hydrogens and charge; a plain carbon has none."""
    charge = atom.GetFormalCharge()
    if atom.GetSymbol() == "C" and not charge and atom.GetDegree():
        return ""
    hydrogens = atom.GetTotalNumHs()
    many = "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(hydrogens)) if hydrogens > 1 else ""
    sign = ("⁺" if charge > 0 else "⁻") * min(abs(charge), 3)
    return f"{atom.GetSymbol()}{'H' if hydrogens else ''}{many}{sign}"


def _rounded(places: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    x, y = places.round(3).T.tolist()
    return x, y
