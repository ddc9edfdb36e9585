"""Charts over two number axes, and matrices, as SVG text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from egt.reporting.charts import COLORS

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
