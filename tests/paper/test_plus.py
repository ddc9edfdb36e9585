"""Presets beyond the paper: within its budgets, reached by single changes, and nothing of them in its own presets."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from egt.config.run import RunConfig
from egt.paper.presets import PLUS, ZINC_STEPS, names, plus_names, preset
from egt.training.memory import num_parameters

UPTO = [f"zinc-100k-upto-{step}" for step in list(ZINC_STEPS)[:-1]]


def leaves(run: RunConfig) -> dict[str, Any]:
    """The settings of each section."""
    content = run.model_dump(mode="json")
    return {f"{section}.{key}": value for section in content for key, value in _items(content[section]).items()}


def _items(section: Any) -> dict[str, Any]:
    return section if isinstance(section, dict) else {"": section}


@pytest.mark.parametrize("name", PLUS)
def test_a_plus_preset_costs_no_more_weights_than_that_of_the_paper(name: str) -> None:
    budget = 500_000 if name == "molhiv-500k" else num_parameters(preset(name))
    assert num_parameters(preset(f"{name}-plus")) <= 1.02 * budget


def test_each_step_on_zinc_changes_what_it_names_and_the_last_is_plus() -> None:
    runs = [preset(name) for name in ("zinc-100k", *UPTO, "zinc-100k-plus")]
    found = []
    for before, after in pairwise(runs):
        one, two = leaves(before), leaves(after)
        found.append({path for path in {**one, **two} if one.get(path) != two.get(path)} - {"name."})
    assert found == [
        {"optimizer.lr", "trainer.max_epochs", "trainer.gradient_clip"}
        | {f"schedule.{key}" for key in ("kind", "factor", "patience", "min_lr", "warmup")},
        {"data.batch_size"},
        {"model.readout"},
        {"model.gate"},
        {"model.node_inputs", "model.pair_inputs", "task.auxiliary"},
        {"model.edges", "model.edge_values", "model.edge_ffn_multiplier"},
        {"model.masking"},
        {"model.attention_dropout"},
        {"optimizer.weight_decay", "optimizer.decays"},
        {"trainer.ema_decay"},
    ]


@pytest.mark.parametrize("name", plus_names())
def test_plus_presets_are_valid_and_follow_their_length(name: str) -> None:
    run = preset(name)
    assert run.name == name
    assert run.schedule.follows_length
    assert not run.task.auxiliary, "walks give distances away"


@pytest.mark.parametrize("name", plus_names())
def test_graphs_in_the_plane_have_chosen_pairs(name: str) -> None:
    run = preset(name)
    source = name.split("-")[0]
    expected = {"mnist": ["edges", "expander"], "cifar10": ["edges", "expander"], "tsp": ["edges"]}.get(source, [])
    assert [choice.kind for choice in run.model.pairs] == expected
    assert (run.data.layout == "edge_list") == bool(expected)


@pytest.mark.parametrize("name", names())
def test_no_preset_of_the_paper_has_a_part_of_plus(name: str) -> None:
    run = preset(name)
    assert run.optimizer.decays == "all"
    assert run.trainer.ema_decay is None
    assert run.schedule.kind in ("plateau", "warmup_cosine")
    assert run.model.readout.kind in ("mean", "virtual_nodes", "node", "edge")
    kinds = {term.kind for term in (*run.model.node_inputs, *run.model.pair_inputs)}
    assert "random_walk" not in kinds
    assert not run.model.pairs
