"""A graph in the words of its data: the molecule, the names of its nodes, and a drawing of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.charts import edges_to_draw, spring_positions
from egt.config.run_data import open_new, open_source
from egt.data.molecules import parse_smiles
from egt.data.source import ALL, SPLITS
from egt.errors import DataError
from egt.graph import Graph, IntArray
from egt.inference.predictor import Predictor

_BOND_LENGTH, _LEAST_DISTANCE = 1.5, 1.0
"""The length of a bond in a drawing, and the distance of two nodes that do not touch."""


@dataclass(frozen=True, eq=False)
class Subject:
    """The graph that is explained.

    Fields:
        smiles: The molecule; None for other graphs.
        names: The names of the nodes.
        pairs: (2, R) the edges or query pairs that an edge model predicts.
    """

    graph: Graph
    smiles: str | None
    names: list[str]
    pairs: IntArray

    @classmethod
    def of(cls, graph: Graph, smiles: str | None, names: Sequence[str]) -> Subject:
        """Return a graph with the names of its atoms, or with the names that its data has for nodes."""
        if smiles is None:
            shown = list(names) or [str(k) for k in range(graph.num_nodes)]
        else:
            shown = _atom_names(_molecule(smiles))
        return cls(graph, smiles, shown, graph.edge_index if graph.query_index is None else graph.query_index)

    @property
    def words(self) -> tuple[str, str]:
        """The words for nodes and edges."""
        return ("nodes", "edges") if self.smiles is None else ("atoms", "bonds")


def read_subject(model: Predictor, data: Any, row: int) -> Subject:
    """Read one row of some data; arguments as for `explain`."""
    is_split = isinstance(data, str) and data in SPLITS
    source = open_source(model.config) if is_split else open_new(model.config, data, model.overrides)
    records = source.records(data if is_split else ALL)
    if not 0 <= row < len(records):
        raise DataError(f"--row {row}: the rows of the input are 0..{len(records) - 1}")
    reading = source.read(records[row])
    graph = reading.graph
    if graph is None:
        raise DataError(f"row {row} ({reading.id}): {reading.error}")
    column = source.smiles()
    smiles = None if column is None else str(column[reading.row])
    return Subject.of(graph, smiles, source.names(reading.row))


@dataclass(frozen=True)
class Drawing:
    """A graph to draw, which the page does itself.

    Fields:
        x, y: (N,) positions of the nodes, y downwards.
        labels: (N,) the text on a node; "" for a carbon atom.
        names: (N,) the names of the nodes.
        edges: (i, j, order) for each edge, i < j; the order of a bond, 1 for other edges.
        wedges: (i, j, toward) for each bond from a stereo center i that points out of the plane, toward the reader
            or away.
    """

    x: list[float]
    y: list[float]
    labels: list[str]
    names: list[str]
    edges: list[tuple[int, int, float]]
    wedges: list[tuple[int, int, bool]]


def draw(graph: Graph, smiles: str | None, names: Sequence[str], vocabulary: Sequence[str] = ()) -> Drawing:
    """Place the nodes of a graph: a molecule as chemists draw it, any other graph by springs.

    Args:
        graph: Its SMILES, if it is a molecule, is all that counts.
        smiles: The molecule; None for other graphs.
        names: The names of the nodes in the data; empty where they are numbered.
        vocabulary: The meanings of the first category of a node; empty if unknown.
    """
    if smiles is not None:
        return _draw_molecule(smiles)
    positions = spring_positions(graph)
    positions = positions * _scale(graph, positions)
    kinds = [""] * graph.num_nodes
    if graph.node_categories.shape[1] == 1 and any(word[:1].isalpha() for word in vocabulary):
        words = dict(enumerate(word.replace(" ", "") for word in vocabulary))
        kinds = [words.get(k, "?") for k in graph.node_categories[:, 0].tolist()]
    shown = list(names) or [f"{kind} {k}".strip() for k, kind in enumerate(kinds)]
    edges = [(i, j, 1.0) for i, j in edges_to_draw(graph)]
    return Drawing(*_rounded(positions), kinds if any(kinds) else shown, shown, edges, [])


def _scale(graph: Graph, positions: NDArray[np.float64]) -> float:
    """Return a factor that makes most edges as long as bonds, or a little longer if nodes would touch."""
    ends = positions[graph.edge_index]
    lengths = np.linalg.norm(ends[0] - ends[1], axis=1)
    common = _BOND_LENGTH / max(float(np.median(lengths)) if len(lengths) else 1.0, 0.05)
    between = np.linalg.norm(positions[:, None] - positions, axis=2)[np.triu_indices(len(positions), 1)]
    nearest = float(between.min(initial=np.inf))
    return min(max(common, _LEAST_DISTANCE / max(nearest, 1e-9)), 2.5 * common)


def _draw_molecule(smiles: str) -> Drawing:
    from rdkit import Chem
    from rdkit.Chem import rdDepictor

    molecule = _molecule(smiles)
    rdDepictor.Compute2DCoords(molecule)
    positions = molecule.GetConformer().GetPositions()[:, :2] * [1, -1]
    drawn = Chem.Mol(molecule)
    with Chem.rdBase.BlockLogs():
        try:
            Chem.Kekulize(drawn)
        except Chem.KekulizeException:  # a ring without such a form: its bonds have the order 1.5
            drawn = Chem.Mol(molecule)
    Chem.WedgeMolBonds(drawn, drawn.GetConformer())
    edges, wedges = [], []
    for bond in drawn.GetBonds():
        i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        edges.append((min(i, j), max(i, j), bond.GetBondTypeAsDouble()))
        if bond.GetBondDir() in (Chem.BondDir.BEGINWEDGE, Chem.BondDir.BEGINDASH):
            wedges.append((i, j, bond.GetBondDir() == Chem.BondDir.BEGINWEDGE))
    labels = [_atom_label(atom) for atom in molecule.GetAtoms()]
    return Drawing(*_rounded(positions), labels, _atom_names(molecule), edges, wedges)


def _molecule(smiles: str) -> Any:
    [(molecule, _)] = parse_smiles([smiles])
    return molecule


def _atom_names(molecule: Any) -> list[str]:
    return [f"{atom.GetSymbol()}{atom.GetIdx()}" for atom in molecule.GetAtoms()]


def _atom_label(atom: Any) -> str:
    """Return the element with its hydrogens and charge; a plain carbon has none."""
    charge = atom.GetFormalCharge()
    if atom.GetSymbol() == "C" and not charge and atom.GetDegree():
        return ""
    hydrogens = atom.GetTotalNumHs()
    count = str(hydrogens).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")) if hydrogens > 1 else ""
    sign = ("⁺" if charge > 0 else "⁻") * min(abs(charge), 3)
    return f"{atom.GetSymbol()}{'H' if hydrogens else ''}{count}{sign}"


def _rounded(positions: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    x, y = positions.round(3).T.tolist()
    return x, y
