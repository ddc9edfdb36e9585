"""The space: it holds the default, follows the size of the data, and leaves alone what the user has decided."""

from __future__ import annotations

import warnings
from typing import Any

import optuna
import pytest

import egt
from egt.config.load import override
from egt.config.run import RunConfig
from egt.tuning.space import collect_changes, defaults, first_trials, search_space, with_values

optuna.logging.set_verbosity(optuna.logging.WARNING)


class Highest:
    """A trial that asks for the most of everything."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        return high

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1) -> int:
        return high

    def suggest_categorical(self, name: str, choices: list[Any]) -> Any:
        return choices[-1]


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return egt.preset("zinc-100k")


def highest(config: RunConfig, size: int) -> dict[str, Any]:
    return {knob.name: knob.suggest(Highest()) for knob in search_space(config, size, size)}


def test_the_default_is_the_run_itself(config: RunConfig) -> None:
    space = search_space(config, 1_000, 1_000)
    assert with_values(config, space, defaults(space)) == config
    assert [knob.name for knob in space] == [
        *("lr", "width", "layers", "attention dropout", "node dropout", "edge dropout", "batch size", "readout")
    ]


@pytest.mark.parametrize("size", [30, 10_000, 1_000_000])
def test_the_first_trials_change_one_knob_each_within_its_range(config: RunConfig, size: int) -> None:
    space = search_space(config, size, size)
    first = first_trials(space)
    assert first[0] == defaults(space)
    study = optuna.create_study()
    changes = []
    for values in first[1:]:
        study.enqueue_trial(values)
        trial = study.ask()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Optuna warns of a value outside the range
            assert {knob.name: knob.suggest(trial) for knob in space} == values
        (name,) = (name for name in values if values[name] != first[0][name])
        changes.append(name)
        assert with_values(config, space, values) != config
    names = [knob.name for knob in space]
    assert changes[: len(names)] == names  # one step of every knob before a second one of any
    assert len({tuple(values.items()) for values in first}) == len(first)


@pytest.mark.parametrize("size", [30, 10_000, 1_000_000])
def test_every_proposal_is_a_run_and_the_default_is_one_of_them(config: RunConfig, size: int) -> None:
    space = search_space(config, size, size)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.enqueue_trial(defaults(space))
    for number in range(8):
        trial = study.ask()
        values = {knob.name: knob.suggest(trial) for knob in space}
        run = with_values(config, space, values)
        assert (run == config) == (number == 0)
        assert run.model.node_width == values["width"]
        assert run.model.edge_width % run.model.num_heads == 0
        assert run.model.node_ffn_dropout == (values["node dropout"] if number else config.model.node_ffn_dropout)
        assert (run.optimizer.lr, run.model.readout.kind) == (values["lr"], values["readout"])


def test_more_data_gives_room_for_larger_models_and_less_dropout(config: RunConfig) -> None:
    small, medium, large = (highest(config, size) for size in (500, 10_000, 100_000))
    for name in ("width", "layers"):
        assert small[name] < medium[name] < large[name]
    assert small["node dropout"] > medium["node dropout"] > large["node dropout"]


def test_the_edge_width_follows_the_node_width(config: RunConfig) -> None:
    config = override(config, ["model.node_width=64", "model.edge_width=16", "model.num_heads=8"])
    space = search_space(config, 1_000, 1_000)
    assert collect_changes(space, {**defaults(space), "width": 96}) == {"model.node_width": 96, "model.edge_width": 24}


def test_what_the_user_has_decided_stays(config: RunConfig) -> None:
    names = {knob.name for knob in search_space(config, 1_000, 1_000, ["model.edge_width", "model.node_ffn_dropout"])}
    assert not {"width", "node dropout"} & names
    assert "layers" in names
    for path in ("model.readout", "model.readout.kind", "model.readout.num_virtual"):
        assert "readout" not in {knob.name for knob in search_space(config, 1_000, 1_000, [path])}
    assert {knob.name for knob in search_space(config, 1_000, 1_000, ["model"])} == {"lr", "batch size"}
    assert len(search_space(config, 1_000, 1_000, ["model.node_width_2", "model.layer"])) == 8  # only whole words


def test_nodes_have_one_readout_and_one_graph_no_batch_size() -> None:
    names = {knob.name for knob in search_space(egt.preset("pattern-100k"), 10_000, 1)}
    assert not {"readout", "batch size"} & names
