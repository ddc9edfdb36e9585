"""A run cut to the time there is: fewer epochs, the schedule scaled with them, and at last fewer training graphs."""

from __future__ import annotations

from typing import Any

from egt.config.load import parse_config
from egt.config.run import RunConfig
from egt.training.plan import Plan

MIN_EPOCHS = 10
"""A run that sees its training graphs less often than this gets fewer graphs instead."""


def fit_into(config: RunConfig, plan: Plan, minutes: float) -> RunConfig:
    """The run as it is if it takes no longer, else cut to about these minutes.

    Args:
        config: the whole run.
        plan: its estimate on this machine.
        minutes: for training; preparing the graphs and the test come on top.
    """
    epochs = minutes * 60 / plan.seconds_per_epoch
    if epochs >= plan.epochs:
        return config
    if config.trainer.max_steps is not None:
        return _cut_steps(config, plan, epochs)
    return _cut_epochs(config, plan, epochs)


def with_epochs(config: RunConfig, plan: Plan, epochs: float) -> RunConfig:
    """The run with this many epochs if it has more; all training graphs stay."""
    if epochs >= plan.epochs:
        return config
    if config.trainer.max_steps is not None:
        return _cut_steps(config, plan, epochs)
    return _changed(config, epochs / plan.epochs, {"max_epochs": max(1, round(epochs))})


def _cut_epochs(config: RunConfig, plan: Plan, epochs: float) -> RunConfig:
    count = max(int(epochs), min(MIN_EPOCHS, int(plan.epochs)))
    share = max(min(1.0, epochs / count), config.data.batch_size / plan.num_graphs)
    return _changed(config, count / plan.epochs, {"max_epochs": count}, min(share, 1.0))


def _cut_steps(config: RunConfig, plan: Plan, epochs: float) -> RunConfig:
    """A run of steps: graphs that it would never come to are left out, so that nobody prepares them."""
    assert config.trainer.max_steps is not None
    steps = max(2, round(epochs * plan.steps_per_epoch))
    per_step = config.data.batch_size * config.trainer.accumulate
    return _changed(
        config, steps / config.trainer.max_steps, {"max_steps": steps}, min(1.0, steps * per_step / plan.num_graphs)
    )


def _changed(config: RunConfig, ratio: float, limits: dict[str, int], share: float = 1.0) -> RunConfig:
    content: dict[str, Any] = config.model_dump(mode="json")
    content["trainer"] |= limits
    content["schedule"] = config.schedule.scaled(ratio).model_dump(mode="json")
    content["data"]["train_share"] = max(round(share * config.data.train_share, 6), 1e-6)
    return parse_config(content, "a shortened run")
