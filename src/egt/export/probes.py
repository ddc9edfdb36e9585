"""Random graphs with the features that a model reads, to trace it and to compare two forms of it."""

from __future__ import annotations

import numpy as np

from egt.config.preparation import feature_schema
from egt.config.run import RunConfig
from egt.graph import Graph


def probe(config: RunConfig, num_nodes: int, seed: int) -> Graph:
    """Return a random graph with the features of a run; about one pair in four is an edge, in one direction or both."""
    random, features = np.random.default_rng(seed), feature_schema(config.model)
    pairs = np.argwhere((random.random((num_nodes, num_nodes)) < 0.25) & ~np.eye(num_nodes, dtype=bool)).T

    def categories(sizes: tuple[int, ...], count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        columns = [random.integers(0, size, count) for size in sizes]
        return np.stack(columns, axis=1) if columns else np.zeros((count, 0), np.int64)

    num_edges = pairs.shape[1]
    return Graph(
        num_nodes=num_nodes,
        edge_index=pairs,
        node_categories=categories(features.node_categories, num_nodes),
        node_values=random.normal(size=(num_nodes, features.num_node_values)),
        edge_categories=categories(features.edge_categories, num_edges),
        edge_values=random.normal(size=(num_edges, features.num_edge_values)),
        graph_values=random.normal(size=features.num_graph_values),
    )
