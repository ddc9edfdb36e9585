"""Nodes of one graph with many features get their own recipe; others keep the defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.api import configured
from egt.config.defaults import agreement
from egt.data.custom import open_custom


def _citations(path: Path, *, num_words: int = 120, alike: bool = True) -> Path:
    """A ring of 40 papers: neighbors share the topic, except at both ends of one stretch, or never do."""
    rng = np.random.default_rng(0)
    topic = [(int(k < 18) if alike else k % 2) for k in range(40)]
    graph: dict[str, Any] = {
        "nodes": {
            "words": rng.integers(0, 2, (40, num_words)).tolist(),
            "split": (["train"] * 3 + ["val"]) * 10,
        },
        "node_targets": {"topic": [f"topic {number}" for number in topic]},
        "edges": [[k, (k + 1) % 40] for k in range(40)],
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


@pytest.mark.parametrize(("alike", "share"), [(True, 19 / 20), (False, 0.0)])
def test_agreement_counts_edges_between_training_nodes(tmp_path: Path, alike: bool, share: float) -> None:
    source = open_custom(_citations(tmp_path / "papers.jsonl", alike=alike))
    assert agreement(source) == pytest.approx(share)
