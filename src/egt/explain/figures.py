"""Figures for a paper, as PNG and SVG: the matrices of a graph beside the hop profile, and what each head does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from egt.data.encodings.encoding import LARGEST_MAX_HOPS, ShortestPaths
from egt.errors import ConfigError
from egt.explain.analysis import TO_VIRTUAL, UNREACHABLE, Analysis, Floats
from egt.files import write_result
from egt.inference.attention_capture import Attention

MOST_NODES = 500  # the largest part of a graph whose matrices are drawn, unless a crop is given: its first nodes
_STYLE = {
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.linewidth": 0.5,
    "figure.dpi": 100,
    "savefig.dpi": 300,
    "svg.fonttype": "none",
    "svg.hashsalt": "egt",
}

_MOST_UPRIGHT = 10  # the most names under an axis that stand upright; more would touch


@dataclass(frozen=True)
class Choice:
    """The layers and the head to draw.

    Fields:
        middle: Position of the middle layer among those with attention.
        head: The example head of the middle layer, from 0; None takes the most selective one.
        crop: The number of nodes to draw; None for `MOST_NODES`.
    """

    middle: int
    deep: int
    head: int | None = None
    crop: int | None = None


def choose(
    layers: Sequence[int],
    num_heads: int,
    chosen: Sequence[int] = (),
    head: int | None = None,
    crop: int | None = None,
) -> Choice:
    """Return one or two chosen layers and a head, both numbered from 1; by default the middle and the last layer.

    `layers` are the numbers of the layers with attention, from 0.
    """
    if len(chosen) > 2:
        raise ConfigError(f"--layers {' '.join(map(str, chosen))}: give one or two")
    for number in chosen:
        if number - 1 not in layers:
            known = f"{layers[0] + 1}..{layers[-1] + 1}" if layers else "none"
            raise ConfigError(f"--layers {number}: the layers that attend are {known}")
    if head is not None and not 1 <= head <= num_heads:
        raise ConfigError(f"--head {head}: the heads of a layer are 1..{num_heads}")
    if crop is not None and crop < 1:
        raise ConfigError(f"--crop {crop}: at least one node has to be left")
    places = [list(layers).index(number - 1) for number in chosen] or [(len(layers) - 1) // 2, len(layers) - 1]
    return Choice(places[0], places[-1], None if head is None else head - 1, crop)


def panels(found: Attention, choice: Choice) -> dict[str, Floats]:
    """Return title -> matrix, (N, N), for the five matrices of the paper's Figure 3, without virtual nodes.

    Adjacency; hops, NaN where there is no path; A_tilde of one head of the middle layer; its mean over the heads of
    that layer and of the deeper one. Weights are scaled to between 0 and 1.
    """
    size = min(choice.crop or MOST_NODES, found.graph.num_nodes)
    paths, q = ShortestPaths(LARGEST_MAX_HOPS), found.num_virtual
    if size < found.graph.num_nodes:  # the whole matrix may be too large
        hops = paths.at(found.graph, np.indices((size, size)).reshape(2, -1)).reshape(size, size)
    else:
        hops = paths(found.graph)
    distance = np.where(hops > LARGEST_MAX_HOPS, np.nan, hops.astype(np.float64))
    product = found.matrix(found.product[[choice.middle, choice.deep]], q + size)[..., q:, q:].astype(np.float64)
    head = most_selective(found, choice.middle) if choice.head is None else choice.head
    middle, deep = (found.layers[place] + 1 for place in (choice.middle, choice.deep))
    return {
        "(i) adjacency": (distance == 1).astype(np.float64),
        "(ii) distance": distance,
        f"(iii) layer {middle}, head {head + 1}": normalized(product[0, head]),
        f"(iv) layer {middle}, mean of heads": normalized(product[0].mean(0)),
        f"(v) layer {deep}, mean of heads": normalized(product[1].mean(0)),
    }


def most_selective(found: Attention, layer: int) -> int:
    """Return the head of a layer, by its position, whose softmax has the least entropy on a graph."""
    softmax = found.softmax[layer]
    entropy = -(softmax * np.log(np.maximum(softmax, 1e-30))).sum(-1)  # (H,)
    return int(entropy.argmin())


def normalized(matrix: Floats) -> Floats:
    """Return the matrix with its smallest entry at 0 and its largest at 1."""
    low, high = matrix.min(), matrix.max()
    scaled: Floats = (matrix - low) / (high - low if high > low else 1.0)
    return scaled


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def write_figures(analysis: Analysis, choice: Choice, folder: Path) -> list[Path]:
    """Write graph-ROW (the paper's Figure 3) for each graph that is shown, hops and heads; return the files."""
    import matplotlib.figure

    sizes = {f"graph-{row}": (11.5, 1.9) for row in analysis.shown}
    sizes |= {"hops": (7, 2.4), "heads": (8.4, 1.2 + 0.17 * len(analysis.layers))}
    files = []
    with matplotlib.rc_context(_STYLE):
        for name, size in sizes.items():
            figure = matplotlib.figure.Figure(figsize=size, layout="constrained")
            if name == "hops":
                left, right = figure.subplots(1, 2, sharey=True)
                _draw_hops(left, analysis, analysis.hops.product, "softmax x gates")
                _draw_hops(right, analysis, analysis.hops.softmax, "softmax alone")
            elif name == "heads":
                _draw_heads(figure, analysis)
            else:
                _draw_graph(figure, analysis, panels(analysis.shown[int(name.removeprefix("graph-"))], choice))
            for file in (folder / f"{name}.png", folder / f"{name}.svg"):
                metadata = {"Date": None} if file.suffix == ".svg" else {}
                with write_result(file) as draft:
                    figure.savefig(draft, bbox_inches="tight", metadata=metadata)
                files.append(file)
    return files


def _draw_graph(figure: Any, analysis: Analysis, matrices: dict[str, Floats]) -> None:
    """Draw the five matrices of a graph and, on the right, the weights by hop of all graphs."""
    *left, right = figure.subplots(1, 6, width_ratios=[1, 1, 1, 1, 1, 1.5])
    for axes, (title, matrix) in zip(left, matrices.items(), strict=True):
        ends = [0, len(matrix) - 1]
        image = axes.imshow(matrix, cmap="viridis", interpolation="nearest")
        axes.set_title(title)
        axes.set_xticks(ends, ends, fontsize=5)
        axes.set_yticks(ends, ends, fontsize=5)
        axes.set_xlabel("node j", fontsize=5, labelpad=-4)
        axes.set_ylabel("node i", fontsize=5, labelpad=-4)
        figure.colorbar(image, ax=axes, shrink=0.7, pad=0.03).ax.tick_params(labelsize=5)
    _draw_hops(right, analysis, analysis.hops.product, "weights by hop, all graphs")


def _draw_hops(axes: Any, analysis: Analysis, sums: Floats, title: str) -> None:
    """Draw a line for each layer over the hops, from dark (first layer) to bright."""
    from matplotlib import colormaps

    profile = analysis.hops
    codes = [code for code in profile.codes if code <= TO_VIRTUAL]
    names = [{UNREACHABLE: "none", TO_VIRTUAL: "virtual"}.get(code, str(code)) for code in codes]
    mean = profile.mean(sums.mean(1))[:, codes]
    places, numbers = range(len(codes)), len(profile.hops)  # hops are joined by lines, other codes are points
    colors = colormaps["viridis"](np.linspace(0, 0.92, len(mean)))
    for layer, (row, color) in enumerate(zip(mean, colors, strict=True)):
        axes.plot(places[:numbers], row[:numbers], color=color, linewidth=0.9, label=f"{analysis.layers[layer] + 1}")
        axes.plot(places[numbers:], row[numbers:], ".", color=color, markersize=4)
    axes.set_xticks(places, names, fontsize=5, rotation=90 if len(names) > _MOST_UPRIGHT else 0)
    axes.set_xlabel("hops")
    axes.set_title(title)
    axes.legend(title="layer", fontsize=4.5, title_fontsize=5, ncols=2 if len(mean) > 5 else 1, frameon=False)


def _draw_heads(figure: Any, analysis: Analysis) -> None:
    """Draw layers by heads: how far, how many nodes, how open."""
    values = analysis.head_values
    for axes, (title, matrix) in zip(figure.subplots(1, len(values)), values.items(), strict=True):
        figure.colorbar(
            axes.imshow(matrix, cmap="viridis", aspect="auto", interpolation="nearest"), ax=axes, shrink=0.9
        )
        axes.set_title(title)
        axes.set_xlabel("head")
        axes.set_ylabel("layer")
        axes.set_xticks(range(matrix.shape[1]), [str(head + 1) for head in range(matrix.shape[1])])
        axes.set_yticks(range(len(analysis.layers)), [str(layer + 1) for layer in analysis.layers])
