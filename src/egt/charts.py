"""Small charts as SVG text.

Charts over two number axes, and matrices, as SVG text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from egt.graph import Graph

COLORS = ("#3266ad", "#d1662f", "#4d9a4d", "#8a5aa8")

_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 16, 40

_EDGE = 'class="edge" stroke="#667" stroke-opacity="0.35"'

_HOT_EDGE = 'class="edge hot" stroke="#d65c1c" stroke-opacity="0.55"'
"""A page styles the classes; a drawing in a file of its own has no page."""


def line_chart(
    series: Mapping[str, Sequence[float]], x_name: str, y_name: str, *, width: int = 520, height: int = 260
) -> str:
    """Lines over 1, 2, 3, ...: one per name, with axes and a legend. Values that are not finite are left out."""
    finite = [value for values in series.values() for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    if high - low < 1e-12:
        low, high = low - 0.5, high + 0.5
    longest = max((len(values) for values in series.values()), default=1)

    def place(k: int, value: float) -> tuple[float, float]:
        x = _LEFT + (width - _LEFT - _RIGHT) * (k / max(longest - 1, 1))
        y = _TOP + (height - _TOP - _BOTTOM) * (1 - (value - low) / (high - low))
        return x, y

    parts = [_svg_open(width, height, f"{y_name} over {x_name}")]
    for step in range(5):
        value = low + (high - low) * step / 4
        _, y = place(0, value)
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{width - _RIGHT}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    for k in sorted({0, longest // 2, longest - 1}):
        x, _ = place(k, low)
        parts.append(f'<text x="{x:.1f}" y="{height - _BOTTOM + 18}" text-anchor="middle">{k + 1}</text>')
    parts.append(f'<text x="{width / 2:.0f}" y="{height - 4}" text-anchor="middle">{escape(x_name)}</text>')
    for number, (name, values) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        points = " ".join(
            f"{x:.1f},{y:.1f}" for x, y in (place(k, v) for k, v in enumerate(values) if math.isfinite(v))
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        corner = f'x="{width - _RIGHT - 4}" y="{_TOP + 14 + 16 * number}"'
        parts.append(f'<text {corner} text-anchor="end" fill="{color}">{escape(name)}</text>')
    return "".join([*parts, "</svg>"])


def bar_chart(values: Mapping[str, float], *, width: int = 520) -> str:
    """Horizontal bars from 0 to 1, each with its name and its value in percent."""
    row, left = 34, 190
    parts = [_svg_open(width, row * len(values) + 8, "comparison")]
    for number, (name, value) in enumerate(values.items()):
        y = 4 + row * number
        length = (width - left - 70) * min(max(value, 0.0), 1.0)
        color = COLORS[0] if number == len(values) - 1 else "#9aa4b2"
        parts.append(f'<text x="{left - 8}" y="{y + 19}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect x="{left}" y="{y + 3}" width="{length:.1f}" height="22" rx="3" fill="{color}"/>')
        parts.append(f'<text x="{left + length + 6:.1f}" y="{y + 19}">{100 * value:.1f}%</text>')
    return "".join([*parts, "</svg>"])


def graph_drawing(
    graph: Graph,
    shares: Sequence[float],
    *,
    marked: Sequence[bool] | None = None,
    positions: NDArray[np.float64] | None = None,
    size: int = 380,
) -> str:
    """Return a graph whose nodes are colored, orange for positive shares and blue for negative ones.

    Args:
        graph: at most a few hundred nodes.
        shares: (N,) between -1 and 1, how strongly each node is colored.
        marked: (N,) nodes that get a red ring.
        positions: (N, 2) between 0 and 1; `spring_positions` without them.
        size: width and height.
    """
    places = 16 + (size - 32) * (spring_positions(graph) if positions is None else positions)
    parts = [_svg_open(size, size, f"graph {graph.id}")]
    hot = np.asarray(shares) >= 0.5
    for i, j in edges_to_draw(graph):
        look = _HOT_EDGE if hot[i] and hot[j] else _EDGE
        (x1, y1), (x2, y2) = places[i], places[j]
        parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {look}/>')
    for k, (x, y) in enumerate(places.tolist()):
        ring = (
            ' stroke="#c2182b" stroke-width="3"'
            if marked is not None and marked[k]
            else ' stroke="#667" stroke-width="0.6"'
        )
        title = f"<title>node {k}: {100 * shares[k]:.0f}%</title>"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6.5" fill="{_shade(shares[k])}"{ring}>{title}</circle>')
    return "".join([*parts, "</svg>"])


def edges_to_draw(graph: Graph) -> list[tuple[int, int]]:
    """Return the nodes i < j of each line between two nodes, whatever directions its edges have."""
    ends = np.sort(graph.edge_index, axis=0)
    return sorted({(i, j) for i, j in ends.T.tolist() if i < j})


def spring_positions(graph: Graph, steps: int = 150) -> NDArray[np.float64]:
    """(N, 2) between 0 and 1: edges pull, all nodes push (Fruchterman and Reingold)."""
    count = graph.num_nodes
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


def _svg_open(width: int, height: int, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title, quote=True)}">'
    )


def _shade(share: float) -> str:
    """From a pale gray to a strong orange, or to a strong blue below 0."""
    low, high = np.array([228, 232, 238]), np.array([214, 92, 28] if share >= 0 else [51, 102, 173])
    red, green, blue = np.rint(low + (high - low) * min(abs(share), 1.0)).astype(int).tolist()
    return f"rgb({red},{green},{blue})"


_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 16, 16, 42

_MOST_POINTS = 2_000

Points = tuple[NDArray[np.float64], NDArray[np.float64]]


class _Axes:
    """A frame with numbers on both axes; x and y are (low, high)."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], width: int, height: int) -> None:
        self.x, self.y, self.width, self.height = _wide(x), _wide(y), width, height

    def place(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return _LEFT + (self.width - _LEFT - _RIGHT) * across, _TOP + (self.height - _TOP - _BOTTOM) * (1 - up)

    def open(self, title: str, x_name: str, y_name: str) -> list[str]:
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" aria-label="{escape(title, quote=True)}">'
        ]
        for step in range(5):
            x, y = (low + (high - low) * step / 4 for low, high in (self.x, self.y))
            left, right = self.place(x, self.y[0]), self.place(self.x[1], y)
            parts.append(
                f'<line x1="{_LEFT}" y1="{right[1]:.1f}" x2="{right[0]:.1f}" y2="{right[1]:.1f}" class="grid"/>'
            )
            parts.append(f'<text x="{_LEFT - 6}" y="{right[1] + 4:.1f}" text-anchor="end">{y:.3g}</text>')
            parts.append(f'<text x="{left[0]:.1f}" y="{left[1] + 16:.1f}" text-anchor="middle">{x:.3g}</text>')
        middle = self.height / 2
        parts.append(
            f'<text x="{self.width / 2:.0f}" y="{self.height - 6}" text-anchor="middle">{escape(x_name)}</text>'
        )
        parts.append(
            f'<text x="12" y="{middle:.0f}" text-anchor="middle" transform="rotate(-90 12 {middle:.0f})">'
            f"{escape(y_name)}</text>"
        )
        return parts


