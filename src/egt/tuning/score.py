"""What trials are compared by: the validation that also selects the epoch of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping

from egt.config.run import RunConfig


def measure(config: RunConfig) -> str:
    """Return the name of what is compared: the loss, or the metric of the task (`trainer.select_by`)."""
    return "loss" if config.trainer.select_by == "loss" else config.task.deciding_metric


def higher_is_better(config: RunConfig) -> bool:
    """Return whether more of it is better."""
    return config.trainer.select_by == "metric" and config.task.higher_is_better


def score(config: RunConfig, row: Mapping[str, float]) -> float:
    """Return the score of an epoch; a metric without labels is worse than any other.

    Args:
        config: the run.
        row: of its history, with validation.
    """
    value = row[f"val_{measure(config)}"]
    if math.isnan(value):
        return -math.inf if higher_is_better(config) else math.inf
    return value
