"""The analysis as one page that needs no network: sentences, and charts that answer to the mouse and the keyboard."""

from __future__ import annotations

import json
from base64 import b64encode
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.analysis.analysis import Analysis
from egt.analysis.hops import FROM_VIRTUAL
from egt.analysis.words import summary
from egt.errors import counted
from egt.inference.attention_capture import Attention
from egt.reporting.page import page

MOST_NODES = 48
"""Of a graph in the viewer; the first ones are shown."""
_KINDS = ("product", "softmax", "gates")


def analysis_page(analysis: Analysis, name: str, data: str, command: str) -> str:
    """Return the page.

    Args:
        analysis: what was found.
        name: of the model.
        data: what it looked at, in words.
        command: that makes the page again.
    """
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in summary(analysis))
    content = json.dumps(_content(analysis)).replace("<", "\\u003c")  # no name in it ends or begins a script
    script = files("egt.analysis").joinpath("analysis.js").read_text(encoding="utf-8")
    sections = [
        ("In words", f"<ul>{said}</ul>"),
        ("How far each layer looks", '<div id="hops"></div>' + _HOPS_TEXT),
        ("What each head does", '<div id="heads"></div>' + _HEADS_TEXT),
        ("How the edge channel changes", '<div id="edges"></div>' + _EDGES_TEXT),
        ("A graph, layer by layer and head by head", '<div id="graph"></div>' + _GRAPH_TEXT),
        ("Made with", f"<pre>{escape(command)}</pre>"),
    ]
    body = page(f"What {name} looks at", f"{counted(analysis.graphs, 'graph')} of {data}.", sections)
    tail = f'<style>{_STYLE}</style><script type="application/json" id="content">{content}</script>'
    return body.replace("</body>", f"{tail}<script>{script}</script></body>")


_HOPS_TEXT = (
    "<p>The weight that a node gives to all nodes at a number of hops, averaged over nodes, heads and graphs. "
    "Virtual nodes, and nodes that no path leads to, stand apart on the right. Dashed: what even "
    "attention would give.</p>"
)
_HEADS_TEXT = (
    "<p>The mean hops of the weight; how many nodes a node effectively looks at (the exponential of the entropy of its "
    "softmax); the share of pairs with less than a tenth of an even weight; the mean gate.</p>"
)
_EDGES_TEXT = (
    "<p>First, how much of its length the edge channel changes by in each layer; then how alike it still is to what "
    "entered the first layer (cosine).</p>"
)
_GRAPH_TEXT = (
    "<p>Row i, column j: how much node i looks at node j. Each matrix is shaded from its smallest to its largest "
    "entry, as its scale says.</p>"
)
_STYLE = """
.controls { display: flex; flex-wrap: wrap; gap: .4rem 1.4rem; align-items: center; margin: .4rem 0; }
.controls label { display: flex; gap: .5rem; align-items: center; }
.scale { display: flex; gap: .6rem; align-items: center; max-width: 26rem; }
.scale canvas { flex: 1; min-width: 0; height: .8rem; } .names span { display: inline-block; margin-right: .9rem; }
canvas { image-rendering: pixelated; width: min(100%, 26rem); border: 1px solid var(--line); }
.told { color: var(--soft); min-height: 1.5em; } .faded { opacity: .12; } .dashed { stroke-dasharray: 4 4; }
table.heat td { padding: 0; border: 0; width: 1.5rem; height: 1.3rem; } table.heat th { border: 0; font-size: .75rem;
  padding: 0 .3rem; text-align: center; font-weight: 400; color: var(--soft); }
"""


def _content(analysis: Analysis) -> dict[str, Any]:
    """Return what the script of the page draws."""
    hops, heads, edges = analysis.hops, analysis.heads, analysis.edges
    codes = [code for code in hops.codes if code < FROM_VIRTUAL]
    names = dict(zip((str(code) for code in hops.codes), hops.columns((0,))["hop"], strict=True))
    return {
        "layers": [layer + 1 for layer in analysis.layers],
        "hops": {
            "names": [names[str(code)] for code in codes],
            "numbers": len(hops.hops),
            "product": _rounded(hops.mean(hops.product.mean(1))[:, codes]),
            "softmax": _rounded(hops.mean(hops.softmax.mean(1))[:, codes]),
            "even": _rounded(hops.mean(hops.even)[codes]),
        },
        "heads": {
            "mean hops": _rounded(hops.reach(hops.product)),
            "nodes looked at": _rounded(heads.attended),
            "pairs without weight": _rounded(heads.sparsity),
            "mean gate": _rounded(heads.gate_density),
        },
        "edges": {
            "change": _rounded(edges.relative_change().T),
            "likeness": _rounded(edges.mean(edges.likeness)[1:].T),
        },
        "graphs": [_graph(row, found) for row, found in analysis.shown.items()],
    }


def _graph(row: int, found: Attention) -> dict[str, Any]:
    """Return the matrices of a graph, each as bytes between its smallest and its largest entry."""
    size = min(found.num_nodes, found.num_virtual + MOST_NODES)
    matrices = {kind: found.matrix(getattr(found, kind), size) for kind in _KINDS}
    return {
        "name": f"row {row}" + (f", {found.graph.id}" if found.graph.id else ""),
        "size": size,
        "nodes": found.graph.num_nodes,
        "virtual": found.num_virtual,
        "heads": int(found.product.shape[1]),
        **{kind: _packed(np.concatenate([m, m.mean(1, keepdims=True)], axis=1)) for kind, m in matrices.items()},
    }


def _packed(matrices: NDArray[np.float32]) -> dict[str, Any]:
    """Return matrices (L, H + 1, n, n), the last of a layer being the mean of its heads, as text."""
    low, high = matrices.min((2, 3)), matrices.max((2, 3))
    wide = np.where(high > low, high - low, 1)[..., None, None]
    steps = np.rint(255 * (matrices - low[..., None, None]) / wide).astype(np.uint8)
    return {"low": _rounded(low), "high": _rounded(high), "bytes": b64encode(steps.tobytes()).decode()}


def _rounded(values: NDArray[Any]) -> Any:
    return np.round(values.astype(np.float64), 5).tolist()
