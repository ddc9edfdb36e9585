"""The run of custom data follows from its schema."""

from __future__ import annotations

from dataclasses import replace

import pytest

from egt.assemble import build_model
from egt.config.defaults import infer_config
from egt.config.run import ModelConfig, RunConfig
from egt.data.schema import CustomSchema, Feature
from egt.data.source import DataCard
from egt.graph import FeatureSchema
from egt.paper.presets import preset
from egt.parts.tasks.regression import Regression


def card(schema: CustomSchema, num_train: int = 100, largest: int = 30, num_val: int = 10) -> DataCard:
    return DataCard(
        name="own",
        title="own",
        schema=schema.features(),
        target=schema.target(),
        split_sizes={"train": num_train, "val": num_val, "test": 0},
        num_nodes=(1, 10.0, largest),
        mean_edges=20.0,
    )


def graphs(level: str, kind: str, *features: Feature, classes: tuple[str, ...] = ()) -> CustomSchema:
    return CustomSchema.model_validate(
        {
            "format": "jsonl",
            "level": level,
            "kind": kind,
            "targets": ("y",),
            "classes": classes,
            "node_features": features,
        }
    )


def test_molecules_to_a_number() -> None:
    schema = CustomSchema(
        format="molecules", level="graph", kind="regression", targets=("logS", "logP"), smiles="smiles"
    )
    run = infer_config(schema, card(schema), "data.csv", "data")
    assert [term.kind for term in run.model.node_inputs] == ["node_categories", "svd"]
    assert [term.kind for term in run.model.pair_inputs] == ["distance", "edge_categories"]
    assert isinstance(run.task, Regression)
    assert run.task.standardize
    assert run.task.names == ("logS", "logP")
    assert run.model.level == "graph"


@pytest.mark.parametrize(
    ("level", "readout"), [("graph", "graph"), ("node", "node"), ("edge", "edge"), ("link", "edge")]
)
def test_the_readout_follows_the_level(level: str, readout: str) -> None:
    schema = graphs(level, "binary", classes=("0", "1"))
    assert infer_config(schema, card(schema), "x", "x").model.level == readout


def test_classes_of_graphs_are_read_from_the_mean_of_their_nodes() -> None:
    def model(level: str, kind: str, largest: int = 100) -> ModelConfig:
        schema = graphs(level, kind, classes=() if kind == "regression" else ("a", "b", "c"))
        return infer_config(schema, card(schema, 100, largest), "x", "x").model

    for kind in ("binary", "multiclass"):
        assert (model("graph", kind).readout.kind, model("graph", kind).node_dropout) == ("mean", 0.2)
        huge = model("graph", kind, 5000)  # neighbors alone are attended: virtual nodes see the whole graph
        assert (huge.readout.kind, huge.node_dropout) == ("virtual_nodes", 0.1)
    number = model("graph", "regression")
    assert (number.readout.kind, number.node_dropout, number.attention_dropout) == ("virtual_nodes", 0.1, 0.1)
    assert model("node", "multiclass").node_dropout == 0.1


def test_features_of_the_schema_are_inputs() -> None:
    schema = graphs(
        "node",
        "multiclass",
        Feature(name="color", kind="categorical", vocabulary=("r", "g")),
        Feature(name="x", kind="continuous", width=3),
        Feature(name="name", kind="ignored"),
        classes=("a", "b", "c"),
    )
    run = infer_config(schema, card(schema), "x", "x")
    assert schema.features() == FeatureSchema(node_categories=(2,), num_node_values=3)
    assert [term.kind for term in run.model.node_inputs] == ["node_categories", "node_values", "svd"]
    assert run.task.num_outputs == 3
    bare = graphs("graph", "regression")
    assert infer_config(bare, card(bare), "x", "x").model.node_inputs[0].kind == "constant"


def test_the_length_of_training_is_bounded() -> None:
    schema = graphs("graph", "regression")
    small = infer_config(schema, card(schema, 100), "x", "x")
    large = infer_config(schema, card(schema, 200_000), "x", "x")
    assert small.trainer.max_epochs == 200
    assert large.trainer.max_epochs == 10
    assert small.data.batch_size < large.data.batch_size


def test_large_graphs_get_a_narrow_edge_channel() -> None:
    schema = graphs("node", "binary", classes=("0", "1"))
    usual, large = (infer_config(schema, card(schema, 1, size), "x", "x") for size in (100, 3000))
    assert large.model.edge_width < usual.model.edge_width


def test_without_validation_the_last_weights_are_kept() -> None:
    schema = graphs("graph", "regression")
    run = infer_config(schema, card(schema, num_val=0), "x", "x")
    assert run.trainer.select == "last"
    assert run.schedule.kind == "constant"


def test_custom_data_ends_early_where_there_is_validation() -> None:
    schema = graphs("graph", "regression")
    assert infer_config(schema, card(schema), "x", "x").trainer.patience == 30
    assert infer_config(schema, card(schema, num_val=0), "x", "x").trainer.patience is None
    assert preset("zinc-100k").trainer.patience is None


def test_few_graphs_are_not_trained_one_by_one() -> None:
    schema = graphs("graph", "regression")
    sizes = [infer_config(schema, card(schema, count), "x", "x").data.batch_size for count in (1, 10, 32, 100, 1000)]
    assert sizes == [1, 1, 4, 5, 32]


def test_huge_graphs_attend_neighbors() -> None:
    nodes, links = graphs("node", "binary", classes=("0", "1")), graphs("link", "binary", classes=("0", "1"))
    for schema, inputs in ((nodes, ["distance"]), (links, ["distance", "walks"])):
        run = infer_config(schema, card(schema, 10, 5000), "x", "x")
        assert (run.model.scope, run.data.layout) == ("neighbors", "edge_list")
        assert [term.kind for term in run.model.pair_inputs] == inputs
        small = infer_config(schema, card(schema, 10, 1000), "x", "x")
        assert (small.model.scope, small.data.layout) == ("everyone", "auto")
        assert [term.kind for term in small.model.pair_inputs] == ["distance"]


def test_links_of_huge_graphs_are_trained_for_a_number_of_pairs() -> None:
    links = graphs("link", "binary", classes=("0", "1"))
    graph = card(links, 10, 20_000)
    sizes = [replace(graph, num_nodes=(n, float(n), n), mean_edges=10.0 * n) for n in (2_000, 20_000, 2_000_000)]
    assert [infer_config(links, size, "x", "x").trainer.max_epochs for size in sizes] == [200, 23, 10]


@pytest.mark.parametrize(
    ("num_targets", "least", "widths"),
    [(1, 0, [32, 16]), (16, 0, [32, 16]), (20, 20, [32, 20]), (215, 215, [215, 215]), (900, 256, [256, 256])],
)
def test_the_head_is_as_wide_as_its_targets_need(num_targets: int, least: int, widths: list[int]) -> None:
    """At most as wide as the row it reads, here four virtual nodes of 64 numbers."""
    names = tuple(f"y{k}" for k in range(num_targets))
    schema = CustomSchema(format="molecules", level="graph", kind="regression", targets=names, smiles="smiles")
    run = infer_config(schema, card(schema), "data.csv", "data")
    assert run.model.head_min_width == least
    head = build_model(run).head
    assert [linear.out_features for linear in head.linears] == [*widths, num_targets]


def test_a_head_of_an_earlier_version_keeps_its_width() -> None:
    content = preset("molpcba-larger").model_dump()
    del content["model"]["head_min_width"]
    assert RunConfig.model_validate(content) == preset("molpcba-larger")
    assert preset("molpcba-larger").model.head_min_width == 0
