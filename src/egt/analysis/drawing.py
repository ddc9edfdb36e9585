"""A molecule or a graph with its important parts in color, as SVG."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.analysis.explanation import Explanation
from egt.analysis.faithfulness import most_important
from egt.reporting.charts import graph_drawing

MOST_NODES = 300
"""A larger graph is not drawn."""
Floats = NDArray[np.float64]
Color = tuple[float, float, float]
_RAISES: Color = (0.84, 0.36, 0.11)
_LOWERS: Color = (0.20, 0.40, 0.68)


def drawing(explanation: Explanation, method: str) -> str:
    """Return the drawing of what a method says: orange raises the prediction or matters, blue lowers it.

    In a graph the nodes that were masked for the score have a ring.
    """
    subject = explanation.subject
    nodes, edges = explanation.importance[method].nodes, explanation.of_edges[method]
    if subject.smiles is not None:
        return _molecule(subject.smiles, explanation, nodes, edges)
    if subject.graph.num_nodes > MOST_NODES:
        return f"<p>{subject.graph.num_nodes:,} nodes are too many to draw; the tables have them all.</p>"
    shares = nodes / max(float(np.abs(nodes).max()), 1e-30)
    masked = most_important(nodes, explanation.scores[method][0].size)
    marked = np.isin(np.arange(len(nodes)), masked)
    return graph_drawing(subject.graph, shares.tolist(), marked=marked.tolist())


def _molecule(smiles: str, explanation: Explanation, nodes: Floats, edges: Floats) -> str:
    from rdkit.Chem.Draw import rdMolDraw2D

    from egt.sources.molecules import parse_smiles

    [(molecule, _)] = parse_smiles([smiles])
    bonds = [molecule.GetBondBetweenAtoms(i, j).GetIdx() for i, j in explanation.edges.T.tolist()]
    largest = max(float(np.abs(values).max(initial=1e-30)) for values in (nodes, edges))
    atom_colors = dict(enumerate(_colors(nodes, largest)))
    bond_colors = dict(zip(bonds, _colors(edges, largest), strict=True))
    drawer = rdMolDraw2D.MolDraw2DSVG(460, 340)
    options: Any = drawer.drawOptions()
    options.addAtomIndices = True
    options.clearBackground = False
    rdMolDraw2D.PrepareAndDrawMolecule(
        drawer,
        molecule,
        highlightAtoms=list(atom_colors),
        highlightAtomColors=atom_colors,
        highlightBonds=bonds,
        highlightBondColors=bond_colors,
    )
    drawer.FinishDrawing()
    text: str = drawer.GetDrawingText()
    return text.partition("?>")[2].strip() or text


def _colors(values: Floats, largest: float) -> list[Color]:
    """Return a color for each value: white for 0, full for the largest size of all parts."""
    return [_mixed(abs(value) / largest, _LOWERS if value < 0 else _RAISES) for value in values.tolist()]


def _mixed(share: float, color: Color) -> Color:
    red, green, blue = (1 + (part - 1) * share for part in color)
    return red, green, blue
