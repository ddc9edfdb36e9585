"""The task of pre-training: its loss and scores against numbers written out, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from egt.errors import ConfigError
from egt.parts.tasks.pretrain import Pretrain
from tests.training.tiny import tiny_config

NAN = math.nan
TASK = Pretrain(node_categories=(2,), num_node_values=1, edge_categories=(3,), max_hops=1, distance_weight=0.5)
"""Outputs: 2 of the category, 1 of the value, 3 of the edge, 3 of the distance (0, 1, farther)."""
PREDICTION = torch.tensor(
    [
        [2.0, 0.0, 1.5, 0, 0, 0, 0, 0, 0],
        [9.0, 9.0, 9.0, 9, 9, 9, 9, 9, 9],
        [0.0, 0.0, 0.0, 0, 1, 0, 0, 0, 0],
        [0.0, 0.0, 0.0, 0, 0, 0, 3, 0, 0],
    ]
)
TARGET = torch.tensor(
    [
        [0, 1.0, NAN, NAN],  # a hidden node
        [NAN, NAN, NAN, NAN],  # one that is not
        [NAN, NAN, 1, NAN],  # a hidden edge
        [NAN, NAN, NAN, 2],  # a hidden distance
    ]
)


def tiny_run(model: dict[str, Any], task: dict[str, Any]) -> Any:
    config = tiny_config()
    content = config.model_dump()
    content["model"] |= model
    content["task"] = task
    return type(config).model_validate(content)


def test_the_loss_is_cross_entropy_of_classes_and_squared_error_of_values() -> None:
    category = math.log(1 + math.exp(-2))
    edge = math.log(2 * math.exp(-1) + 1)
    distance = math.log(math.exp(3) + 2)
    loss = TASK.loss_sum(PREDICTION, TARGET).item()
    assert loss == pytest.approx(category + 0.25 + edge + 0.5 * distance, abs=1e-5)


def test_scores_count_what_is_hidden() -> None:
    scores, other = TASK.scores(), TASK.scores()
    scores.update(PREDICTION[:2], TARGET[:2])
    other.update(PREDICTION[2:], TARGET[2:])
    scores.absorb(other)
    assert scores.compute() == {
        "feature_accuracy": 1.0,
        "value_rmse": 0.5,
        "distance_accuracy": 0.0,
        "num_labels": 4.0,
    }
    assert TASK.deciding_metric == "feature_accuracy"
    assert TASK.num_outputs == 9


def test_only_values_are_scored_by_their_error() -> None:
    task = Pretrain(num_node_values=2)
    assert task.deciding_metric == "value_rmse"
    assert not task.higher_is_better


def test_its_outputs_are_no_answers() -> None:
    with pytest.raises(ConfigError, match="--from RUN"):
        TASK.decode(PREDICTION)


@pytest.mark.parametrize(
    ("model", "task", "message"),
    [
        (
            {"node_inputs": [{"kind": "node_categories", "sizes": [3]}, {"kind": "svd", "weighted": True}]},
            {},
            "weights",
        ),
        ({"readout": {"kind": "node"}}, {}, "model.readout hidden"),
        ({"edges": {"kind": "frozen"}}, {}, "channel"),
        ({"pair_inputs": [{"kind": "random_walk"}]}, {}, "max_hops"),
        ({}, {"node_categories": [4]}, "task.node_categories is"),
        ({"node_inputs": ["constant"]}, {"node_categories": [], "max_hops": 0}, "hide"),
    ],
)
def test_what_gives_hidden_features_away_or_cannot_be_read_is_refused(
    model: dict[str, Any], task: dict[str, Any], message: str
) -> None:
    good = {"readout": {"kind": "hidden", "num_virtual": 2}}
    settings = {"kind": "pretrain", "node_categories": [3], "max_hops": 4}
    tiny_run(good, settings)
    with pytest.raises(ValidationError, match=message):
        tiny_run({**good, **model}, {**settings, **task})
