from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from egt.errors import DataError
from egt.graph import FeatureSchema
from egt.sources.custom import CustomSchema, Feature, SplitPlan

SCHEMA = CustomSchema(
    format="jsonl",
    level="node",
    kind="multiclass",
    targets=("role",),
    classes=("a", "b", "c"),
    directed=None,
    weight="weight",
    split=SplitPlan(kind="random", fractions=(0.5, 0.25, 0.25), seed=3),
    node_features=(
        Feature("element", "categorical", vocabulary=("C", "O")),
        Feature("pos", "continuous", width=3, mean=(0.0, 1.0, 2.0), std=(1.0, 1.0, 0.5)),
        Feature("name", "ignored"),
    ),
    edge_features=(Feature("weight", "continuous", mean=(0.5,), std=(2.0,)),),
)


def test_the_schema_survives_json_and_yaml() -> None:
    assert CustomSchema.from_dict(json.loads(json.dumps(SCHEMA.to_dict()))) == SCHEMA
    assert CustomSchema.from_dict(yaml.safe_load(yaml.safe_dump(SCHEMA.to_dict()))) == SCHEMA


def test_features_and_target_are_what_a_model_needs() -> None:
    assert SCHEMA.features() == FeatureSchema(node_categories=(2,), num_node_values=3, num_edge_values=1)
    target = SCHEMA.target()
    assert (target.level, target.num_outputs, target.class_names) == ("node", 3, ("a", "b", "c"))


def test_molecules_have_the_features_of_their_vocabulary() -> None:
    molecules = CustomSchema(format="molecules", level="graph", kind="regression", targets=("y",), vocabulary="zinc")
    assert molecules.features().node_categories == (28,)


def test_the_table_shows_each_decision_and_how_to_change_it() -> None:
    rows = {what: (decision, how) for what, decision, how in SCHEMA.rows() if what != "node feature"}
    assert rows["kind"] == ("multiclass (a, b, c)", "overrides.kind")
    assert rows["split"] == ("random 0.5/0.25/0.25, seed 3", "split")
    assert rows["directed"][0] == "as each graph says"
    decisions = [decision for what, decision, _ in SCHEMA.rows() if what == "node feature"]
    assert decisions == [
        "element: categorical, 2 values (C, O)",
        "pos: continuous, standardized, 3 numbers",
        "name: ignored",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"levle": "node"}, r"unknown keys \['levle'\]"),
        ({"level": "atom"}, "level is 'atom'; allowed are graph, node, edge, link"),
        ({"kind": "ranking"}, "kind is 'ranking'"),
        ({"node_features": [{"name": "x", "kind": "number"}]}, "kind of 'x' is 'number'"),
        ({"node_features": [{"kind": "ignored"}]}, "name"),
        ({"split": {"kind": "magic"}}, "split 'magic' is unknown"),
        ({"split": {"fractions": [0.5, 0.5, 0.5]}}, "sum to 1"),
        ({"split": "random"}, "must be a mapping"),
    ],
)
def test_an_edited_schema_is_checked(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        CustomSchema.from_dict({**SCHEMA.to_dict(), **change})