def parity_chart(truth: NDArray[np.float64], said: NDArray[np.float64], name: str, *, size: int = 360) -> str:
    """Predictions over true values with the diagonal where they agree; at most 2,000 points, drawn at random.

    Args:
        truth: (rows,) finite.
        said: (rows,).
        name: of the target.
        size: width and height.
    """
    both = np.concatenate([truth, said])
    limits = (float(both.min()), float(both.max()))
    axes = _Axes(limits, limits, size, size)
    parts = axes.open(f"predicted over true {name}", f"true {name}", f"predicted {name}")
    (x1, y1), (x2, y2) = axes.place(*(axes.x[0],) * 2), axes.place(*(axes.x[1],) * 2)
    parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{COLORS[1]}"/>')
    rows = np.random.default_rng(0).permutation(len(truth))[:_MOST_POINTS]
    for row in rows.tolist():
        x, y = axes.place(float(truth[row]), float(said[row]))
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{COLORS[0]}" fill-opacity="0.45"/>')
    return "".join([*parts, "</svg>"])


def curve_chart(
    series: Mapping[str, Points], x_name: str, y_name: str, *, diagonal: bool = False, size: int = 360
) -> str:
    """Curves of shares between 0 and 1, one per name, as those of ROC and precision.

    Args:
        series: x and y of each curve.
        x_name: of the x axis.
        y_name: of the y axis.
        diagonal: draw the line of guessing.
        size: width and height.
    """
    axes = _Axes((0.0, 1.0), (0.0, 1.0), size, size)
    parts = axes.open(f"{y_name} over {x_name}", x_name, y_name)
    if diagonal:
        (x1, y1), (x2, y2) = axes.place(0, 0), axes.place(1, 1)
        parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="grid"/>')
    for number, (name, (xs, ys)) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        kept = np.unique(np.linspace(0, len(xs) - 1, min(len(xs), 400)).astype(int))
        places = (axes.place(float(xs[k]), float(ys[k])) for k in kept.tolist())
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        corner = f'x="{size - _RIGHT - 4}" y="{size - _BOTTOM - 8 - 16 * number}"'
        parts.append(f'<text {corner} text-anchor="end" fill="{color}">{escape(name)}</text>')
    return "".join([*parts, "</svg>"])


