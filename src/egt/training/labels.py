"""Whether the labels of a run are enough to train on and to select by, found out before the first epoch is spent."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egt.assemble import build_task
from egt.config.run import RunConfig
from egt.encodings.encoding import Sample
from egt.errors import DataError
from egt.tasks.task import Task

log = logging.getLogger(__name__)

_DIVISION_HINT = "--set split=stratified, split.seed=1 or split.fractions=[0.6, 0.2, 0.2]"


def check_labels(config: RunConfig, training: Sequence[Sample], validation: Sequence[Sample] | None) -> None:
    """Look at the labels of a run.

    A metric that cannot be computed is only a warning: weights are selected by the loss.

    Raises:
        DataError: training or validation has no label at all.
    """
    splits = {"training": training, "validation": validation or ()}
    for name, samples in splits.items():
        if len(samples) and all(np.isnan(_targets(config, sample)).all() for sample in samples):
            raise DataError(
                f"none of the {len(samples)} graphs of the {name} split has a label ({', '.join(config.task.names)}); "
                f"give some of them labels, or divide the data in another way (own data: {_DIVISION_HINT})"
            )
    task = build_task(config)
    if validation and not _computable(task, config, validation):
        log.warning(
            "%s cannot be computed on the validation split: it lacks labels, as of the other class. The run goes on "
            "and selects its weights by the loss; to see the metric, divide the data in another way (own data: %s)",
            task.metric,
            _DIVISION_HINT,
        )


def _computable(task: Task, config: RunConfig, samples: Sequence[Sample]) -> bool:
    """Whether the metric of the task is a number on these samples, whatever is predicted; mostly the first few tell."""
    scores, look = task.scores(), 1
    for number, sample in enumerate(samples, start=1):
        target = torch.tensor(_targets(config, sample), dtype=torch.float32)
        scores.update(torch.zeros(len(target), config.task.num_outputs), target)
        if number in (look, len(samples)):
            if not math.isnan(scores.compute()[task.metric]):
                return True
            look *= 2
    return False


def _targets(config: RunConfig, sample: Sample) -> NDArray[Any]:
    """(rows, T) the targets of a graph at the level of the run, NaN where missing; no rows when it has none."""
    values = getattr(sample.graph, f"{config.model.level}_targets")
    return np.empty((0, len(config.task.names))) if values is None else values.reshape(-1, len(config.task.names))
