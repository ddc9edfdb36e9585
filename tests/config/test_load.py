"""Configurations: strict, complete round trips, and messages that help."""

from __future__ import annotations

from pathlib import Path

import pytest

from egt.config.load import find_config, override, parse_config, read_config, write_config
from egt.errors import ConfigError
from egt.paper.presets import forms, names, preset
from egt.parts.inputs import Distance, RandomWalk, Reachability
from egt.parts.readouts import VirtualNodes
from egt.parts.schedules import ConstantRate, Plateau
from egt.parts.tasks.classification import Binary


@pytest.mark.parametrize("name", [*names(), "zinc-500k-simple-nope", "tsp-500k-constrained-ungated"])
def test_every_preset_survives_a_round_trip(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(write_config(preset(name)))
    assert read_config(path) == preset(name) == find_config(str(path))
    assert preset(name).name == name


def test_forms_compose_in_any_order() -> None:
    one, other = preset("zinc-500k-simple-nope"), preset("zinc-500k-nope-simple")
    assert one.model == other.model
    ablated = {"simple", "constrained", "ungated", "unscaled", "nope", "nodistance"}
    assert set(forms()) == ablated | {"gcn", "gin", "gatedgcn", "mlp"}


def test_each_form_changes_what_it_says() -> None:
    base = preset("pattern-500k").model
    assert preset("pattern-500k-simple").model.edges.kind == "frozen"
    assert preset("pattern-500k-constrained").model.scope == "neighbors"
    assert preset("pattern-500k-unscaled").model == base.model_copy(update={"scale_dot": False})
    assert preset("pattern-500k-ungated").model == base.model_copy(update={"gate": "none"})
    assert [t.kind for t in preset("pattern-500k-nope").model.node_inputs] == ["node_categories"]
    zinc = preset("zinc-500k-simple").model
    assert (zinc.node_width, zinc.edge_width) == (80, 8)


def test_without_positional_encodings_the_authors_drop_the_objective_and_stack_hops() -> None:
    for name in ("zinc-500k-nope", "mnist-100k-nope", "zinc-500k-nodistance"):
        run = preset(name)
        assert run.task.auxiliary == ()
        assert run.model.pair_inputs[0] == Reachability(num_hops=16)
    assert preset("zinc-500k-ungated").task.auxiliary == preset("zinc-500k").task.auxiliary
    assert preset("zinc-500k-constrained-nope").model == preset("zinc-500k-nope-constrained").model


def test_zinc_full_is_as_long_as_in_the_released_configs() -> None:
    run = preset("zinc-full-500k")
    assert run.trainer.max_epochs == 200
    assert run.schedule == Plateau(factor=0.5, patience=5, min_lr=5e-6)


def test_the_steps_of_the_ablation_add_up_to_egt_small() -> None:
    steps = [preset(f"pcqm4mv2-small-step{k}").model for k in range(6)]
    assert [step.gate for step in steps] == ["none", "sigmoid", "sigmoid", "sigmoid", "centrality", "centrality"]
    assert [step.attention_dropout for step in steps] == [0, 0, 0.3, 0.3, 0.3, 0.3]
    assert [step.readout.kind for step in steps] == ["mean"] * 3 + ["virtual_nodes"] * 3
    assert [len(step.node_inputs) for step in steps] == [1, 1, 1, 1, 1, 2]
    assert steps[5] == preset("pcqm4mv2-small").model


@pytest.mark.parametrize("name", ["zinc", "zinc-500k-simple-simple", "zinc-500k-bigger", "", "-simple"])
def test_unknown_presets(name: str) -> None:
    with pytest.raises(ConfigError, match="preset"):
        preset(name)


def test_a_close_name_is_suggested() -> None:
    with pytest.raises(ConfigError, match="zinc-500k"):
        preset("zink-500k")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("optimizer.learning_rate=1", r"'optimizer.learning_rate'"),
        ("model.nope=1", r"'model.nope'.*num_heads"),
        ("model.heads=8", r"'model.heads'.*num_heads"),
        ("optimiser.lr=1", "'optimiser'"),
        ("model.num_layers=0", r"model.num_layers"),
        ("model.num_layers=two", r"model.num_layers"),
        ("model.num_heads=5", "num_heads"),
        ("model.clip=[5,-5]", "empty"),
        ("model.masking.probability=1.5", "less than 1"),
        ("model.gate=centrality_without_gates", "'sigmoid', 'centrality' or 'none'"),
        ("model.node_inputs=[]", "node_inputs"),
        ("model.pair_inputs.7.num_hops=2", r"0..1"),
        ("seed", "path=value"),
        ("name.first=1", "single"),
        ("data={", "not a value"),
        ("trainer.max_epochs=null", "run"),
    ],
)
def test_wrong_settings_say_what_is_right(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        override(preset("zinc-100k"), [setting])


def test_settings_are_applied_with_their_types() -> None:
    run = override(preset("zinc-100k"), ["optimizer.lr=1e-3", "model.clip=null", "trainer.max_epochs=3", "seed=7"])
    assert (run.optimizer.lr, run.model.clip, run.trainer.max_epochs, run.seed) == (1e-3, None, 3, 7)


def test_an_entry_of_a_list_is_named_by_its_number_or_its_kind() -> None:
    found = override(preset("zinc-500k"), ["model.pair_inputs.edge_categories.absent=learned"]).model
    assert [getattr(term, "absent", None) for term in found.pair_inputs].count("learned") == 1
    with pytest.raises(ConfigError, match="edge_categories"):
        override(preset("zinc-500k"), ["model.pair_inputs.positions.noise=1"])


def test_senseless_combinations_are_refused_with_the_reason() -> None:
    content = preset("zinc-100k").model_dump(mode="json")
    content["model"]["edges"] = {"kind": "frozen"}
    with pytest.raises(ConfigError, match="objective"):
        parse_config(content, "run.yaml")
    content = preset("pcqm4mv2-small").model_dump(mode="json")
    content["model"]["readout"]["attend_padding"] = True
    with pytest.raises(ConfigError, match="padded layout"):
        parse_config(content, "run.yaml")


def test_unknown_keys_are_all_named_with_a_suggestion() -> None:
    content = preset("zinc-100k").model_dump(mode="json")
    content["model"]["num_layer"] = 3
    content["sead"] = 1
    with pytest.raises(ConfigError) as error:
        parse_config(content, "run.yaml")
    assert "model.num_layer: unknown setting; did you mean num_layers" in str(error.value)
    assert "sead: unknown setting; did you mean seed" in str(error.value)


@pytest.mark.parametrize("text", ["", "- 1", "a: [", "\x00"])
def test_files_that_are_no_configuration(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"run.yaml"):
        read_config(path)
    with pytest.raises(ConfigError, match="file"):
        read_config(tmp_path / "none.yaml")


def test_another_kind_of_part_keeps_the_settings_it_shares() -> None:
    run = override(
        preset("zinc-100k"), ["task.kind=binary", "schedule.kind=constant", "model.readout.kind=virtual_nodes"]
    )
    assert run.task == Binary(names=("y",), auxiliary=preset("zinc-100k").task.auxiliary)
    assert run.schedule == ConstantRate()
    assert run.model.readout == VirtualNodes(num_virtual=4)


def test_an_entry_is_added_to_a_list_and_replaces_its_kind() -> None:
    once = override(preset("zinc-100k"), ["model.pair_inputs+={kind: random_walk, num_steps: 8}"])
    assert [term.kind for term in once.model.pair_inputs] == ["reachability", "edge_categories", "random_walk"]
    twice = override(once, ["model.pair_inputs+={kind: random_walk, num_steps: 4}"])
    assert twice.model.pair_inputs == (*once.model.pair_inputs[:2], RandomWalk(num_steps=4))
    assert override(once, ["model.pair_inputs+=distance"]).model.pair_inputs[-1] == Distance(max_hops=16)
    with pytest.raises(ConfigError, match="list"):
        override(once, ["model.readout+=mean"])


def test_an_entry_of_a_list_is_taken_away_by_its_kind() -> None:
    run = override(preset("zinc-100k"), ["model.node_inputs-=svd"])
    assert [term.kind for term in run.model.node_inputs] == ["node_categories"]
    with pytest.raises(ConfigError, match=r"'svf'.*node_categories"):
        override(preset("zinc-100k"), ["model.node_inputs-=svf"])
    with pytest.raises(ConfigError, match=r"'svd'.*node_categories"):
        override(run, ["model.node_inputs-=svd"])
    with pytest.raises(ConfigError, match="list"):
        override(run, ["model.readout-=mean"])


def test_the_settings_of_a_part_are_checked_by_the_part() -> None:
    content = preset("zinc-100k").model_dump(mode="json")
    content["model"]["node_inputs"][1] = {"kind": "svd", "rnak": 8}
    with pytest.raises(ConfigError, match=r"model\.node_inputs\.1\.rnak"):
        parse_config(content, "here")
    content["model"]["node_inputs"][1] = {"kind": "svf"}
    with pytest.raises(ConfigError, match="'svf'"):
        parse_config(content, "here")
    content["model"]["node_inputs"][1] = 3
    with pytest.raises(ConfigError, match="mapping"):
        parse_config(content, "here")
