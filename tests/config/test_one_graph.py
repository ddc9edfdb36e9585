"""Nodes of one graph with many features get their own recipe; others keep the defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.api import configured
from egt.config.defaults import infer_run, node_recipes
from egt.config.run import RunConfig
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


def test_few_features_keep_the_defaults(tmp_path: Path) -> None:
    run = configured(_citations(tmp_path / "papers.jsonl", num_words=5))
    assert [term.kind for term in run.model.node_inputs] == ["node_values", "svd"]
    assert run.model.readout.kind == "node"


def test_settings_win(tmp_path: Path) -> None:
    path = _citations(tmp_path / "papers.jsonl")
    assert configured(path, set={"model.readout": {"kind": "node"}}).model.readout.kind == "node"


def _recipes(path: Path, **options: Any) -> dict[str, Any]:
    source = open_custom(path, **options)
    return node_recipes(infer_run(source, str(path), "papers"), source)


@pytest.mark.parametrize(("num_words", "inferred"), [(120, "spread attention"), (5, "attention")])
def test_recipes_are_the_inferred_run_and_others_that_read_as_it_does(
    tmp_path: Path, num_words: int, inferred: str
) -> None:
    path = _citations(tmp_path / "papers.jsonl", num_words=num_words)
    recipes = _recipes(path)
    assert next(iter(recipes.items())) == (inferred, infer_run(open_custom(path), str(path), "papers"))
    assert len({run.model_dump_json() for run in recipes.values()}) == len(recipes) == 6
    for name, run in recipes.items():
        again = RunConfig.model_validate(run.model_dump())
        assert (again.model.readout.kind == "propagated") == name.startswith("spread")
        assert (again.model.layer is None) == ("attention" in name)
        assert ("known_labels" in [term.kind for term in again.model.node_inputs]) == name.endswith("labels")
        assert again.task == recipes[inferred].task


def test_without_validation_or_classes_there_is_nothing_to_choose(tmp_path: Path) -> None:
    path = _citations(tmp_path / "papers.jsonl")
    assert _recipes(path)
    graph = json.loads(path.read_text())
    numbers = {**graph, "node_targets": {"year": [1990.5 + k for k in range(40)]}}
    (tmp_path / "numbers.jsonl").write_text(json.dumps(numbers))
    assert not _recipes(tmp_path / "numbers.jsonl")
    graph["nodes"]["split"] = ["train"] * 40
    (tmp_path / "all.jsonl").write_text(json.dumps(graph))
    assert not _recipes(tmp_path / "all.jsonl")
