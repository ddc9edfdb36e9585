from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from egt.config.load import migrate, parse_config, write_config
from egt.errors import ConfigError
from egt.paper.presets import preset

OLD_SCHEMA: dict[str, Any] = {
    "format": "jsonl",
    "level": "graph",
    "kind": "regression",
    "targets": ["y"],
    "classes": [],
    "target_mean": [1.5],
    "target_std": [0.5],
    "id": "",
    "smiles": "",
    "weight": "",
    "vocabulary": "ogb",
    "directed": None,
    "split": {"kind": "random", "column": "", "fractions": [0.8, 0.1, 0.1], "seed": 0},
    "node_features": [
        {"name": "x", "kind": "continuous", "width": 1, "vocabulary": [], "mean": [0.0], "std": [1.0]},
        {"name": "c", "kind": "categorical", "width": 1, "vocabulary": ["a", "b"], "mean": [], "std": []},
    ],
    "edge_features": [],
}


def settings(**data: Any) -> dict[str, Any]:
    content = preset("zinc-100k").model_dump(mode="json")
    del content["data"]["custom"]
    content["data"] |= data
    return content


def test_the_schema_of_earlier_runs_is_read_without_what_nothing_used() -> None:
    custom = parse_config(settings(own_schema=OLD_SCHEMA), "old").data.custom
    assert custom is not None
    assert custom.node_features[1].vocabulary == ("a", "b")
    assert custom.split.fractions == (0.8, 0.1, 0.1)
    kept = custom.model_dump(mode="json")
    split = {"kind": "random", "column": "", "fractions": [0.8, 0.1, 0.1], "seed": 0, "fold": None}
    # What later versions know besides:
    new: dict[str, object] = {
        "canonical": False,
        "standardize": "",
        "replicates": "",
        "elements": [],
        "notes": {},
        "split": split,
        "graph_features": [],
        "more_smiles": [],
        "pair_features": [],
        "positions": [],
        "place": [],
        "hydrogens": False,
        "groups": [],
        "row_weight": "",
        "symmetric": False,
        "self_pairs": False,
    }
    assert {**kept, "target_mean": [1.5], "target_std": [0.5]} == {**OLD_SCHEMA, **new}


def test_earlier_runs_without_a_schema() -> None:
    assert parse_config(settings(own_schema=None), "old") == preset("zinc-100k")


def test_settings_of_this_version_stay_unchanged() -> None:
    content = preset("zinc-100k").model_dump(mode="json")
    assert migrate(content) is content
    assert "own_schema" not in write_config(parse_config(settings(own_schema=OLD_SCHEMA), "old"))


def test_both_spellings_at_once_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"data.own_schema"):
        parse_config(settings(own_schema=OLD_SCHEMA, custom=None), "both")


def test_a_damaged_schema_is_told_by_its_path() -> None:
    with pytest.raises(ConfigError, match=r"data.custom.node_features.0.kind: .*categorical"):
        parse_config(settings(own_schema={**OLD_SCHEMA, "node_features": [{"name": "x", "kind": "q"}]}), "old")


def test_the_two_classes_of_earlier_runs_keep_their_names() -> None:
    content = settings(own_schema={**OLD_SCHEMA, "kind": "binary", "classes": ["no", "yes"]})
    content["task"] = {"kind": "binary", "names": ["y"], "metric": "roc_auc"}
    assert parse_config(content, "old").task.columns(np.array([0.75], np.float32))["y"] == "yes"
