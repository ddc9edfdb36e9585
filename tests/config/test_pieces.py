"""Graphs with very many pairs get pieces by themselves, and say so."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.api import configured
from egt.config import defaults as pieces


@pytest.fixture
def data(tmp_path: Path) -> Path:
    graph: dict[str, Any] = {
        "nodes": {
            "x": np.random.default_rng(0).normal(size=2000).tolist(),
            "split": ["train"] * 800 + ["val"] * 200 + ["test"] * 1000,
        },
        "node_targets": {"y": [f"c{k % 3}" for k in range(2000)]},
        "edges": [[k, (k + 1) % 2000] for k in range(2000)],
        "directed": False,
    }
    path = tmp_path / "big.jsonl"
    path.write_text(json.dumps(graph))
    return path


def test_a_graph_of_usual_size_is_computed_whole(data: Path) -> None:
    assert configured(data).data.pieces is None


def test_a_large_one_in_pieces(data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(pieces, "MOST_PAIRS", 5000)
    with caplog.at_level(logging.WARNING):
        run = configured(data)
    assert (
        "2,000 nodes and 4,000 edges are computed in pieces: 100 nodes at a time and their neighbors, 10 then 5"
        in caplog.text
    )
    assert run.data.pieces is not None
    assert run.data.pieces.roots == 100
    assert (run.data.batch_size, run.data.layout, run.model.scope) == (1, "edge_list", "neighbors")
    assert [term.kind for term in run.model.node_inputs] == ["node_values", "known_labels"]  # no SVD
    assert run.model.gate == "sigmoid"  # degrees are those of the piece
    assert (run.trainer.max_epochs, run.schedule.kind) == (100, "cosine")
    assert run.trainer.patience == 10
    whole = configured(data, set=["data.pieces=null", "model.node_inputs-=known_labels"])  # as the message says
    assert "--set data.pieces=null model.node_inputs-=known_labels" in caplog.text
    assert whole.data.pieces is None
