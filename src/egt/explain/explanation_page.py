"""A molecule or a graph with its important parts in color, as SVG.

An explanation as files: a page with drawings and tables, and the numbers.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.charts import graph_drawing
from egt.explain.analysis import write_columns
from egt.explain.explanation import Explanation
from egt.explain.faithfulness import most_important
from egt.files import result_folder
from egt.pages import figure, page, table, write_page

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

    from egt.data.molecules import parse_smiles

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


PAGE = "explanation.html"

TITLES = {
    "gradients": "Integrated gradients: orange raises the prediction, blue lowers it.",
    "rollout": "Attention rollout: the more orange, the more of what is read at the end came from there.",
}

_SCORES = (
    "how many",
    "moves by",
    "others, at random",
    "farther by",
    "from (5% of draws)",
    "to (95%)",
    "untrained, at most",
    "believe it?",
)

_SHOWN = 12

_TEXT = (
    "<p>The parts that a method calls most important (of signed values: those that push most in one direction) are "
    "masked, their embeddings set to zero, and as many random ones of the others, many times. A faithful ranking moves "
    "the prediction farther than 95% of the random draws, and twice as far as such masks move models that were never "
    "trained. Of classes the log-odds are explained. It says what the model rests on, not what is true.</p>"
)

_STYLE = (
    "<style>svg { background: #fff; border-radius: 6px; } .verdict { font-weight: 600; font-size: 1.1rem; } "
    "h1 { overflow-wrap: anywhere; } .wide th { vertical-align: bottom; } "
    "@media (max-width: 30rem) { .wide { font-size: .78rem; } .wide td, .wide th { padding-right: .4rem; } }</style>"
)


def write_explanation(explanation: Explanation, folder: Path, command: str) -> list[Path]:
    """Write explanation.html, a drawing for each method, and nodes, edges and pairs as CSV and Parquet.

    Returns:
        The files, the page first.
    """
    page_file = result_folder(folder, PAGE) / PAGE
    drawings = {method: drawing(explanation, method) for method in explanation.importance}
    content = explanation_page(explanation, drawings, command)
    write_page(page_file, content)
    written = [page_file]
    for method, text in drawings.items():
        if text.startswith("<svg"):
            write_page(folder / f"{method}.svg", text)
            written.append(folder / f"{method}.svg")
    columns = {"nodes": explanation.node_columns(), "edges": explanation.edge_columns()}
    columns["pairs"] = explanation.pair_columns()
    return [*written, *(file for name, part in columns.items() for file in write_columns(folder, name, part))]


def explanation_page(explanation: Explanation, drawings: dict[str, str], command: str) -> str:
    """Return the page."""
    name = explanation.subject.smiles or explanation.subject.graph.id or "graph"
    rings = "" if explanation.subject.smiles else " Rings mark the nodes that were masked for the score."
    figures = "".join(figure(text, TITLES[method] + rings) for method, text in drawings.items())
    score = table(*score_table(explanation))
    verdict = f'<p class="verdict">{escape(explanation.verdict)}</p>'
    sections = [
        ("Can this be believed?", f'{_STYLE}{verdict}<div class="wide">{score}</div>{_doubts(explanation)}{_TEXT}'),
        ("What matters", f'<div class="row">{figures}</div>'),
        ("The most important parts", _tables(explanation)),
        ("Made with", f"<pre>{escape(command)}</pre>"),
    ]
    lead = f"{explanation.said}; without any input {explanation.without:.4g}."
    return page(f"Why: {name}", lead, sections)


def score_table(explanation: Explanation) -> tuple[list[str], list[list[str]]]:
    """Return the scores as texts: a column for each method and kind of part, which fits a phone and a terminal."""
    columns, cells = ["masked parts"], []
    for method, scores in explanation.scores.items():
        for score in scores:
            doubted = any(parts == score.parts for parts, _ in explanation.doubts(method))
            columns.append(f"{method}, {score.parts}")
            moves = (score.top, float(score.random.mean()), score.score, *score.interval, score.untrained)
            cells.append(
                [f"{score.size} of {score.of}", *(f"{value:.3g}" for value in moves), "no" if doubted else "yes"]
            )
    return columns, [[name, *row] for name, row in zip(_SCORES, zip(*cells, strict=True), strict=True)]


def top_rows(explanation: Explanation, method: str, count: int = _SHOWN) -> list[tuple[str, ...]]:
    """Return the nodes and edges that a method calls most important, as texts, with their sign."""
    names, (i, j) = explanation.subject.names, explanation.edges.tolist()
    parts = [(names[k], value) for k, value in enumerate(explanation.importance[method].nodes.tolist())]
    parts += [(f"{names[a]} - {names[b]}", v) for a, b, v in zip(i, j, explanation.of_edges[method], strict=True)]
    kinds = ["node"] * len(names) + ["edge"] * len(i)
    order = np.argsort([-abs(value) for _, value in parts], kind="stable")[:count]
    return [(kinds[k], parts[k][0], f"{parts[k][1]:+.4g}") for k in order.tolist()]


def doubt_lines(explanation: Explanation) -> list[str]:
    """Return every reason not to believe, with its method and parts."""
    return [
        f"{method}, {parts}: {reason}" for method in explanation.scores for parts, reason in explanation.doubts(method)
    ]


def _doubts(explanation: Explanation) -> str:
    items = "".join(f"<li>{escape(line)}.</li>" for line in doubt_lines(explanation))
    return f"<ul>{items}</ul>" if items else ""


def _tables(explanation: Explanation) -> str:
    tables = [table(("part", "name", method), top_rows(explanation, method)) for method in explanation.importance]
    note = (
        "Integrated gradients of all nodes and pairs add up to the prediction minus that for no input, within "
        f"{100 * abs(explanation.importance['gradients'].gap):.1f}% of their size. "
        "Files beside this page have all nodes, edges and pairs."
    )
    return f'<div class="row">{"".join(tables)}</div><p>{escape(note)}</p>'
