"""What figures and pages show of one graph: matrices between its nodes, cropped where there are many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egt.data.encodings.distances import LARGEST_MAX_HOPS, ShortestPaths
from egt.errors import ConfigError
from egt.graph import Graph
from egt.inference.attention_capture import Attention

Matrix = NDArray[np.float64]

MOST_NODES = 500
"""Of a graph whose matrices are drawn, unless told otherwise; the first ones."""


@dataclass(frozen=True)
class Choice:
    """Which layers and head are drawn.

    Fields:
        middle: position of the middle layer among those that attend.
        deep: position of the deeper one.
        head: the example head of the middle layer, from 0; None takes the most selective one.
        crop: draw so many of the first nodes; None for `MOST_NODES`.
    """

    middle: int
    deep: int
    head: int | None = None
    crop: int | None = None


def choose(
    layers: Sequence[int],
    num_heads: int,
    asked: Sequence[int] = (),
    head: int | None = None,
    crop: int | None = None,
) -> Choice:
    """Return what is drawn: the layers asked for by number, from 1, else one in the middle and the last.

    Args:
        layers: numbers of the layers that attend, from 0.
        num_heads: of each layer.
        asked: one or two numbers, from 1.
        head: number of the example head, from 1.
        crop: how many nodes.
    """
    if len(asked) > 2:
        raise ConfigError(f"--layers {' '.join(map(str, asked))}: give one or two")
    for number in asked:
        if number - 1 not in layers:
            known = f"{layers[0] + 1}..{layers[-1] + 1}" if layers else "none"
            raise ConfigError(f"--layers {number}: the layers that attend are {known}")
    if head is not None and not 1 <= head <= num_heads:
        raise ConfigError(f"--head {head}: the heads of a layer are 1..{num_heads}")
    if crop is not None and crop < 1:
        raise ConfigError(f"--crop {crop}: at least one node has to be left")
    places = [list(layers).index(number - 1) for number in asked]
    middle = places[0] if places else (len(layers) - 1) // 2
    deep = places[-1] if places else len(layers) - 1
    return Choice(middle, deep, None if head is None else head - 1, crop)


@dataclass(frozen=True, eq=False)
class Panels:
    """The five matrices of the paper's Figure 3 for one graph, each (N, N) with values between 0 and 1 except hops.

    Fields:
        adjacency: 1 for an edge.
        distance: hops, NaN where no path leads.
        example: A_tilde of one head.
        head: the number of that head, from 0.
        middle: mean over the heads of the middle layer, normalized.
        deep: the same of the deeper layer.
    """

    adjacency: Matrix
    distance: Matrix
    example: Matrix
    head: int
    middle: Matrix
    deep: Matrix


def panels(found: Attention, choice: Choice) -> Panels:
    """Return the matrices of a graph between its own nodes; virtual ones are left out."""
    size = min(choice.crop or MOST_NODES, found.graph.num_nodes)
    distance = _distances(found.graph, size)
    product = _between_nodes(found, found.product[[choice.middle, choice.deep]], size)  # (2, H, size, size)
    head = most_selective(found, choice.middle) if choice.head is None else choice.head
    means = [normalized(part.mean(0)) for part in product]
    return Panels((distance == 1).astype(np.float64), distance, normalized(product[0, head]), head, *means)


def _distances(graph: Graph, size: int) -> Matrix:
    """Return the hops between the first nodes, (size, size), NaN where no path leads."""
    paths = ShortestPaths(LARGEST_MAX_HOPS)
    if size < graph.num_nodes:  # the whole matrix may be too large
        hops = paths.at(graph, np.indices((size, size)).reshape(2, -1)).reshape(size, size)
    else:
        hops = paths(graph)
    return np.where(hops > LARGEST_MAX_HOPS, np.nan, hops.astype(np.float64))


def _between_nodes(found: Attention, values: NDArray[np.float32], size: int) -> Matrix:
    """Return values of pairs, (..., P), as matrices between the first nodes of the graph, (..., size, size)."""
    q = found.num_virtual
    matrix: Matrix = found.matrix(values, q + size)[..., q:, q:].astype(np.float64)
    return matrix


def most_selective(found: Attention, layer: int) -> int:
    """Return the head of a layer, by its position, whose softmax has the least entropy on a graph."""
    softmax = found.softmax[layer]
    entropy = -(softmax * np.log(np.maximum(softmax, 1e-30))).sum(-1)  # (H,)
    return int(entropy.argmin())


def normalized(matrix: Matrix) -> Matrix:
    """Return the matrix with its smallest entry at 0 and its largest at 1."""
    low, high = matrix.min(), matrix.max()
    scaled: Matrix = (matrix - low) / (high - low if high > low else 1.0)
    return scaled
