"""A sparse model from training to a prediction: stores, checkpoints and artifacts keep the choice of pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import egt
from egt.graph import Graph

SPARSE = {
    "data.layout": "edge_list",
    "model.pairs": ["edges", {"kind": "nearest", "k": 2, "columns": [0, 1]}, {"kind": "expander", "degree": 2}],
    "model.readout": {"kind": "virtual_nodes", "num_virtual": 1},
    "model.num_layers": 2,
    "task.auxiliary": [],
    "data.batch_size": 8,
    "trainer.max_epochs": 2,
}


def rings() -> list[Graph]:
    rng = np.random.default_rng(0)
    graphs = []
    for k in range(24):
        n = int(rng.integers(5, 9))
        edges = np.stack([np.arange(n), np.roll(np.arange(n), -1)])
        values = rng.random((n, 2))
        target = [float(values.mean())]
        graphs.append(
            Graph.undirected(num_nodes=n, edge_index=edges, node_values=values, graph_targets=target, id=f"g{k}")
        )
    return graphs


def test_a_stopped_run_resumes_and_its_model_predicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graphs = rings()
    full = egt.train(graphs, set=SPARSE, out="full", progress=False)
    egt.train(graphs, set=SPARSE | {"trainer.max_epochs": 1}, out="part", progress=False)
    resumed = egt.train(graphs, set={"trainer.max_epochs": 2}, out="part", resume=True, progress=False)
    assert resumed.artifact.metrics == full.artifact.metrics
    model = egt.load("full")
    assert [choice.kind for choice in full.artifact.config.model.pairs] == ["edges", "nearest", "expander"]
    alone, together = model.predict(graphs[:1]), model.predict(graphs)
    np.testing.assert_allclose(alone[0].values, together[0].values, rtol=1e-4)
