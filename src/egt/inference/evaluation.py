"""Loss and metrics of a model on prepared samples: of a validation while it trains, and of `evaluate` afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from egt.config.run import RunConfig
from egt.config.run_data import in_pieces
from egt.data.encodings.encoding import Sample
from egt.data.source import Progress
from egt.errors import DataError
from egt.inference.forward import forward
from egt.nn.model import EGT
from egt.parts.tasks.scores import TargetScores
from egt.parts.tasks.task import Task
from egt.processes import ALONE, Processes

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Evaluation:
    """What a model achieves on a split.

    Fields:
        loss: mean over all labels; auxiliary objectives do not count.
        metrics: the scores of the task, with `num_labels` and `num_graphs` they stand on.
        by_target: target -> its scores alone, where there are several targets.
        diverged: the numbers of graphs in batches whose loss is not finite, those of this process.
    """

    loss: float
    metrics: dict[str, float]
    by_target: dict[str, dict[str, float]]
    diverged: list[int]


def evaluate(
    model: EGT,
    task: Task,
    config: RunConfig,
    samples: Sequence[Sample],
    progress: Progress | None = None,
    processes: Processes = ALONE,
    *,
    see: Callable[[Tensor, Tensor], None] | None = None,
    **options: Any,
) -> Evaluation:
    """Loss and metrics over all labels of the samples, the same in each process.

    `see` is given the outputs and targets of each batch of this process; other arguments as in `forward`.
    """
    if not len(samples):
        raise DataError("there is no graph to evaluate on")
    scores, loss, labels = task.scores(), 0.0, 0.0
    diverged: list[int] = []
    for numbers, batch, prediction in forward(
        model, config, in_pieces(config, samples), progress, processes, stage="evaluating", pose=task.posed, **options
    ):
        prediction = prediction.cpu()  # where the labels are
        batch_loss, batch_labels = (each.item() for each in task.loss(prediction, batch))
        loss, labels = loss + batch_loss, labels + batch_labels
        truth = task.targets(batch)
        scores.update(prediction, truth)
        if see is not None:
            see(prediction, truth)
        if not math.isfinite(batch_loss):
            diverged += numbers.tolist()
    loss, labels = processes.total(loss, labels)
    scores, *others = processes.gather(scores)
    for other in others:
        scores.absorb(other)
    metrics = {**scores.compute(), "num_graphs": float(len(samples))}
    names = config.task.names
    each = scores.by_target() if len(names) > 1 and isinstance(scores, TargetScores) else []
    by_target = dict(zip(names, each, strict=True)) if each else {}
    return Evaluation(loss / max(labels, 1), metrics, by_target, diverged)
