"""Figures for a paper, as PNG and SVG: the panels of a graph beside the hop profile, and what each head does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.errors import RunError
from egt.explain.analysis import TO_VIRTUAL, UNREACHABLE, Analysis
from egt.explain.views import Choice, Panels, panels
from egt.files import write_atomically

_STYLE = {
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.linewidth": 0.5,
    "figure.dpi": 100,
    "savefig.dpi": 300,
    "svg.fonttype": "none",
    "svg.hashsalt": "egt",
}

_MOST_UPRIGHT = 10
"""Names under an axis; of more, neighbors would touch."""

_LABELS = {UNREACHABLE: "none", TO_VIRTUAL: "virtual"}


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def write_figures(analysis: Analysis, choice: Choice, folder: Path) -> list[Path]:
    """Draw everything into a folder; returns the files.

    Each graph that is shown gets graph-ROW (the paper's Figure 3), all of them together hops and heads.
    """
    from matplotlib import rc_context

    with rc_context(_STYLE):
        figures = {f"graph-{row}": _graph_figure(analysis, row, choice) for row in analysis.shown}
        figures |= {"hops": _hops_figure(analysis), "heads": _heads_figure(analysis)}
        return [file for name, figure in figures.items() for file in _save(figure, folder / name)]


def _save(figure: Any, path: Path) -> list[Path]:
    files = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
    try:
        for file in files:
            date = {"Date": None} if file.suffix == ".svg" else {}
            with write_atomically(file) as draft:
                figure.savefig(draft, bbox_inches="tight", metadata=date)
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror}); choose another folder (-o)") from error
    return files


def _new(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _graph_figure(analysis: Analysis, row: int, choice: Choice) -> Any:
    """Draw the five matrices of a graph and, on the right, the weights by hop of all graphs."""
    found = panels(analysis.shown[row], choice)
    figure = _new(11.5, 1.9)
    *left, right = figure.subplots(1, 6, width_ratios=[1, 1, 1, 1, 1, 1.5])
    for axes, (title, matrix) in zip(left, _titled(found, analysis, choice).items(), strict=True):
        image = axes.imshow(matrix, cmap="viridis", interpolation="nearest")
        axes.set_title(title)
        ends = [0, len(matrix) - 1]
        axes.set_xticks(ends, ends, fontsize=5)
        axes.set_yticks(ends, ends, fontsize=5)
        axes.set_xlabel("node j", fontsize=5, labelpad=-4)
        axes.set_ylabel("node i", fontsize=5, labelpad=-4)
        figure.colorbar(image, ax=axes, shrink=0.7, pad=0.03).ax.tick_params(labelsize=5)
    _draw_hops(right, analysis, analysis.hops.product)
    right.set_title("weights by hop, all graphs")
    return figure


def _titled(found: Panels, analysis: Analysis, choice: Choice) -> Mapping[str, NDArray[np.float64]]:
    middle, deep = (analysis.layers[place] + 1 for place in (choice.middle, choice.deep))
    return {
        "(i) adjacency": found.adjacency,
        "(ii) distance": found.distance,
        f"(iii) layer {middle}, head {found.head + 1}": found.example,
        f"(iv) layer {middle}, mean of heads": found.middle,
        f"(v) layer {deep}, mean of heads": found.deep,
    }


def _draw_hops(axes: Any, analysis: Analysis, sums: NDArray[np.float64]) -> None:
    """Draw a line for each layer over the hops, from dark (first layer) to bright."""
    from matplotlib import colormaps

    profile = analysis.hops
    codes = [code for code in profile.codes if code <= TO_VIRTUAL]
    mean = profile.mean(sums.mean(1))[:, codes]
    places = list(range(len(codes)))
    numbers = len(profile.hops)  # hops are joined by lines, what stands apart is a point
    colors = colormaps["viridis"](np.linspace(0, 0.92, len(mean)))
    for layer, (row, color) in enumerate(zip(mean, colors, strict=True)):
        label = f"{analysis.layers[layer] + 1}"
        axes.plot(places[:numbers], row[:numbers], color=color, linewidth=0.9, label=label)
        axes.plot(places[numbers:], row[numbers:], ".", color=color, markersize=4)
    names = [_LABELS.get(code, str(code)) for code in codes]
    axes.set_xticks(places, names, fontsize=5, rotation=90 if len(names) > _MOST_UPRIGHT else 0)
    axes.set_xlabel("hops")
    axes.legend(title="layer", fontsize=4.5, title_fontsize=5, ncols=2 if len(mean) > 5 else 1, frameon=False)


def _hops_figure(analysis: Analysis) -> Any:
    figure = _new(7, 2.4)
    left, right = figure.subplots(1, 2, sharey=True)
    _draw_hops(left, analysis, analysis.hops.product)
    left.set_title("softmax x gates")
    _draw_hops(right, analysis, analysis.hops.softmax)
    right.set_title("softmax alone")
    return figure


def _heads_figure(analysis: Analysis) -> Any:
    """Draw layers by heads: how far, how many nodes, how open."""
    heads = analysis.heads
    values = {
        "mean hops": analysis.hops.reach(analysis.hops.product),
        "nodes looked at": heads.attended,
        "pairs without weight": heads.sparsity,
        "mean gate": heads.gate_density,
    }
    figure = _new(8.4, 0.6 + 0.17 * len(analysis.layers) + 0.6)
    for axes, (title, matrix) in zip(figure.subplots(1, len(values)), values.items(), strict=True):
        image = axes.imshow(matrix, cmap="viridis", aspect="auto", interpolation="nearest")
        figure.colorbar(image, ax=axes, shrink=0.9)
        axes.set_title(title)
        axes.set_xlabel("head")
        axes.set_ylabel("layer")
        axes.set_xticks(range(matrix.shape[1]), [str(head + 1) for head in range(matrix.shape[1])])
        axes.set_yticks(range(len(analysis.layers)), [str(layer + 1) for layer in analysis.layers])
    return figure
