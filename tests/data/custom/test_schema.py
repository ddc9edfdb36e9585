from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from egt.data.custom import CustomSchema, Feature, SplitPlan, card_schema
from egt.graph import FeatureSchema
from egt.paper.benchmarks.block_models import PATTERN
from egt.paper.benchmarks.molecule_sets import MOLHIV, ZINC
from egt.paper.benchmarks.tsp import TSP

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
        Feature(name="element", kind="categorical", vocabulary=("C", "O")),
        Feature(name="pos", kind="continuous", width=3, mean=(0.0, 1.0, 2.0), std=(1.0, 1.0, 0.5)),
        Feature(name="name", kind="ignored"),
    ),
    edge_features=(Feature(name="weight", kind="continuous", mean=(0.5,), std=(2.0,)),),
)


def test_the_schema_survives_json_and_yaml() -> None:
    plain = SCHEMA.model_dump(mode="json")
    assert CustomSchema.model_validate(json.loads(json.dumps(plain))) == SCHEMA
    assert CustomSchema.model_validate(yaml.safe_load(yaml.safe_dump(plain))) == SCHEMA


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
    ("change", "where"),
    [
        ({"levle": "node"}, ("levle",)),
        ({"level": "atom"}, ("level",)),
        ({"kind": "ranking"}, ("kind",)),
        ({"node_features": [{"name": "x", "kind": "number"}]}, ("node_features", 0, "kind")),
        ({"node_features": [{"kind": "ignored"}]}, ("node_features", 0, "name")),
        ({"split": {"kind": "magic"}}, ("split", "kind")),
        ({"split": {"fractions": [0.5, 0.5, 0.5]}}, ("split", "fractions")),
        ({"split": {"fractions": [1.5, -0.5, 0]}}, ("split", "fractions", 0)),
        ({"split": {"kind": "column"}}, ("split",)),
        ({"split": "random"}, ("split",)),
    ],
)
def test_an_edited_schema_is_checked(change: dict[str, Any], where: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as raised:
        CustomSchema.model_validate({**SCHEMA.model_dump(mode="json"), **change})
    assert where in [problem["loc"] for problem in raised.value.errors()]


def test_models_of_molecules_read_smiles_with_their_vocabulary() -> None:
    assert (card_schema(MOLHIV).format, card_schema(MOLHIV).vocabulary) == ("molecules", "ogb")
    assert (card_schema(ZINC).format, card_schema(ZINC).vocabulary) == ("molecules", "zinc")
    assert card_schema(MOLHIV).features() == MOLHIV.schema


def test_categories_keep_their_names_and_ids() -> None:
    schema = card_schema(PATTERN)
    assert schema.node_features == (Feature(name="signal", kind="categorical", vocabulary=("0", "1", "2")),)
    assert schema.features() == PATTERN.schema
    assert schema.classes == ("background", "pattern")
    assert schema.target() == PATTERN.target


def test_numbers_are_one_column_of_vectors_for_nodes_and_for_edges() -> None:
    schema = card_schema(TSP)
    assert schema.node_features == (Feature(name="x", kind="continuous", width=2),)
    assert schema.edge_features == (Feature(name="edge_attr", kind="continuous"),)
    assert schema.features() == TSP.schema