def matrix_chart(counts: NDArray[np.int64], names: Sequence[str], *, cell: int = 44) -> str:
    """Draw a confusion matrix: rows are true classes, columns predicted ones; shades are shares of the row."""
    left = 24 + 7 * max((len(name[:18]) for name in names), default=1)
    top, side = left, cell * len(names)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + side + 8} {top + side + 8}" '
        f'width="{left + side + 8}" height="{top + side + 8}" role="img" aria-label="confusion matrix">'
    ]
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    for i, name in enumerate(names):
        y, x = top + cell * i + cell / 2 + 4, left + cell * i + cell / 2
        parts.append(f'<text x="{left - 6}" y="{y:.0f}" text-anchor="end">{escape(name[:18])}</text>')
        parts.append(
            f'<text x="{x:.0f}" y="{top - 6}" text-anchor="start" transform="rotate(-60 {x:.0f} {top - 6})">'
            f"{escape(name[:18])}</text>"
        )
        for j in range(len(names)):
            x, share = left + cell * j, float(shares[i, j])
            title = f"<title>{escape(name)} called {escape(names[j])}: {counts[i, j]} ({100 * share:.0f}%)</title>"
            box = f'x="{x}" y="{top + cell * i}" width="{cell - 1}" height="{cell - 1}"'
            parts.append(f'<rect {box} fill="{COLORS[0]}" fill-opacity="{0.06 + 0.8 * share:.2f}">{title}</rect>')
            parts.append(f'<text x="{x + cell / 2:.0f}" y="{y:.0f}" text-anchor="middle">{counts[i, j]}</text>')
    return "".join([*parts, "</svg>"])


def roc(scores: NDArray[np.float64], labels: NDArray[np.bool_]) -> Points:
    """Compute the false and true positive rates over all thresholds. Both classes must occur."""
    right, wrong = _cumulative(scores, labels)
    return np.r_[0.0, wrong / wrong[-1]], np.r_[0.0, right / right[-1]]


def precision_recall(scores: NDArray[np.float64], labels: NDArray[np.bool_]) -> Points:
    """Recall and precision over all thresholds. Both classes must occur."""
    right, wrong = _cumulative(scores, labels)
    return right / right[-1], right / (right + wrong)


def _cumulative(scores: NDArray[np.float64], labels: NDArray[np.bool_]) -> Points:
    """Return how many of either class score at least as much as each distinct score, highest first."""
    order = np.argsort(-scores, kind="stable")
    last = np.r_[np.flatnonzero(np.diff(scores[order])), len(order) - 1]
    right = np.cumsum(labels[order])[last].astype(np.float64)
    return right, last + 1 - right


def _wide(limits: tuple[float, float]) -> tuple[float, float]:
    low, high = limits
    return (low, high) if high - low > 1e-12 else (low - 0.5, high + 0.5)
