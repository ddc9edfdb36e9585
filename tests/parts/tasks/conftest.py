"""Batches with targets only: what a task needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from egt.data.batching.batch import GraphBatch, collate
from egt.data.encodings.encoding import Sample
from egt.graph import Graph


@pytest.fixture
def graph_batch() -> Callable[[Sequence[Sequence[float]]], GraphBatch]:
    """One one-node graph for each row of graph targets."""

    def build(rows: Sequence[Sequence[float]]) -> GraphBatch:
        none = np.zeros((2, 0), np.int64)
        return collate([Sample(Graph(num_nodes=1, edge_index=none, graph_targets=np.array(row))) for row in rows])

    return build
