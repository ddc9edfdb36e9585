"""Fine-tuning on custom data: features and categories keep their weights by name, wherever they stand."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import Tensor

from egt.assemble import build_model
from egt.config.defaults import custom_task, for_pretraining
from egt.config.run import RunConfig
from egt.data.schema import CustomSchema, Feature
from egt.errors import ArtifactError, ConfigError
from egt.inference.artifact import Artifact
from egt.parts.inputs import Constant, Distance, Positions, Svd, edge_features, node_features
from egt.parts.readouts import PerEdge, PerNode, VirtualNodes
from egt.training.finetune import start_from, start_of, with_model_of
from tests.training.tiny import tiny_config

COLOR = Feature(name="color", kind="categorical", vocabulary=("red", "green"))
SHAPE = Feature(name="shape", kind="categorical", vocabulary=("red", "round", "flat"))
SIZE = Feature(name="size", kind="continuous")
PLACE = Feature(name="place", kind="continuous", width=3)
AGE = Feature(name="age", kind="continuous")

NODES, EDGES = "embed.node_terms", "embed.pair_terms"
TABLE, COLUMNS = "categories.table.weight", "W.weight"


def own(nodes: tuple[Feature, ...] = (), edges: tuple[Feature, ...] = (), **changes: Any) -> RunConfig:
    """A tiny run of custom data with these features."""
    schema = CustomSchema(
        format="jsonl", level="graph", kind="regression", targets=("a",), node_features=nodes, edge_features=edges
    )
    model = {
        "node_inputs": (*(node_features(schema.features()) or (Constant(),)), Svd(rank=8)),
        "pair_inputs": (Distance(max_hops=16), *edge_features(schema.features())),
    }
    config = tiny_config(data={"source": "own.jsonl", "custom": schema}, model=model, task=custom_task(schema.target()))
    return tiny_config(**{**config.model_dump(), **changes})


def artifact(config: RunConfig) -> Artifact:
    torch.manual_seed(1)
    return Artifact(config, build_model(config))


def tuned(old: RunConfig, new: RunConfig) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    """The weights of a model for `old`, of a fresh one for `new`, and of the latter started from the former."""
    given, config = artifact(old), with_model_of(new, old)
    torch.manual_seed(2)
    model = build_model(config)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    start_from(model, start_of(given, config))
    return given.model.state_dict(), before, model.state_dict()


def pair(level: str, old: tuple[Feature, ...], new: tuple[Feature, ...]) -> tuple[RunConfig, RunConfig, str]:
    """Two runs that differ in the features of nodes or of edges, and where the first of their terms is."""
    if level == "node":
        return own(nodes=old), own(nodes=new), f"{NODES}.0"
    return own(edges=old), own(edges=new), f"{EDGES}.1"


@pytest.mark.parametrize("level", ["node", "edge"])
def test_categories_follow_their_feature(level: str) -> None:
    old, new, term = pair(level, (COLOR, SHAPE), (SHAPE, COLOR))
    given, _, after = tuned(old, new)
    # Old rows: 0 absent, 1 color=red, 2 color=green, 3 shape=red, 4 shape=round, 5 shape=flat.
    assert torch.equal(after[f"{term}.{TABLE}"], given[f"{term}.{TABLE}"][[0, 3, 4, 5, 1, 2]])


@pytest.mark.parametrize("level", ["node", "edge"])
def test_a_new_feature_starts_anew(level: str, caplog: pytest.LogCaptureFixture) -> None:
    old, new, term = pair(level, (COLOR,), (SHAPE, COLOR))
    with caplog.at_level(logging.WARNING):
        given, before, after = tuned(old, new)
    table = after[f"{term}.{TABLE}"]
    assert torch.equal(table[[0, 4, 5]], given[f"{term}.{TABLE}"])
    assert torch.equal(table[1:4], before[f"{term}.{TABLE}"][1:4])
    assert f"{level} features that the start does not know are re-initialized: shape" in caplog.text


@pytest.mark.parametrize("level", ["node", "edge"])
def test_a_missing_feature_is_dropped(level: str) -> None:
    old, new, term = pair(level, (COLOR, SHAPE), (SHAPE,))
    given, _, after = tuned(old, new)
    assert torch.equal(after[f"{term}.{TABLE}"], given[f"{term}.{TABLE}"][[0, 3, 4, 5]])


@pytest.mark.parametrize("level", ["node", "edge"])
def test_a_new_category_keeps_its_fresh_row(level: str) -> None:
    more = Feature(name="color", kind="categorical", vocabulary=("blue", "green", "red"))
    old, new, term = pair(level, (COLOR,), (more,))
    given, before, after = tuned(old, new)
    table = after[f"{term}.{TABLE}"]
    assert torch.equal(table[1], before[f"{term}.{TABLE}"][1])
    assert torch.equal(table[[0, 2, 3]], given[f"{term}.{TABLE}"][[0, 2, 1]])


@pytest.mark.parametrize("level", ["node", "edge"])
def test_columns_follow_their_feature(level: str) -> None:
    old, new, term = pair(level, (SIZE, PLACE), (AGE, PLACE, SIZE))
    given, before, after = tuned(old, new)
    weight = after[f"{term}.{COLUMNS}"]
    assert torch.equal(weight[:, 1:], given[f"{term}.{COLUMNS}"][:, [1, 2, 3, 0]])
    assert torch.equal(weight[:, 0], before[f"{term}.{COLUMNS}"][:, 0])
    assert torch.equal(after[f"{term}.W.bias"], given[f"{term}.W.bias"])


def test_a_vector_of_another_width_starts_anew() -> None:
    given, before, after = tuned(
        own(nodes=(SIZE, PLACE)), own(nodes=(Feature(name="place", kind="continuous", width=2), SIZE))
    )
    name = f"{NODES}.0.{COLUMNS}"
    assert torch.equal(after[name][:, :2], before[name][:, :2])
    assert torch.equal(after[name][:, 2], given[name][:, 0])


def test_terms_move_by_kind() -> None:
    """Without categories the values and the encodings stand one place earlier."""
    given, before, after = tuned(own(nodes=(COLOR, SIZE)), own(nodes=(SIZE,), edges=(COLOR,)))
    assert torch.equal(after[f"{NODES}.0.{COLUMNS}"], given[f"{NODES}.1.{COLUMNS}"])
    assert torch.equal(after[f"{NODES}.1.W_enc.weight"], given[f"{NODES}.2.W_enc.weight"])
    assert torch.equal(after[f"{EDGES}.1.{TABLE}"], before[f"{EDGES}.1.{TABLE}"])
    given, before, after = tuned(own(nodes=(COLOR,)), own())
    assert torch.equal(after[f"{NODES}.1.vector"], before[f"{NODES}.1.vector"])


@pytest.mark.parametrize("old_types", [None, 5, 128])
def test_positions_are_learned_anew_where_the_start_has_no_such_ones(old_types: int | None) -> None:
    def run(types: int | None) -> RunConfig:
        schema = CustomSchema(format="molecules", level="graph", kind="regression", targets=("a",), smiles="smiles")
        places = [] if types is None else [Positions(types=types)]
        inputs = {
            "node_inputs": [*node_features(schema.features())],
            "pair_inputs": [Distance(max_hops=16), *places],
        }
        return tiny_config(
            data={"source": "own.csv", "custom": schema}, model=inputs, task=custom_task(schema.target())
        )

    given, before, after = tuned(run(old_types), run(128))
    taken = given if old_types == 128 else before
    for name in (name for name in after if name.startswith(f"{EDGES}.1.")):
        assert torch.equal(after[name], taken[name]), name
    assert torch.equal(after[f"{NODES}.0.{TABLE}"], given[f"{NODES}.0.{TABLE}"])


def test_features_without_names_move_by_number() -> None:
    def run(*sizes: int) -> RunConfig:
        return tiny_config(model={"node_inputs": [{"kind": "node_categories", "sizes": sizes}]})

    given, model = artifact(run(3, 2)), build_model(run(2, 2))
    start_from(model, start_of(given, run(2, 2)))
    name = f"{NODES}.0.{TABLE}"
    assert torch.equal(model.state_dict()[name], given.model.state_dict()[name][[0, 1, 2, 4, 5]])
    with pytest.raises(ArtifactError, match="categorical"):
        start_of(given, run(3))


def molecules(*more_smiles: str) -> RunConfig:
    schema = CustomSchema(
        format="molecules", level="graph", kind="regression", targets=("a",), smiles="a", more_smiles=more_smiles
    )
    inputs = {"node_inputs": node_features(schema.features()), "pair_inputs": edge_features(schema.features())}
    return tiny_config(data={"source": "own.csv", "custom": schema}, model=inputs, task=custom_task(schema.target()))


def test_atoms_keep_their_weights_where_rows_get_a_second_molecule() -> None:
    given, before, after = tuned(molecules(), molecules("b"))
    name = f"{NODES}.0.{TABLE}"
    assert torch.equal(after[name][:-2], given[name])
    assert torch.equal(after[name][-2:], before[name][-2:]), "which component it is has to be learned"
    back, _, single = tuned(molecules("b"), molecules())
    assert torch.equal(single[name], back[name][:-2])


@pytest.mark.parametrize(
    "task", [{"kind": "binary", "names": ["a"]}, {"kind": "regression", "names": ["a", "b"]}], ids=["kind", "outputs"]
)
def test_tuning_the_edges_needs_a_task_of_the_same_kind(task: dict[str, Any]) -> None:
    given, config = artifact(own((COLOR,))), own((COLOR,), task=task)
    with pytest.raises(ConfigError, match="--tune"):
        start_of(given, config, tuned="edges")
    start_of(given, config)
    start_of(given, own((COLOR,)), tuned="edges")


def test_a_model_that_does_not_fit_the_run_is_one_line() -> None:
    data, model = own((COLOR,)).data.model_dump(), own((COLOR,)).model.model_dump()
    padded = own(
        (COLOR,),
        data={**data, "layout": "padded"},
        model={**model, "readout": {"kind": "virtual_nodes", "attend_padding": True}},
    )
    with pytest.raises(ConfigError, match="attend_padding") as error:
        with_model_of(own((COLOR,)), padded)
    assert "\n" not in str(error.value)
    assert with_model_of(own((COLOR,)), padded, ["data.layout=padded"]).model.readout == padded.model.readout
    huge = own((COLOR,), data={**data, "layout": "edge_list"}, model={**model, "scope": "neighbors"})
    with pytest.raises(ConfigError, match=r"model\.scope") as error:
        with_model_of(huge, own((COLOR,)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_pretrained_weights_go_wherever_the_task_reads(level: str, caplog: pytest.LogCaptureFixture) -> None:
    """All that the two models share is kept; only what reads the answer is new."""
    first = own(nodes=(COLOR,), edges=(SIZE,))
    schema = first.data.custom
    assert schema is not None
    readout = {"graph": VirtualNodes(num_virtual=2), "node": PerNode(), "edge": PerEdge()}[level]
    plain = first.task.model_copy(update={"auxiliary": ()})
    new = first.model_copy(update={"task": plain, "model": first.model.model_copy(update={"readout": readout})})
    virtual = first.model.model_copy(update={"readout": VirtualNodes(num_virtual=2)})
    old = for_pretraining(first.model_copy(update={"model": virtual}), schema)
    with caplog.at_level(logging.WARNING):
        given, fresh, after = tuned(old, new)
    assert not caplog.records
    untrained = ("head.", "readout.norm", *(["layers.1."] if level == "edge" else []))
    for name, weight in after.items():
        assert torch.equal(weight, (fresh if name.startswith(untrained) else given)[name]), name
    assert ("readout.nodes" in after) == (level == "graph")
