"""Splitting a set of graphs into groups that are computed at once, with little padding and under a pair budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from egt.batching.batch import LayoutName
from egt.errors import ConfigError

IntArray = NDArray[np.int64]

MAX_PADDED_SHARE = 0.1
"""Groups for the padded layout are made so that at most this share of their pair cells is padding."""


def split(sizes: IntArray, layout: LayoutName, pair_budget: int | None = None) -> list[IntArray]:
    """Groups of graphs, each sorted by size: as few as the layout and the pair budget allow.

    Args:
        sizes: (B,) number of nodes of each graph.
        layout: "padded" takes graphs of like size together; the others have no padding and need no groups.
        pair_budget: the most pair cells, padding included, that a group may have; means nothing to "edge_list".

    Returns:
        Positions in `sizes`; each occurs in exactly one group.
    """
    order = np.argsort(sizes, kind="stable")
    sorted_sizes = sizes[order]
    groups = _like_sizes(sorted_sizes) if layout == "padded" else [np.arange(len(sizes))]
    if pair_budget is None or layout == "edge_list":
        return [order[group] for group in groups if len(group)]
    parts = (part for group in groups for part in _within(sorted_sizes[group], layout, pair_budget, group))
    return [order[part] for part in parts if len(part)]


def _like_sizes(sorted_sizes: IntArray) -> list[IntArray]:
    """The fewest groups of neighbors in size whose padded share stays below the limit (dynamic program over sizes)."""
    values, counts = np.unique(sorted_sizes, return_counts=True)
    last = np.cumsum(counts)
    start = last - counts
    real = int((sorted_sizes**2).sum())
    # cells[a, b]: pair cells of one group with the sizes a..b.
    cells = (last[None, :] - start[:, None]) * (values**2)[None, :].astype(np.float64)
    cells[np.tril_indices(len(values), -1)] = np.inf
    best, cuts = cells[0], list[IntArray]()  # best[b]: cells of the sizes up to b in len(cuts) + 1 groups
    while best[-1] * (1 - MAX_PADDED_SHARE) > real:
        options = best[:-1, None] + cells[1:, :]  # the last group starts at size 1 + row
        cuts.append(np.argmin(options, axis=0))
        best = options.min(axis=0)
    end, groups = len(values) - 1, list[IntArray]()
    for cut in reversed(cuts):
        groups.append(np.arange(start[cut[end] + 1], last[end]))
        end = int(cut[end])
    groups.append(np.arange(last[end]))
    return groups[::-1]


def _within(sizes: IntArray, layout: LayoutName, pair_budget: int, group: IntArray) -> Iterator[IntArray]:
    """Cut a sorted group where it would exceed the budget."""
    first, pairs = 0, 0
    for k, size in enumerate(sizes.tolist()):
        pairs = pairs + size**2 if layout == "packed" else (k + 1 - first) * size**2
        if pairs > pair_budget and k > first:
            yield group[first:k]
            first, pairs = k, size**2
    yield group[first:]


def check_budget(sizes: IntArray, layout: LayoutName, pair_budget: int | None) -> None:
    """Raise a `ConfigError` that names the largest graph when it alone exceeds the budget."""
    if pair_budget is None or layout == "edge_list" or not len(sizes):
        return
    largest = int(np.argmax(sizes))
    nodes = int(sizes[largest])
    if nodes**2 > pair_budget:
        raise ConfigError(
            f"graph {largest} has {nodes} nodes, {nodes**2:,} pairs, more than data.pair_budget {pair_budget:,} allows "
            f"at once; raise data.pair_budget to at least {nodes**2} or leave such graphs out"
        )


def padded_share(groups: Iterable[IntArray]) -> float:
    """The share of pair cells that is padding when each group is padded to its largest graph.

    groups: the sizes of the graphs of each group.
    """
    real = cells = 0
    for sizes in groups:
        real += int((sizes**2).sum())
        cells += len(sizes) * int(sizes.max()) ** 2
    return 1 - real / cells
