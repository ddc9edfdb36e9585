"""Linear models of what lies around the nodes of a graph: features, labels or answers averaged along its edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from egt.graph import UNKNOWN, Graph, IntArray

Rows = NDArray[np.float64]

_RETURN = 0.1
"""The share of the start that stays in each step of `spread` (Zhou et al., 2004)."""

_FEW_HOPS, _MANY_HOPS = 10, 50

_RIDGE = (0.1, 1.0)
"""Penalties that are tried, in units of the mean square of a row of features."""

_MOST_ENTRIES = 50_000_000
"""Of a table of features: 400 MB."""

_MOST_CATEGORIES = 64


def neighbors_of(graph: Graph) -> Any:
    """(N, N) D^-1/2 A D^-1/2 of the graph without directions, as a sparse matrix."""
    from scipy.sparse import coo_array

    i, j = graph.edge_index
    i, j = np.concatenate([i, j]), np.concatenate([j, i])
    A = coo_array((np.ones(len(i)), (i, j)), shape=(graph.num_nodes, graph.num_nodes)).tocsr()
    A.data[:] = 1.0
    scale = 1 / np.sqrt(np.maximum(A.sum(1), 1))
    return A.multiply(scale[:, None]).multiply(scale).tocsr()


def spread(S: Any, start: Rows, hops: int) -> Rows:
    """(N, T) rows averaged over neighbors again and again, of which a part stays what it was. S: (N, N) sparse."""
    state = start
    for _ in range(hops):
        state = (1 - _RETURN) * (S @ state) + _RETURN * start
    return state


@dataclass(frozen=True)
class LabelsAround:
    """The encoding of known labels of C = `num_classes`: shares of each among neighbors, and along long walks.

    Fields:
        folds: parts of the labels, one of which is hidden at a time (`hidden`).
    """

    num_classes: int
    folds: int

    name: ClassVar[str] = "known_labels"
    level: ClassVar[Literal["node"]] = "node"
    stored: ClassVar[bool] = True

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return (N, 2 C); all zeros where there is no label."""
        return self.without(graph, np.zeros(graph.num_nodes, bool), neighbors_of(graph))

    def without(self, graph: Graph, hidden: NDArray[np.bool_], S: Any) -> NDArray[np.float32]:
        """Return what the encoding would be if the labels of some nodes (N,) were not known. S: `neighbors_of`."""
        assert graph.known_labels is not None
        labels = np.where(hidden, UNKNOWN, graph.known_labels)
        start = (labels[:, None] == np.arange(self.num_classes)).astype(np.float32)
        shares = []
        for state in (S @ start, spread(S, start, _MANY_HOPS)):
            total = state.sum(1, keepdims=True)
            shares.append(np.divide(state, total, out=np.zeros_like(state), where=total > 0))
        return np.concatenate(shares, axis=1).astype(np.float32)

    def parts(self, graph: Graph, seed: int) -> IntArray:
        """(N,) the part of each known label, from 0; `UNKNOWN` where there is no label."""
        assert graph.known_labels is not None
        known = np.flatnonzero(graph.known_labels != UNKNOWN)
        parts = np.full(graph.num_nodes, UNKNOWN)
        parts[known] = np.random.default_rng(seed).permutation(len(known)) % self.folds
        return parts


def linear_models(
    graphs: Mapping[str, Sequence[Graph]], labels: Rows, known: NDArray[np.bool_]
) -> Iterator[tuple[bool, dict[str, Rows]]]:
    """Fit ridge regression to features of the nodes, to those two hops around (Wu et al., 2019), and to both.

    Learns from the graphs of the split "train", from labels (nodes, T) of its nodes that are known (nodes,). Yields
    whether answers are averaged over neighbors, which helps where these are alike, and split -> (nodes, T) answers;
    nothing where the features would fill the memory.
    """
    every = [graph for found in graphs.values() for graph in found]
    width = sum(each.shape[1] * size for each, size in _tables(every[0])) + 1
    if 3 * width * sum(graph.num_nodes for graph in every) > _MOST_ENTRIES:
        return
    neighbors = {split: [neighbors_of(graph) for graph in found] for split, found in graphs.items()}
    for hops in ((0,), (2,), (0, 1, 2)):
        inputs = {
            split: np.concatenate([_around(graph, S, hops) for graph, S in zip(found, neighbors[split], strict=True)])
            for split, found in graphs.items()
        }
        for penalty in _RIDGE:
            weights, shift = _ridge(inputs["train"][known], labels[known], penalty)
            answers = {split: rows @ weights + shift for split, rows in inputs.items()}
            yield False, answers
            yield True, {split: _averaged(neighbors[split], rows) for split, rows in answers.items()}


def _ridge(X: Rows, y: Rows, penalty: float) -> tuple[Rows, Rows]:
    """Return (F, T) weights and (T,) shifts of a linear model of the rows."""
    center, middle = X.mean(0), y.mean(0)
    X, y = X - center, y - middle
    few = len(X) < X.shape[1]
    gram = X @ X.T if few else X.T @ X
    penalized = gram + max(penalty * np.square(X).sum() / len(X), 1e-9) * np.eye(len(gram))
    weights: Rows = X.T @ np.linalg.solve(penalized, y) if few else np.linalg.solve(penalized, X.T @ y)
    return weights, middle - center @ weights


def _averaged(neighbors: Sequence[Any], answers: Rows) -> Rows:
    ends = np.cumsum([S.shape[0] for S in neighbors])[:-1]
    parts = zip(neighbors, np.split(answers, ends), strict=True)
    return np.concatenate([spread(S, part, _FEW_HOPS) for S, part in parts])


def _tables(graph: Graph) -> tuple[tuple[NDArray[Any], int], ...]:
    """Return the features of nodes, and how many columns each column of them becomes."""
    return (graph.node_values, 1), (graph.node_categories, _MOST_CATEGORIES)


def _around(graph: Graph, S: Any, hops: Sequence[int]) -> Rows:
    """(N, F) features of the nodes and their degree, averaged over neighbors so many times, one beside another."""
    degree = np.bincount(graph.edge_index[0], minlength=graph.num_nodes)
    one_hot = (graph.node_categories[:, :, None] == np.arange(_MOST_CATEGORIES)).reshape(graph.num_nodes, -1)
    state = np.concatenate([graph.node_values, np.log1p(degree)[:, None], one_hot], 1).astype(np.float64)
    found = []
    for hop in range(max(hops) + 1):
        found += [state] if hop in hops else []
        state = S @ state
    return np.concatenate(found, 1)
