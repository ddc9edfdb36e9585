"""Hidden edges to be predicted.

A hidden edge is taken out of `edge_index` (both directions of an undirected one) before anything else sees the graph,
so no feature or encoding can reveal it: the edges of a graph and its query pairs are disjoint.

- One graph: its edges are divided into train, val and test. The val and test graphs show all training edges and ask
  for theirs. The training edges are divided again into 10 parts; training graph k hides part k and asks for it.
  So every training edge is learned from once per epoch, and the share of hidden edges is like that in validation.
- Many graphs: the graphs are divided, and each one hides the same share of its own edges (`hide_links`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from egt.data.schema import Codes, Shares, group_links, link_codes
from egt.data.source import SPLITS
from egt.errors import DataError
from egt.graph import Graph, IntArray

FOLDS = 10
HIDDEN_SHARE = 0.2


def link_graph(
    graph: Graph,
    split: str,
    number: int,
    *,
    fractions: Shares = (0.8, 0.1, 0.1),
    directed: bool,
    seed: int = 0,
) -> Graph:
    """Return the training, validation or test graph of a number for predicting the links of one graph.

    `count_links` counts those of a split. There is a sampled non-edge for each hidden edge, as far as the graph has as
    many. In a `directed` graph i -> j and j -> i are two links.
    """
    code = SPLITS.index(split)
    pairs = _pairs(graph, directed)
    codes = link_codes(pairs, graph.num_nodes, fractions, seed, directed=directed)
    hidden, shown = codes == code, codes == 0
    if split == "train":
        fold = np.random.default_rng([seed, 1]).permutation(np.count_nonzero(shown)) % FOLDS
        hidden[shown], shown[shown] = fold == number, fold != number
    return _hide(graph, pairs, hidden, shown, directed, np.random.default_rng([seed, 2, code, number]))


def count_links(edges: IntArray, codes: Codes, num_nodes: int, *, directed: bool) -> dict[str, int]:
    """Return how many graphs `link_graph` makes of a graph for each split, from the split of its edges."""
    between = edges[0] != edges[1]
    counts = [group_links(edges[:, between & (codes == code)], num_nodes, directed)[1] for code in range(len(SPLITS))]
    return {split: min(FOLDS if code == 0 else 1, counts[code]) for code, split in enumerate(SPLITS)}


def hide_links(graph: Graph, *, directed: bool | None = None, seed: int = 0) -> Graph:
    """Return the graph with a random fifth of its edges (at least one) hidden, as query pairs."""
    directed = not graph.is_symmetric if directed is None else directed
    pairs = _pairs(graph, directed)
    generator = np.random.default_rng([seed, 3])
    num_pairs = pairs.shape[1]
    hidden = generator.permutation(num_pairs) < max(1, round(HIDDEN_SHARE * num_pairs))
    return _hide(graph, pairs, hidden, ~hidden, directed, generator)


def query_edges(graph: Graph) -> int:
    """Count the query pairs that are edges: a model of hidden links has never seen their like."""
    if graph.query_index is None:
        return 0
    queries, edges = (index[0] * graph.num_nodes + index[1] for index in (graph.query_index, graph.edge_index))
    return int(np.isin(queries, edges).sum())


def _pairs(graph: Graph, directed: bool) -> IntArray:
    """(2, P) what can be hidden: each edge that is no self-loop, once if the graph is undirected."""
    i, j = graph.edge_index
    pairs = graph.edge_index[:, i != j if directed else i < j]
    if not pairs.shape[1]:
        raise DataError(f"graph {graph.id!r} has no edge between two nodes: there is no link to predict")
    return pairs


def _hide(
    graph: Graph,
    pairs: IntArray,
    hidden: NDArray[np.bool_],
    shown: NDArray[np.bool_],
    directed: bool,
    generator: np.random.Generator,
) -> Graph:
    """Return the graph with some pairs as edges (and its self-loops), others and sampled non-edges as query pairs."""
    num_nodes = graph.num_nodes
    i, j = graph.edge_index
    visible = pairs[:, shown]
    keys = visible[0] * num_nodes + visible[1]
    if not directed:
        keys = np.concatenate([keys, visible[1] * num_nodes + visible[0]])
    kept = np.isin(i * num_nodes + j, keys) | (i == j)
    positive = pairs[:, hidden]
    negative = _non_edges(graph, positive.shape[1], directed, generator)
    labels = np.repeat([1.0, 0.0], [positive.shape[1], negative.shape[1]])
    return replace(
        graph,
        edge_index=graph.edge_index[:, kept],
        edge_categories=graph.edge_categories[kept],
        edge_values=graph.edge_values[kept],
        edge_weight=None if graph.edge_weight is None else graph.edge_weight[kept],
        graph_targets=None,
        node_targets=None,
        query_index=np.concatenate([positive, negative], axis=1),
        edge_targets=labels[:, None],
    )


def _non_edges(graph: Graph, count: int, directed: bool, generator: np.random.Generator) -> IntArray:
    """(2, up to count) distinct pairs i != j (i < j if undirected) that are no edges of the full graph."""
    num_nodes = graph.num_nodes
    existing = graph.edge_index[0] * num_nodes + graph.edge_index[1]
    possible = num_nodes * (num_nodes - 1) // (1 if directed else 2)
    free = possible - _pairs(graph, directed).shape[1]
    if 2 * count >= free:  # few are left: list them all
        i, j = np.divmod(np.arange(num_nodes**2), num_nodes)
        listed = np.flatnonzero((i != j if directed else i < j) & ~np.isin(np.arange(num_nodes**2), existing))
        return np.stack(np.divmod(generator.permutation(listed)[:count], num_nodes))
    chosen = np.zeros(0, dtype=np.int64)
    while len(chosen) < count:
        i, j = generator.integers(num_nodes, size=(2, 2 * count))
        if not directed:
            i, j = np.minimum(i, j), np.maximum(i, j)
        drawn = (i * num_nodes + j)[i != j]
        both = np.concatenate([chosen, drawn[~np.isin(drawn, existing)]])
        chosen = both[np.sort(np.unique(both, return_index=True)[1])]
    return np.stack(np.divmod(chosen[:count], num_nodes))
