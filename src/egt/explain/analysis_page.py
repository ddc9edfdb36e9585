"""An analysis as files: sentences and charts on a page that needs no network, figures, and the numbers."""

from __future__ import annotations

import json
import logging
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.source import SPLITS, Progress
from egt.errors import counted
from egt.explain.analysis import FROM_VIRTUAL, TO_VIRTUAL, UNREACHABLE, Analysis, analyze, write_columns
from egt.explain.figures import Choice, can_draw, choose, write_figures
from egt.files import exists, result_folder
from egt.inference.artifact import find_artifact
from egt.inference.attention_capture import Attention
from egt.inference.predictor import load_single
from egt.nn.attention_record import attending
from egt.pages import page, write_page

log = logging.getLogger(__name__)
ANALYSIS = Path("analysis", "analysis.html")  # the page that `egt analyze` writes into a run folder
MOST = 0.7  # the share of a layer's weight that decides how far it looks
MOST_NODES = 48  # the number of first nodes of a graph that the page shows


def analyze_artifact(
    artifact: str,
    data: str,
    folder: Path | None,
    command: str,
    *,
    limit: int | None = None,
    show: Sequence[int] = (),
    choice: Mapping[str, Any],
    settings: Sequence[str] = (),
    watch: Progress | None = None,
) -> tuple[Analysis, str, list[Path]]:
    """Analyze at most `limit` graphs of some data, and write the analysis into a folder, by default beside the model.

    `choice` has the options of `choose`. Returns the analysis, model and data in words, and the files, the page first.
    """
    model = load_single(artifact, set=settings)
    chosen = choose(attending(model.model.layers), model.config.model.num_heads, **choice)
    # A model of the package or of a hub has no place beside it.
    beside = find_artifact(artifact).parent if exists(artifact) else Path()
    analysis = analyze(model.attention(data, limit=limit, watch=watch), show)
    where = f"the split {data} of {model.config.data.source}" if data in SPLITS else data
    name = model.config.name
    files = write_analysis(analysis, chosen, folder or beside / ANALYSIS.parent, name, where, command)
    return analysis, f"{name} on {counted(analysis.graphs, 'graph')} of {where}", files


def summary(analysis: Analysis) -> list[str]:
    """Return sentences about the reach of layers, the selectivity of heads, gates and the edge channel."""
    return [*_reach(analysis), *_apart(analysis), *_heads(analysis), *_edges(analysis)]


def _reach(analysis: Analysis) -> list[str]:
    hops = analysis.hops
    weight = hops.product.mean(1)  # (L, codes)
    near, nearby, reach = hops.within(weight, 1), hops.within(weight, 3), hops.reach(weight)
    even = float(hops.reach(hops.even))
    kinds = np.where(near >= MOST, "near", np.where(nearby >= MOST, "around", "far")).tolist()
    sentences = []
    for kind, group in groupby(range(len(kinds)), key=kinds.__getitem__):
        some = list(group)
        first, last = analysis.layers[some[0]] + 1, analysis.layers[some[-1]] + 1
        layers, s = (f"Layer {first}", "s") if first == last else (f"Layers {first}-{last}", "")
        text = {
            "near": f"look{s} at the node itself and its neighbors ({_percent(near[some].mean())} within 1 hop",
            "around": f"look{s} at 1-3 hops ({_percent(nearby[some].mean())} within 3 hops",
            "far": f"spread{s} over the graph ({_percent(nearby[some].mean())} within 3 hops",
        }[kind]
        mean = reach[some].mean()
        sentences.append(f"{layers} {text}, {mean:.1f} hops on average; even attention would have {even:.1f}).")
    return sentences


