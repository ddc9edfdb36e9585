"""Random graphs for the tests of encodings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from egt.graph import Graph

MakeGraph = Callable[..., Graph]


@pytest.fixture
def random_graph() -> MakeGraph:
    """A function that draws a graph: num_nodes, density, seed, directed, weighted, self_loops."""

    def make(
        num_nodes: int = 12,
        density: float = 0.3,
        seed: int = 0,
        *,
        directed: bool = False,
        weighted: bool = False,
        self_loops: bool = False,
    ) -> Graph:
        rng = np.random.default_rng(seed)
        chosen = rng.random((num_nodes, num_nodes)) < density
        if not self_loops:
            np.fill_diagonal(chosen, False)
        weights = rng.uniform(0.5, 2.0, (num_nodes, num_nodes))
        if not directed:
            chosen, weights = np.triu(chosen), np.triu(weights)
            chosen, weights = chosen | chosen.T, weights + np.triu(weights, 1).T
        edges = np.array(np.nonzero(chosen))
        return Graph(num_nodes=num_nodes, edge_index=edges, edge_weight=weights[chosen] if weighted else None)

    return make
