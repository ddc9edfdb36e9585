"""Nodes of one graph with many features get their own recipe; others keep the defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.api import configured
from egt.config.defaults import spreads_labels
from egt.data.custom import open_custom


def _citations(path: Path, *, num_words: int = 120, alike: bool = True) -> Path:
    """40 papers: a ring in which neighbors share the topic, but at both ends of one stretch; or words alone tell it."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2, (40, num_words))
    topic = [int(k < 18) if alike else int(word) for k, word in enumerate(words[:, 0])]
    edges = [[k, (k + 1) % 40] for k in range(40)]
    if not alike:
        words[:] = np.where(rng.random(words.shape) < 0.2, words, words[:, :1])
        edges = np.argwhere(np.triu(rng.random((40, 40)) < 0.3, 1)).tolist()
    graph: dict[str, Any] = {
        "nodes": {
            "words": words.tolist(),
            "split": (["train"] * 4 + ["val"]) * 8,
        },
        "node_targets": {"topic": [f"topic {number}" for number in topic]},
        "edges": edges,
        "directed": False,
    }
    path.write_text(json.dumps(graph))
    return path


def test_citations_are_spread_along_edges(tmp_path: Path) -> None:
    run = configured(_citations(tmp_path / "papers.jsonl"))
    assert [term.kind for term in run.model.node_inputs] == ["node_values"]
    assert run.model.node_inputs[0].model_dump()["dropout"] == 0.8
    assert (run.model.readout.kind, run.model.head_ratios) == ("propagated", ())
    assert (run.optimizer.weight_decay, run.optimizer.decays) == (0.5, "matrices")


def test_unlike_neighbors_are_not(tmp_path: Path) -> None:
    assert configured(_citations(tmp_path / "papers.jsonl", alike=False)).model.readout.kind == "node"


def test_few_features_keep_the_defaults(tmp_path: Path) -> None:
    run = configured(_citations(tmp_path / "papers.jsonl", num_words=5))
    assert [term.kind for term in run.model.node_inputs] == ["node_values", "svd"]
    assert run.model.readout.kind == "node"


def test_settings_win(tmp_path: Path) -> None:
    path = _citations(tmp_path / "papers.jsonl")
    assert configured(path, set={"model.readout": {"kind": "node"}}).model.readout.kind == "node"


def test_few_labels_do_not_decide_but_validation_does(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = _citations(tmp_path / "papers.jsonl")
    assert spreads_labels(open_custom(path))
    assert not spreads_labels(open_custom(_citations(tmp_path / "unlike.jsonl", alike=False)))
    assert ["model.readout" in record.getMessage() for record in caplog.records] == [True, True]
    graph = json.loads(path.read_text())
    graph["nodes"]["split"] = ["train"] * 40  # nothing to decide by: papers that cite each other are mostly alike
    path.write_text(json.dumps(graph))
    assert configured(path).model.readout.kind == "propagated"
