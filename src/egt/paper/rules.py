"""Baselines without a network: functions of training graphs, their target, a seed, and the graphs to predict.

Each gives for a graph what a model would: (rows, outputs), values of a regression or logits of classes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.encodings.encoding import neighbors_of, spread
from egt.data.source import TargetSchema
from egt.errors import ConfigError, DataError, require_extra
from egt.graph import Graph

Rows = NDArray[np.float64]
_SIZE, _RADIUS = 2048, 2
_SURE = 1e-6


def forest(train: Sequence[Graph], target: TargetSchema, seed: int, graphs: Sequence[Graph]) -> list[Rows]:
    """Predict molecules by Morgan fingerprints and a random forest for each target, on its labels that are known.

    The fingerprint is made of the categories that the model reads: 2,048 counts of how many atoms hash there, each with
    its neighborhood of up to 2 bonds.
    """
    if target.level != "graph" or target.kind == "multiclass":
        raise ConfigError(f"the forest predicts numbers or yes/no of molecules, not a {target.kind} per {target.level}")
    with require_extra("baselines", "the forest needs scikit-learn"):
        from sklearn import ensemble
    learned, wanted = (np.stack([fingerprint(graph) for graph in some]) for some in (train, graphs))
    labels = np.stack([_read_targets(graph.graph_targets, graph) for graph in train])
    options: dict[str, Any] = {"n_estimators": 300, "min_samples_leaf": 2, "n_jobs": -1, "random_state": seed}
    columns = []
    for column in labels.T:
        known = ~np.isnan(column)
        if target.kind == "binary":
            trees = ensemble.RandomForestClassifier(max_features="sqrt", **options)
        else:
            trees = ensemble.RandomForestRegressor(max_features=0.1, **options)
        columns.append(_predict_column(trees.fit(learned[known], column[known]), wanted))
    return list(np.stack(columns, axis=1)[:, None, :])


def _predict_column(trees: Any, inputs: NDArray[np.uint8]) -> Rows:
    """(graphs,) values, or logits of a forest of classes."""
    if not hasattr(trees, "classes_"):
        values: Rows = trees.predict(inputs)
        return values
    if len(trees.classes_) == 1:
        return np.full(len(inputs), 30.0 if trees.classes_[0] else -30.0)
    p = np.clip(trees.predict_proba(inputs)[:, 1], _SURE, 1 - _SURE)
    logits: Rows = np.log(p) - np.log1p(-p)
    return logits


def nearest(train: Sequence[Graph], target: TargetSchema, seed: int, graphs: Sequence[Graph]) -> list[Rows]:
    """Predict for TSP that the tour goes from each city to its two nearest ones; learns nothing."""
    if target.level != "edge" or target.num_outputs != 2:
        raise ConfigError("the nearest-neighbor rule predicts yes or no for edges with a length (TSP)")
    return [_two_nearest(graph) for graph in graphs]


def propagation(train: Sequence[Graph], target: TargetSchema, seed: int, graphs: Sequence[Graph]) -> list[Rows]:
    """Propagate labels (Zhou et al., 2004): known labels of a graph spread along its edges.

    Known are the training labels of the same graph or, as in CLUSTER, a node category that names the class of a few
    nodes (0 for unknown, c + 1 for class c).
    """
    if target.level != "node" or target.kind != "multiclass":
        raise ConfigError(f"labels are propagated for classes of nodes, not for a {target.kind} per {target.level}")
    trained = {graph.id: _read_targets(graph.node_targets, graph)[:, 0] for graph in train}
    answers = []
    for graph in graphs:
        labels = trained.get(graph.id)
        if labels is None and graph.node_categories.shape[1]:
            labels = graph.node_categories[:, 0].astype(np.float64) - 1
        start = np.zeros((graph.num_nodes, target.num_classes))
        if labels is not None:
            known = np.flatnonzero(~np.isnan(labels) & (labels >= 0) & (labels < target.num_classes))
            start[known, labels[known].astype(int)] = 1.0
        answers.append(np.log(spread(neighbors_of(graph), start, 50) + _SURE))
    return answers


RULES: dict[str, Callable[[Sequence[Graph], TargetSchema, int, Sequence[Graph]], list[Rows]]] = {
    "forest": forest,
    "nearest": nearest,
    "propagation": propagation,
}


def fingerprint(graph: Graph) -> NDArray[np.uint8]:
    """(2048,) counts of a molecule: hashes of every atom with its neighborhood of 0, 1 and 2 bonds (Morgan, 1965)."""
    i, j = graph.edge_index.tolist()
    bonds = [row.tobytes() for row in graph.edge_categories]
    degree = np.bincount(graph.edge_index[0], minlength=graph.num_nodes)
    codes = [
        zlib.crc32(row.tobytes() + bytes([min(d, 255)])) for row, d in zip(graph.node_categories, degree, strict=True)
    ]
    counts = np.zeros(_SIZE, np.uint8)
    for _ in range(_RADIUS):
        np.add.at(counts, [code % _SIZE for code in codes], 1)
        around: list[list[int]] = [[] for _ in codes]
        for a, b, bond in zip(i, j, bonds, strict=True):
            around[a].append(zlib.crc32(bond, codes[b]))
        codes = [
            zlib.crc32(repr(sorted(codes_around)).encode(), code)
            for code, codes_around in zip(codes, around, strict=True)
        ]
    np.add.at(counts, [code % _SIZE for code in codes], 1)
    return counts


def _two_nearest(graph: Graph) -> Rows:
    """(E, 2) logits: yes for the two shortest edges from each node."""
    length, start = graph.edge_values[:, 0], graph.edge_index[0]
    order = np.lexsort((length, start))
    first = np.r_[True, start[order][1:] != start[order][:-1]]
    begins = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    chosen = np.zeros(len(order))
    chosen[order] = np.arange(len(order)) - begins < 2
    return np.stack([1 - chosen, chosen], axis=1)


def _read_targets(values: Any, graph: Graph) -> Rows:
    if values is None:
        raise DataError(f"graph {graph.id!r} of the training split has no target")
    found: Rows = np.asarray(values, np.float64)
    return found
