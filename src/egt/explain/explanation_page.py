"""An explanation as files: a page with drawings and tables, and the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from egt.charts import graph_drawing, molecule_drawing
from egt.data.molecules import parse_smiles
from egt.explain.analysis import Floats, write_columns
from egt.explain.explanation import Explanation, explain
from egt.explain.importance import most_important
from egt.files import result_folder
from egt.inference.predictor import load_single
from egt.pages import figure, page, table, write_page

MOST_NODES = 300  # the largest graph that is drawn
_RAISES, _LOWERS = (0.84, 0.36, 0.11), (0.20, 0.40, 0.68)  # colors of parts that raise or lower the prediction
PAGE = "explanation.html"
TITLES = {
    "gradients": "Integrated gradients: orange raises the prediction, blue lowers it.",
    "rollout": "Attention rollout: the more orange, the more of the prediction comes from there.",
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

_TEXT = (
    "<p>The most important parts of a method (of signed values: those that push most in one direction) are masked, "
    "their embeddings set to zero, and as many random ones of the others, many times. A faithful ranking moves the "
    "prediction farther than 95% of the random draws, and twice as far as such masks move untrained models. "
    "Of classes the log-odds are explained. A faithful picture shows what the model rests on, not what is true.</p>"
)

_STYLE = (
    "<style>svg { background: #fff; border-radius: 6px; } .verdict { font-weight: 600; font-size: 1.1rem; } "
    "h1 { overflow-wrap: anywhere; } .wide th { vertical-align: bottom; } "
    "@media (max-width: 30rem) { .wide { font-size: .78rem; } .wide td, .wide th { padding-right: .4rem; } }</style>"
)


def explain_artifact(
    artifact: str, data: Any, folder: Path, command: str, settings: Sequence[str], question: Mapping[str, Any]
) -> tuple[Explanation, list[Path]]:
    """Explain one prediction of a saved model; `question` has the options of `explain`.

    Returns the explanation, and the files that were written, the page first.
    """
    explanation = explain(load_single(artifact, set=settings), data, **question)
    return explanation, write_explanation(explanation, folder, command)


def write_explanation(explanation: Explanation, folder: Path, command: str) -> list[Path]:
    """Write a page, a drawing for each method, and all parts as CSV and Parquet; return the files, the page first."""
    written = [result_folder(folder, PAGE) / PAGE]
    drawings = {method: drawing(explanation, method) for method in explanation.importance}
    write_page(written[0], explanation_page(explanation, drawings, command))
    for method, svg in drawings.items():
        if svg.startswith("<svg"):
            written.append(folder / f"{method}.svg")
            write_page(written[-1], svg)
    for name, columns in explanation.columns().items():
        written += write_columns(folder, name, columns)
    return written


def explanation_page(explanation: Explanation, drawings: dict[str, str], command: str) -> str:
    """Return the page."""
    subject = explanation.subject
    nodes, edges = subject.words
    rings = "" if subject.smiles else " Rings mark the nodes that were masked for the score."
    figures = "".join(figure(svg, TITLES[method] + rings) for method, svg in drawings.items())
    verdict = f'<p class="verdict">{escape(explanation.verdict)}</p>'
    doubts = "".join(f"<li>{escape(line)}.</li>" for line in doubt_lines(explanation))
    score = f'<div class="wide">{table(*score_table(explanation))}</div><ul>{doubts}</ul>'
    tops = [table(("part", "name", method), top_rows(explanation, method)) for method in explanation.importance]
    note = (
        f"Integrated gradients of all {nodes} and pairs add up to the prediction minus that for no input, within "
        f"{100 * abs(explanation.importance['gradients'].gap):.1f}% of their size. "
        f"Files beside this page have all {nodes}, {edges} and pairs."
    )
    sections = [
        ("Can this be believed?", f"{_STYLE}{verdict}{score}{_TEXT}"),
        ("What matters", f'<div class="row">{figures}</div>'),
        ("The most important parts", f'<div class="row">{"".join(tops)}</div><p>{note}</p>'),
        ("Made with", f"<pre>{escape(command)}</pre>"),
    ]
    lead = f"{explanation.title}; without any input {explanation.without:.4g}."
    return page(f"Why: {subject.smiles or subject.graph.id or 'graph'}", lead, sections)


def drawing(explanation: Explanation, method: str) -> str:
    """Return the graph as SVG, orange where a part raises the prediction (or matters) and blue where it lowers it.

    In a graph that is no molecule, the nodes that were masked for the score have a ring.
    """
    subject = explanation.subject
    nodes, edges = explanation.importance[method].nodes, explanation.of_edges[method]
    if subject.smiles is not None:
        return _draw_molecule(subject.smiles, explanation, nodes, edges)
    if subject.graph.num_nodes > MOST_NODES:
        return f"<p>{subject.graph.num_nodes:,} nodes are too many to draw; the tables have them all.</p>"
    shares = nodes / max(float(np.abs(nodes).max()), 1e-30)
    masked = most_important(nodes, explanation.scores[method][0].size)
    return graph_drawing(subject.graph, shares.tolist(), np.isin(np.arange(len(nodes)), masked).tolist())


def _draw_molecule(smiles: str, explanation: Explanation, nodes: Floats, edges: Floats) -> str:
    [(molecule, _)] = parse_smiles([smiles])
    bonds = [molecule.GetBondBetweenAtoms(i, j).GetIdx() for i, j in explanation.edges.T.tolist()]
    largest = max(float(np.abs(values).max(initial=1e-30)) for values in (nodes, edges))
    atom_colors = {k: _color(value / largest) for k, value in enumerate(nodes.tolist())}
    bond_colors = {bond: _color(value / largest) for bond, value in zip(bonds, edges.tolist(), strict=True)}
    return molecule_drawing(
        smiles,
        460,
        340,
        numbers=True,
        highlightAtoms=list(atom_colors),
        highlightAtomColors=atom_colors,
        highlightBonds=bonds,
        highlightBondColors=bond_colors,
    )


def _color(share: float) -> tuple[float, float, float]:
    """Return white for 0, orange for 1 and blue for -1."""
    red, green, blue = (1 + (part - 1) * abs(share) for part in (_LOWERS if share < 0 else _RAISES))
    return red, green, blue


def score_table(explanation: Explanation) -> tuple[list[str], list[list[str]]]:
    """Return the scores as texts: a column for each method and kind of part, which fits a phone and a terminal."""
    columns, cells = ["masked parts"], []
    for method, scores in explanation.scores.items():
        for score in scores:
            doubted = any(parts == score.parts for parts, _ in explanation.doubts(method))
            columns.append(f"{method}, {score.word}")
            moves = (score.top, float(score.random.mean()), score.score, *score.interval, score.untrained)
            cells.append(
                [f"{score.size} of {score.of}", *(f"{value:.3g}" for value in moves), "no" if doubted else "yes"]
            )
    return columns, [[name, *row] for name, row in zip(_SCORES, zip(*cells, strict=True), strict=True)]


def top_rows(explanation: Explanation, method: str, count: int = 12) -> list[tuple[str, str, str]]:
    """Return kind, name and importance of the most important nodes and edges of a method, which are atoms and bonds."""
    names = explanation.subject.names
    node, edge = (word.removesuffix("s") for word in explanation.subject.words)
    ends = (f"{names[i]} - {names[j]}" for i, j in explanation.edges.T.tolist())
    parts = [(node, name, value) for name, value in zip(names, explanation.importance[method].nodes, strict=True)]
    parts += [(edge, name, value) for name, value in zip(ends, explanation.of_edges[method], strict=True)]
    parts.sort(key=lambda part: -abs(part[2]))
    return [(kind, name, f"{value:+.4g}") for kind, name, value in parts[:count]]


def doubt_lines(explanation: Explanation) -> list[str]:
    """Return every reason not to believe, with its method and parts."""
    words = dict(zip(("nodes", "edges"), explanation.subject.words, strict=True))
    return [
        f"{method}, {words[parts]}: {reason}"
        for method in explanation.scores
        for parts, reason in explanation.doubts(method)
    ]
