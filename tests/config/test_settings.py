"""Settings from the command line and from Python, and those of them that concern the reading of data."""

from __future__ import annotations

from pathlib import Path

import pytest

from egt.config.load import Setting, check_reading_only, nest_reading, override, parse_settings, split_trained
from egt.errors import ConfigError, DataError
from egt.paper.presets import preset
from egt.parts.readouts import VirtualNodes


def test_settings_of_reading_are_nested_and_others_left_out() -> None:
    given = parse_settings(["overrides.smiles=structure", "split=scaffold", "split.seed=3", "optimizer.lr=1e-3"])
    assert nest_reading(given) == {"overrides": {"smiles": "structure"}, "split": {"kind": "scaffold", "seed": 3}}


def test_texts_are_parsed_and_values_stay() -> None:
    assert parse_settings(["optimizer.lr=1e-3", "overrides.id=007"]) == [
        ("optimizer.lr", 1e-3),
        ("overrides.id", "007"),
    ]
    readout = VirtualNodes(num_virtual=3)
    settings = {"model.readout": readout, "name": "1e3", "data.options": {"split_sizes": {"train": 4}}}
    assert parse_settings(settings)[0].value is readout
    run = override(preset("pattern-100k"), {**settings, "model.readout": {"kind": "node"}})
    assert (run.name, run.data.options) == ("1e3", settings["data.options"])
    assert override(preset("zinc-100k"), {"model.readout": readout}).model.readout == readout


def test_an_entry_from_python_is_added_to_a_list() -> None:
    terms = override(preset("zinc-100k"), {"model.pair_inputs+": {"kind": "distance", "max_hops": 3}}).model.pair_inputs
    assert (terms[-1].kind, len(terms)) == ("distance", 3)


def test_a_setting_is_shown_as_on_the_command_line() -> None:
    assert str(Setting("model.clip", (-5, 5))) == "model.clip=[-5, 5]"
    assert str(Setting("overrides.id", "name")) == "overrides.id=name"
    assert str(Setting("data.source", Path("x"))) == 'data.source="x"'


def test_other_settings_are_refused_where_data_is_only_read() -> None:
    check_reading_only(["overrides.id=name", "split.seed=3"])
    with pytest.raises(DataError, match=r"--set.*optimizer.lr"):
        check_reading_only(["split=random", "optimizer.lr=1"])


def test_a_trained_model_takes_only_settings_of_its_computation() -> None:
    computing, overrides = split_trained({"data.batch_size": 4, "trainer.backend": "plain", "overrides.smiles": "s"})
    assert (computing, overrides) == ([("data.batch_size", 4), ("trainer.backend", "plain")], {"smiles": "s"})
    for path in ("model.num_layers", "data.source", "data.custom.targets", "seed"):
        with pytest.raises(ConfigError, match=path):
            split_trained({path: 1})


def test_columns_may_have_dots_in_their_names() -> None:
    given = parse_settings(["overrides.node_features.x.0=ignored", "overrides.node_features.x.1=continuous"])
    assert nest_reading(given) == {"overrides": {"node_features": {"x.0": "ignored", "x.1": "continuous"}}}
