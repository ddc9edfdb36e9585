"""A run cut to the time there is: fewer epochs, the schedule scaled with them, and at last fewer training graphs."""

from __future__ import annotations

import math
from typing import Any

from egt.config.load import parse_config
from egt.config.run import RunConfig
from egt.training.plan import Plan, known_sizes

MIN_EPOCHS = 10
"""A run that sees its training graphs less often than this gets fewer graphs instead."""


def fit_into(config: RunConfig, plan: Plan, minutes: float) -> RunConfig:
    """Return the run unchanged if it takes no longer, else cut to about these minutes.

    Args:
        config: the whole run.
        plan: its estimate on this machine.
        minutes: for training; preparing the graphs and the test come on top.
    """
    epochs = minutes * 60 / plan.seconds_per_epoch
    if epochs >= plan.epochs:
        return config
    if config.trainer.max_steps is not None:
        return _cut_steps(config, round(epochs * plan.steps_per_epoch), plan.num_graphs)
    count = max(int(epochs), min(MIN_EPOCHS, int(plan.epochs)))
    share = max(min(1.0, epochs / count), config.data.batch_size / plan.num_graphs)
    return _changed(config, count / plan.epochs, {"max_epochs": count}, min(share, 1.0))


def with_epochs(config: RunConfig, epochs: int) -> RunConfig:
    """Return the run with this many epochs if it has more; all training graphs stay."""
    limits = config.trainer
    if limits.max_steps is not None:
        num_graphs = known_sizes(config)[2]["train"]
        steps = epochs * math.ceil(num_graphs / (config.data.batch_size * limits.accumulate))
        return config if steps >= limits.max_steps else _cut_steps(config, steps, num_graphs)
    assert limits.max_epochs is not None
    ratio = epochs / limits.max_epochs
    return config if ratio >= 1 else _changed(config, ratio, {"max_epochs": epochs})


def _cut_steps(config: RunConfig, steps: int, num_graphs: int) -> RunConfig:
    """Return a run of steps: graphs that it would never come to are left out, so that nobody prepares them."""
    assert config.trainer.max_steps is not None
    steps = max(2, steps)
    seen = steps * config.data.batch_size * config.trainer.accumulate
    return _changed(config, steps / config.trainer.max_steps, {"max_steps": steps}, min(1.0, seen / num_graphs))


def _changed(config: RunConfig, ratio: float, limits: dict[str, int], share: float = 1.0) -> RunConfig:
    content: dict[str, Any] = config.model_dump(mode="json")
    content["trainer"] |= limits
    content["schedule"] = config.schedule.scaled(ratio).model_dump(mode="json")
    content["data"]["train_share"] = max(round(share * config.data.train_share, 6), 1e-6)
    return parse_config(content, "a shortened run")
