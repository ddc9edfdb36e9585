"""Validation chooses the recipe for nodes, nothing else does; settings of the model decide by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.api import Run, train

FAST = {"trainer.max_epochs": 12, "trainer.baseline": False, "trainer.trackers": [], "optimizer.lr": 0.01}


def _graph(path: Path, *, shift: int = 0) -> Path:
    """80 nodes with a number that mostly tells the class, and edges that say nothing."""
    random = np.random.default_rng(0)
    topic = random.integers(2, size=80)
    edges = np.argwhere(np.triu(random.random((80, 80)) < 0.2, 1))
    split = np.array(["train", "val", "test", "train"] * 20)
    told = topic.copy()
    told[split == "test"] = np.roll(topic[split == "test"], shift)
    graph: dict[str, Any] = {
        "nodes": {"x": (topic + 0.4 * random.normal(size=80)).tolist(), "split": split.tolist()},
        "node_targets": {"topic": [f"t{k}" for k in told]},
        "edges": edges.tolist(),
        "directed": False,
    }
    path.write_text(json.dumps(graph))
    return path


def _train(path: Path, out: Path, **settings: Any) -> Run:
    return train(path, "topic", set={**FAST, **settings}, out=out, progress=False)


def test_validation_chooses_and_the_test_does_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runs = [_train(_graph(tmp_path / f"{k}.jsonl", shift=k), tmp_path / str(k)) for k in range(2)]
    chosen = [record.getMessage() for record in caplog.records if record.getMessage().startswith("recipe: ")]
    assert len(chosen) == 2
    scores = [dict(re.findall(r"(\w+ \w+(?: \w+)?|attention) ([\d.]+)[,;]", text)) for text in chosen]
    assert scores[0] == scores[1]
    assert float(scores[0]["features alone"]) > float(scores[0]["spread attention"])
    assert runs[0].artifact.config.model == runs[1].artifact.config.model
    assert runs[0].artifact.config.model.readout.kind == "node"


def test_settings_of_the_model_decide_by_hand(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = _train(_graph(tmp_path / "x.jsonl"), tmp_path / "run", **{"model.readout": {"kind": "propagated"}})
    assert run.artifact.config.model.readout.kind == "propagated"
    assert not [record for record in caplog.records if record.getMessage().startswith("recipe: ")]
