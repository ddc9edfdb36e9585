"""Small charts as SVG text: lines, points, matrices and drawings of graphs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.molecules import parse_smiles
from egt.graph import Graph
from egt.parts.tasks.scores import cumulative

COLORS = ("#3266ad", "#d1662f", "#4d9a4d", "#8a5aa8")
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 16, 16, 42
_MOST_POINTS = 2_000

Points = tuple[NDArray[np.float64], NDArray[np.float64]]
Limits = tuple[float, float]


def _svg(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title, quote=True)}">{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, content: str, anchor: str = "middle", attributes: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{attributes}>{escape(content)}</text>'


def _line(start: tuple[float, float], end: tuple[float, float], attributes: str) -> str:
    return f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" {attributes}/>'


def _widen(limits: Limits) -> Limits:
    low, high = limits
    return (low, high) if high - low > 1e-12 else (low - 0.5, high + 0.5)


def round_numbers(limits: Limits, most: int = 8) -> list[float]:
    """Return the numbers to write on an axis: multiples of 1, 2 or 5 times a power of ten between its ends."""
    low, high = limits
    least = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
    return [step * k for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


class _Axes:
    """A frame with round numbers on the y axis and the given ones on the x axis."""

    def __init__(self, x: Limits, y: Limits, x_name: str, y_name: str, width: int = 360, height: int = 360) -> None:
        self.x, self.y = _widen(x), _widen(y)
        self.width, self.height, self.title = width, height, f"{y_name} over {x_name}"
        middle = height / 2
        turned = f' transform="rotate(-90 12 {middle:.0f})"'
        self.parts = [_text(width / 2, height - 6, x_name), _text(12, middle, y_name, attributes=turned)]
        for y_value in round_numbers(self.y):
            left, right = self.place(self.x[0], y_value), self.place(self.x[1], y_value)
            self.parts.append(_line(left, right, 'class="grid"'))
            self.parts.append(_text(left[0] - 6, left[1] + 4, f"{y_value:.10g}", "end"))

    def place(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return _LEFT + (self.width - _LEFT - _RIGHT) * across, _TOP + (self.height - _TOP - _BOTTOM) * (1 - up)

    def number(self, values: Iterable[float], *, grid: bool = False) -> None:
        """Write numbers below the x axis; `grid` draws a line above each of them."""
        for value in values:
            x, y = self.place(value, self.y[0])
            self.parts.append(_text(x, y + 17, f"{value:.10g}"))
            if grid:
                self.parts.append(_line((x, y), self.place(value, self.y[1]), 'class="grid"'))

    def draw_curves(self, series: Mapping[str, Points], *, legend: float, step: float) -> None:
        """Draw a curve for each name; the names stand from the height `legend` on."""
        for number, (name, points) in enumerate(series.items()):
            color = COLORS[number % len(COLORS)]
            places = (self.place(x, y) for x, y in zip(*points, strict=True))
            text = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            self.parts.append(f'<polyline points="{text}" fill="none" stroke="{color}" stroke-width="2"/>')
            self.parts.append(_text(self.width - _RIGHT - 4, legend + step * number, name, "end", f' fill="{color}"'))

    def svg(self) -> str:
        return _svg(self.width, self.height, self.title, self.parts)


def line_chart(series: Mapping[str, Sequence[float]], x_name: str, y_name: str) -> str:
    """Return lines over 1, 2, 3, ..., one per name. Values that are not finite are left out."""
    curves = {}
    for name, values in series.items():
        y = np.asarray(values, np.float64)
        finite = np.flatnonzero(np.isfinite(y))
        curves[name] = ((finite + 1).astype(np.float64), y[finite])
    known = np.concatenate([np.zeros(0), *(y for _, y in curves.values())])
    longest = max((len(values) for values in series.values()), default=1)
    limits = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    axes = _Axes((1, max(longest, 2)), limits, x_name, y_name, width=520, height=260)
    axes.number(sorted({1, longest // 2 + 1, max(longest, 1)}))
    axes.draw_curves(curves, legend=_TOP + 14, step=16)
    return axes.svg()


def parity_chart(truth: NDArray[np.float64], predicted: NDArray[np.float64], name: str) -> str:
    """Return predictions (rows,) over true values (rows,) with the diagonal; at most 2,000 points, drawn at random."""
    both = np.concatenate([truth, predicted])
    margin = 0.03 * float(np.ptp(both))
    limits = (float(both.min()) - margin, float(both.max()) + margin)
    axes = _Axes(limits, limits, f"true {name}", f"predicted {name}")
    axes.number(round_numbers(axes.x), grid=True)
    low, high = axes.x
    axes.parts.append(_line(axes.place(low, low), axes.place(high, high), f'stroke="{COLORS[1]}"'))
    for row in np.random.default_rng(0).permutation(len(truth))[:_MOST_POINTS].tolist():
        x, y = axes.place(float(truth[row]), float(predicted[row]))
        axes.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{COLORS[0]}" fill-opacity="0.45"/>')
    return axes.svg()


def curve_chart(series: Mapping[str, Points], x_name: str, y_name: str, *, diagonal: bool = False) -> str:
    """Return curves of shares between 0 and 1, as those of ROC and precision; `diagonal` is the line of guessing."""
    axes = _Axes((0.0, 1.0), (0.0, 1.0), x_name, y_name)
    axes.number(round_numbers(axes.x))
    if diagonal:
        axes.parts.append(_line(axes.place(0, 0), axes.place(1, 1), 'class="grid"'))
    shown = {}
    for name, (x, y) in series.items():
        rows = np.unique(np.linspace(0, len(x) - 1, min(len(x), 400)).astype(int))
        shown[name] = (x[rows], y[rows])
    axes.draw_curves(shown, legend=axes.height - _BOTTOM - 8, step=-16)
    return axes.svg()


def matrix_chart(counts: NDArray[np.int64], names: Sequence[str]) -> str:
    """Return a confusion matrix: rows are true classes, columns predicted ones; shades are shares of the row."""
    cell = 44
    margin = 24 + 7 * max((len(name[:18]) for name in names), default=1)
    side = margin + cell * len(names) + 8
    parts = []
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    for i, name in enumerate(names):
        middle = margin + cell * i + cell / 2
        turned = f' transform="rotate(-60 {middle:.0f} {margin - 6})"'
        parts.append(_text(margin - 6, middle + 4, name[:18], "end"))
        parts.append(_text(middle, margin - 6, name[:18], "start", turned))
        for j, predicted in enumerate(names):
            x, share = margin + cell * j, float(shares[i, j])
            title = f"{name} called {predicted}: {counts[i, j]} ({100 * share:.0f}%)"
            box = f'x="{x}" y="{margin + cell * i}" width="{cell - 1}" height="{cell - 1}"'
            fill = f'fill="{COLORS[0]}" fill-opacity="{0.06 + 0.8 * share:.2f}"'
            parts.append(f"<rect {box} {fill}><title>{escape(title)}</title></rect>")
            parts.append(_text(x + cell / 2, middle + 4, str(counts[i, j])))
    return _svg(side, side, "confusion matrix", parts)


def roc(scores: NDArray[np.float64], labels: NDArray[np.bool_]) -> Points:
    """Return the false and true positive rates over all thresholds. Both classes must occur."""
    right, wrong = cumulative(scores, labels)
    return np.r_[0.0, wrong / wrong[-1]], np.r_[0.0, right / right[-1]]


def precision_recall(scores: NDArray[np.float64], labels: NDArray[np.bool_]) -> Points:
    """Return recall and precision over all thresholds. Both classes must occur."""
    right, wrong = cumulative(scores, labels)
    return right / right[-1], right / (right + wrong)


# A page styles the classes; a drawing in a file of its own has no page.
_EDGE = 'class="edge" stroke="#667" stroke-opacity="0.35"'
_HOT_EDGE = 'class="edge hot" stroke="#d65c1c" stroke-opacity="0.55"'


def graph_drawing(graph: Graph, shares: Sequence[float], marked: Sequence[bool]) -> str:
    """Return a graph of at most some hundred nodes, colored orange for positive shares and blue for negative ones.

    shares: (N,) between -1 and 1. marked: (N,) nodes that get a red ring.
    """
    size = 380
    places = (16 + (size - 32) * spring_positions(graph)).tolist()
    hot = np.asarray(shares) >= 0.5
    parts = [_line(places[i], places[j], _HOT_EDGE if hot[i] and hot[j] else _EDGE) for i, j in edges_to_draw(graph)]
    for k, (x, y) in enumerate(places):
        ring = 'stroke="#c2182b" stroke-width="3"' if marked[k] else 'stroke="#667" stroke-width="0.6"'
        title = f"<title>node {k}: {100 * shares[k]:.0f}%</title>"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6.5" fill="{_shade(shares[k])}" {ring}>{title}</circle>')
    return _svg(size, size, f"graph {graph.id}", parts)


def molecule_drawing(smiles: str, width: int, height: int, *, numbers: bool = False, **colors: Any) -> str:
    """Return a molecule as chemists draw it, with wedges at stereo centers.

    `numbers` writes those of the atoms beside them. `colors` are highlightAtoms, highlightAtomColors, highlightBonds
    and highlightBondColors of RDKit.
    """
    from rdkit.Chem.Draw import rdMolDraw2D  # here: RDKit is an extra

    [(molecule, _)] = parse_smiles([smiles])
    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    options: Any = drawer.drawOptions()
    options.addAtomIndices = numbers
    options.clearBackground = False
    options.fixedBondLength = 26.0  # a small molecule is not drawn huge
    rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule, **colors)
    drawer.FinishDrawing()
    text: str = drawer.GetDrawingText()
    return text.partition("?>")[2].strip() or text


def edges_to_draw(graph: Graph) -> list[tuple[int, int]]:
    """Return the nodes i < j of each line between two nodes, whatever directions its edges have."""
    ends = np.sort(graph.edge_index, axis=0)
    return sorted({(i, j) for i, j in ends.T.tolist() if i < j})


def spring_positions(graph: Graph) -> NDArray[np.float64]:
    """(N, 2) between 0 and 1: edges pull, all nodes push (Fruchterman and Reingold)."""
    count, steps = graph.num_nodes, 150
    angle = 2 * np.pi * np.arange(count) / count
    place = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    adjacency = graph.adjacency(self_loops=False)
    adjacency = np.maximum(adjacency, adjacency.T)  # an edge pulls both of its nodes
    ideal = 1.0 / np.sqrt(count)
    for step in range(steps):
        offset = place[:, None] - place[None, :]
        distance = np.maximum(np.linalg.norm(offset, axis=2), 1e-3)
        force = (ideal**2 / distance**2 - adjacency * distance / ideal / count**0.5)[..., None] * offset
        move = force.sum(1)
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        place = place + move / length * np.minimum(length, 0.1 * (1 - step / steps))
    low, high = place.min(0), place.max(0)
    scaled: NDArray[np.float64] = (place - low) / np.maximum(high - low, 1e-9)
    return scaled


def _shade(share: float) -> str:
    """Return a color from a pale gray to a strong orange, or to a strong blue below 0."""
    low, high = np.array([228, 232, 238]), np.array([214, 92, 28] if share >= 0 else [51, 102, 173])
    red, green, blue = np.rint(low + (high - low) * min(abs(share), 1.0)).astype(int).tolist()
    return f"rgb({red},{green},{blue})"