def _apart(analysis: Analysis) -> list[str]:
    """Return sentences about the weight on virtual and on unreachable nodes."""
    mean = analysis.hops.mean(analysis.hops.product.mean(1))
    total = mean[:, :FROM_VIRTUAL].sum(1)  # all other codes have real nodes as queries
    sentences = []
    for code, name in ((TO_VIRTUAL, "virtual nodes"), (UNREACHABLE, "nodes that no path leads to")):
        if code in analysis.hops.codes:
            shares = mean[:, code] / np.where(total > 0, total, 1)
            most = int(shares.argmax())
            sentences.append(
                f"{_percent(shares.mean())} of the weight goes to {name}, most in layer {analysis.layers[most] + 1} "
                f"({_percent(shares[most])})."
            )
    return sentences


def _heads(analysis: Analysis) -> list[str]:
    attended, gates = analysis.heads.attended, analysis.heads.gate_density.mean(1)
    layer, head = np.unravel_index(int(attended.argmin()), attended.shape)
    keys = analysis.heads.pairs / max(analysis.heads.nodes, 1)
    selective = (
        f"A head effectively looks at {np.median(attended):.1f} of {keys:.1f} nodes (median over heads); the most "
        f"selective is head {head + 1} of layer {analysis.layers[int(layer)] + 1} ({attended.min():.1f})."
    )
    if np.all(gates == 1):
        return [selective, "The model has no gates."]
    least, most = int(gates.argmin()), int(gates.argmax())
    return [
        selective,
        f"Gates let {_percent(gates.mean())} pass on average: least in layer {analysis.layers[least] + 1} "
        f"({_percent(gates[least])}), most in layer {analysis.layers[most] + 1} ({_percent(gates[most])}).",
    ]


def _edges(analysis: Analysis) -> list[str]:
    change = analysis.edges.change.sum(1)[1:] / np.maximum(analysis.edges.norm.sum(1)[:-1], 1e-12)
    if not change.any():
        return ["The edge channel is the same after every layer."]
    most = int(change.argmax())
    share = change[most]
    size = f"{_percent(share)} of" if share < 1 else f"{share:.1f} times" if share < 10 else f"{share:.0f} times"
    return [f"The edge channel changes most in layer {most + 1}, by {size} its length before it."]


def _percent(share: float) -> str:
    return f"{100 * float(share):.0f}%"


def analysis_page(analysis: Analysis, name: str, data: str, command: str) -> str:
    """Return the page: the name of the model, the data in words, and the command that makes it again."""
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in summary(analysis))
    content = json.dumps(_content(analysis)).replace("<", "\\u003c")  # no name in it ends or begins a script
    sections = [
        ("In words", f"<ul>{sentences}</ul>"),
        ("How far each layer looks", '<div id="hops"></div>' + _HOPS_TEXT),
        ("What each head does", '<div id="heads"></div>' + _HEADS_TEXT),
        ("How the edge channel changes", '<div id="edges"></div>' + _EDGES_TEXT),
        ("A graph, layer by layer and head by head", '<div id="graph"></div>' + _GRAPH_TEXT),
        ("Made with", f"<pre>{escape(command)}</pre>"),
    ]
    body = page(f"What {name} looks at", f"{counted(analysis.graphs, 'graph')} of {data}.", sections)
    tail = f'<style>{_STYLE}</style><script type="application/json" id="content">{content}</script>'
    return body.replace("</body>", f"{tail}<script>{_script()}</script></body>")


def _script() -> str:
    """Return the modules of the page as one script: a page that is opened as a file cannot import any."""
    folder = files("egt.explain.page").joinpath("static")
    parts = [folder.joinpath(name).read_text(encoding="utf-8") for name in ("elements.js", "charts.js", "analysis.js")]
    return '"use strict";\n' + re.sub(r"^import .*\n|^export ", "", "".join(parts), flags=re.MULTILINE)


_HOPS_TEXT = (
    "<p>The weight of a node on all nodes at a number of hops, averaged over nodes, heads and graphs. Virtual nodes, "
    "and nodes that no path leads to, stand apart on the right. Dashed: even attention, times the gates where the "
    "weights are, averaged over layers.</p>"
)

_HEADS_TEXT = (
    "<p>The mean hops of the weight; how many nodes a node effectively looks at (the exponential of the entropy of its "
    "softmax); the share of pairs with less than a tenth of an even weight; the mean gate.</p>"
)

