"""What figures and pages show of one graph: matrices between its nodes, cropped where there are many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egt.encodings.distances import LARGEST_MAX_HOPS, ShortestPaths
from egt.errors import ConfigError
from egt.inference.attention import Attention

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """Which layers and head are drawn.

    Fields:
        middle: position of the middle layer among those that attend.
        deep: position of the deeper one.
        head: the example head of the middle layer, from 0; None takes the most selective one.
        crop: draw the first nodes only; None for all.
    """

    middle: int
    deep: int
    head: int | None = None
    crop: int | None = None


def choose(
    layers: Sequence[int], asked: Sequence[int] = (), head: int | None = None, crop: int | None = None
) -> Choice:
    """Return what is drawn: the layers asked for by number, from 1, else one in the middle and the last.

    Args:
        layers: numbers of the layers that attend, from 0.
        asked: one or two numbers, from 1.
        head: number of the example head, from 1.
        crop: how many nodes.
    """
    for number in asked:
        if number - 1 not in layers:
            raise ConfigError(f"--layers {number}: the layers that attend are {layers[0] + 1}..{layers[-1] + 1}")
    if len(asked) > 2:
        raise ConfigError(f"--layers {' '.join(map(str, asked))}: one or two layers are drawn")
    for option, given in (("--head", head), ("--crop", crop)):
        if given is not None and given < 1:
            raise ConfigError(f"{option} {given}: must be at least 1")
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
    distance = ShortestPaths(LARGEST_MAX_HOPS)(found.graph).astype(np.float64)
    distance[distance > LARGEST_MAX_HOPS] = np.nan
    product = between_nodes(found, found.product[[choice.middle, choice.deep]])  # (2, H, N, N)
    if choice.head is not None and choice.head >= product.shape[1]:
        raise ConfigError(f"--head {choice.head + 1}: a layer has {product.shape[1]} heads")
    head = most_selective(found, choice.middle) if choice.head is None else choice.head
    shown = slice(choice.crop)
    means = [normalized(part.mean(0)[shown, shown]) for part in product]
    example = normalized(product[0, head][shown, shown])
    adjacency = found.graph.adjacency(self_loops=False)
    return Panels(adjacency[shown, shown], distance[shown, shown], example, head, *means)


def between_nodes(found: Attention, values: NDArray[np.float32]) -> Matrix:
    """Return values of pairs, (..., P), as matrices between the nodes of the graph, (..., N, N)."""
    q = found.num_virtual
    matrix: Matrix = found.matrix(values)[..., q:, q:].astype(np.float64)
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
