"""Listed edges -> the edges of a `Graph`: parallel ones merged, undirected ones in both directions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egt.graph import IntArray


@dataclass(frozen=True, eq=False)
class MergedEdges:
    """Edges as `Graph` wants them.

    Fields:
        index: (2, E) directed edges without repetitions, in the order of the list, added opposites last.
        rows: (E,) the listed edge that each one takes its features from.
        weight: (E,) sums of the merged weights, or None.
        num_merged: how many listed edges were merged into an earlier one.
    """

    index: IntArray
    rows: IntArray
    weight: NDArray[np.float64] | None
    num_merged: int


def merge_edges(edges: IntArray, weight: NDArray[np.float64] | None, num_nodes: int, *, directed: bool) -> MergedEdges:
    """Merge parallel edges (weights are summed, the first one's features kept) and add missing opposite directions.

    Args:
        edges: (2, E') listed edges. An undirected edge may be listed once or in both directions.
        weight: (E',) weights, or None.
        num_nodes: N.
        directed: whether an edge i -> j says nothing about j -> i.
    """
    keys = edges[0] * num_nodes + edges[1]
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rows = first[order]
    total: NDArray[np.float64] | None = None
    if weight is not None:
        total = np.bincount(group, weights=weight, minlength=len(first))[order].astype(np.float64)
    index = edges[:, rows]
    if not directed:
        opposite = index[1] * num_nodes + index[0]
        lonely = np.flatnonzero(~np.isin(opposite, keys))
        index = np.concatenate([index, index[::-1, lonely]], axis=1)
        rows = np.concatenate([rows, rows[lonely]])
        total = None if total is None else np.concatenate([total, total[lonely]])
    return MergedEdges(index, rows, total, num_merged=edges.shape[1] - len(first))


def looks_directed(edge_lists: Iterable[tuple[int, IntArray]]) -> bool:
    """Guess from (N, edges) of some graphs: directed if some edges are listed in both directions and some are not.

    All in both directions, or none: the graphs are taken as undirected.
    """
    paired = single = False
    for num_nodes, edges in edge_lists:
        between = edges[:, edges[0] != edges[1]]
        both = np.isin(between[1] * num_nodes + between[0], between[0] * num_nodes + between[1])
        paired, single = paired or bool(both.any()), single or not bool(both.all())
        if paired and single:
            return True
    return False
