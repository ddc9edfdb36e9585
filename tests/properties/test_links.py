"""Links of a graph that is too large for all pairs: trained and predicted on its list of edges, and worth it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.links import block_model, common_neighbors, non_edges, write_folder
from egt import api
from egt.config import defaults as custom

NODES = 300


def test_links_of_a_large_graph_beat_common_neighbors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custom, "_HUGE_GRAPH", NODES - 1)
    random = np.random.default_rng(0)
    edges, _ = block_model(NODES, 1300, 6, random)
    shown, held = edges[:, 100:], edges[:, :100]
    asked = np.concatenate([held, non_edges(edges, NODES, 100, random)], axis=1)
    known = write_folder(tmp_path / "known", NODES, shown)
    settings = ["trainer.max_epochs=4", "optimizer.lr=0.01"]
    run = api.train(known, task="link", set=settings, out=tmp_path / "run", progress=False)
    assert run.artifact.config.data.layout == "edge_list"

    [answer] = run.predict(write_folder(tmp_path / "asked", NODES, shown, asked))
    assert answer.values is not None
    assert answer.warning == ""
    np.testing.assert_array_equal(answer.pairs, asked)
    labels = np.arange(asked.shape[1]) < held.shape[1]
    scores = [roc_auc_score(labels, each) for each in (answer.values[:, 0], common_neighbors(shown, NODES, asked))]
    assert scores[0] > scores[1] + 0.03

    [answer] = run.predict(write_folder(tmp_path / "edges", NODES, shown, np.concatenate([shown[:, :2], held], axis=1)))
    assert answer.warning == "2 query pairs among the edges of the graph: the model sees the answer"