_EDGES_TEXT = (
    "<p>First, how much of its length the edge channel changes by in each layer; then its cosine with the input of the "
    "first layer.</p>"
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
.note { color: var(--soft); min-height: 1.5em; } .faded { opacity: .12; } .dashed { stroke-dasharray: 4 4; }
table.heat td { padding: 0; border: 0; width: 1.5rem; height: 1.3rem; } table.heat th { border: 0; font-size: .75rem;
  padding: 0 .3rem; text-align: center; font-weight: 400; color: var(--soft); }
"""


def _content(analysis: Analysis) -> dict[str, Any]:
    """Return the data of the charts."""
    hops, edges = analysis.hops, analysis.edges
    codes = [code for code in hops.codes if code < FROM_VIRTUAL]
    return {
        "layers": [layer + 1 for layer in analysis.layers],
        "hops": {
            "names": hops.names[: len(codes)],
            "numbers": len(hops.hops),
            "product": _round(hops.mean(hops.product.mean(1))[:, codes]),
            "softmax": _round(hops.mean(hops.softmax.mean(1))[:, codes]),
            "even": _round(hops.mean(hops.even)[codes]),
            "even_product": _round(hops.mean(hops.even_product.mean((0, 1)))[codes]),
        },
        "heads": {name: _round(values) for name, values in analysis.head_values.items()},
        "edges": {
            "change": _round(edges.relative_change().T),
            "likeness": _round(edges.mean(edges.likeness)[1:].T),
        },
        "graphs": [_graph(row, found) for row, found in analysis.shown.items()],
    }


def _graph(row: int, found: Attention) -> dict[str, Any]:
    """Return the matrices of a graph, each as bytes between its smallest and its largest entry."""
    size = min(found.num_nodes, found.num_virtual + MOST_NODES)
    matrices = {kind: found.matrix(getattr(found, kind), size) for kind in ("product", "softmax", "gates")}
    return {
        "name": f"row {row}" + (f", {found.graph.id}" if found.graph.id else ""),
        "size": size,
        "nodes": found.graph.num_nodes,
        "virtual": found.num_virtual,
        "heads": int(found.product.shape[1]),
        **{kind: _pack(np.concatenate([m, m.mean(1, keepdims=True)], axis=1)) for kind, m in matrices.items()},
    }


def _pack(matrices: NDArray[np.float32]) -> dict[str, Any]:
    """Return matrices (L, H + 1, n, n), the last of a layer being the mean of its heads, as text."""
    low, high = matrices.min((2, 3)), matrices.max((2, 3))
    wide = np.where(high > low, high - low, 1)[..., None, None]
    steps = np.rint(255 * (matrices - low[..., None, None]) / wide).astype(np.uint8)
    return {"low": _round(low), "high": _round(high), "bytes": b64encode(steps.tobytes()).decode()}


def _round(values: NDArray[Any]) -> Any:
    return np.round(values.astype(np.float64), 5).tolist()


def write_analysis(analysis: Analysis, choice: Choice, folder: Path, name: str, data: str, command: str) -> list[Path]:
    """Write analysis.html, figures, and the numbers as CSV and Parquet; return the files, the page first."""
    result_folder(folder, ANALYSIS.name)
    write_page(folder / ANALYSIS.name, analysis_page(analysis, name, data, command))
    tables = {
        "hops": analysis.hops.columns(analysis.layers),
        "heads": analysis.heads.columns(analysis.layers, analysis.hops.reach(analysis.hops.product)),
        "edge_channel": analysis.edges.columns(),
    }
    written = [file for key, columns in tables.items() for file in write_columns(folder, key, columns)]
    if can_draw():
        written += write_figures(analysis, choice, folder)
    else:
        log.warning('no PNG and SVG figures: they need matplotlib (pip install "egt-graph[figures]")')
    return [folder / ANALYSIS.name, *written]
