"""The registry of parts: found by name, checked by themselves, known by the package they come from."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pytest

from egt.config.load import override, parse_config, write_config
from egt.errors import ConfigError
from egt.paper.presets import preset
from egt.parts.inputs import NodeInput, PairInput, Svd
from egt.parts.readouts import ReadoutPart
from egt.parts.schedules import SchedulePart
from egt.parts.tasks.task import Objective, TaskPart
from egt.registry import Part, Registry, register


@pytest.mark.parametrize(
    ("slot", "names"),
    [
        (NodeInput, {"node_categories", "node_values", "constant", "svd", "laplacian", "degree"}),
        (PairInput, {"edge_categories", "edge_values", "distance", "reachability", "random_walk"}),
        (ReadoutPart, {"mean", "virtual_nodes", "node", "edge"}),
        (TaskPart, {"regression", "binary", "multiclass"}),
        (Objective, {"distance"}),
        (SchedulePart, {"plateau", "warmup_cosine", "cosine", "constant"}),
    ],
)
def test_the_parts_of_egt_are_found_without_being_imported(slot: type[Part], names: set[str]) -> None:
    assert names <= set(slot.registry.names())
    for name in names:
        part = slot.registry.get(name)
        assert part.model_fields["kind"].default == name
        assert part.__doc__


def test_an_unknown_name_is_answered_with_what_may_have_been_meant() -> None:
    with pytest.raises(ConfigError, match="'maen'"):
        ReadoutPart.registry.get("maen")
    assert "maen" not in ReadoutPart.registry
    assert "mean" in ReadoutPart.registry


def test_two_definitions_cannot_share_a_name_but_one_can_be_registered_again() -> None:
    registry: Registry[Any] = Registry("toy", "egt.schedules")

    class First:
        pass

    class Second:
        pass

    registry.register("toy")(First)
    registry.register("toy")(First)
    with pytest.raises(ConfigError, match="'toy'"):
        registry.register("toy")(Second)
    assert registry.get("toy") is First


def test_a_part_survives_the_configuration() -> None:
    run = preset("zinc-100k")
    assert parse_config(run.model_dump(mode="json"), "here") == run
    assert isinstance(run.model.node_inputs[1], Svd)
    assert run.plugins == ()


def test_a_part_of_a_script_works_at_once_and_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cooling(SchedulePart):
        """Nothing but settings."""

        kind: Literal["cooling"] = "cooling"
        speed: float = 2.0
        needs_validation: ClassVar[bool] = False

    known = {name: SchedulePart.registry.get(name) for name in SchedulePart.registry}
    monkeypatch.setattr(SchedulePart.registry, "_entries", known)  # forgotten after this test
    register(Cooling)
    run = override(preset("zinc-100k"), ["schedule={kind: cooling, speed: 3}"])
    assert run.schedule == Cooling(speed=3)
    assert run.plugins == (__name__.split(".")[0],)
    assert "cooling" in write_config(run)
    with pytest.raises(ConfigError, match=r"schedule\.sped"):
        parse_config({**run.model_dump(mode="json"), "schedule": {"kind": "cooling", "sped": 1}}, "here")


def test_a_run_whose_package_is_missing_names_it() -> None:
    content = preset("zinc-100k").model_dump(mode="json")
    content["plugins"] = ["egt_not_there"]
    content["model"]["readout"] = {"kind": "from_far_away"}
    with pytest.raises(ConfigError, match=r"'from_far_away'.*egt_not_there"):
        parse_config(content, "here")
