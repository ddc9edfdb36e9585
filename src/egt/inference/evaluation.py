"""Metrics of a model on prepared samples."""

from __future__ import annotations

from collections.abc import Sequence

from egt.config.run import RunConfig
from egt.encodings.encoding import Sample
from egt.errors import DataError
from egt.inference.forward import ALONE, Progress, forward
from egt.inference.processes import Processes
from egt.model import EGT
from egt.tasks.task import Task, targets


def evaluate(
    model: EGT,
    task: Task,
    config: RunConfig,
    samples: Sequence[Sample],
    progress: Progress | None = None,
    processes: Processes = ALONE,
) -> dict[str, float]:
    """The metrics of the task over all labels of the samples, with `num_graphs` and `num_labels` they stand on."""
    if not len(samples):
        raise DataError("there is no graph to evaluate on")
    scores = task.scores()
    for _, batch, prediction in forward(model, config, samples, progress, processes):
        scores.update(prediction, targets(batch, task.level))
    scores, *others = processes.gather(scores)
    for other in others:
        scores.absorb(other)
    return {**scores.compute(), "num_graphs": float(len(samples))}
