"""A model beside labels: loss and metrics, of a validation while it trains and of `evaluate` afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
    from egt.inference.predictions import Predictions

Floats = NDArray[np.float64]


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
    see: Callable[[NDArray[np.int64], Tensor, Tensor], None] | None = None,
    **options: Any,
) -> Evaluation:
    """Loss and metrics over all labels of the samples, the same in each process.

    `see` is given the numbers of the graphs, outputs and targets of each batch of this process; other arguments as in
    `forward`.
    """
    if not len(samples):
        raise DataError("there is no graph to evaluate on")
    scores, loss, labels = task.scores(), 0.0, 0.0
    diverged: list[int] = []
    options |= {"stage": "evaluating", "pose": task.part.posed}
    for numbers, batch, prediction in forward(
        model, config, in_pieces(config, samples), progress, processes, **options
    ):
        prediction = prediction.cpu()  # where the labels are
        batch_loss, batch_labels = (each.item() for each in task.loss(prediction, batch))
        loss, labels = loss + batch_loss, labels + batch_labels
        truth = task.targets(batch)
        scores.update(prediction, truth)
        if see is not None:
            see(numbers, prediction, truth)
        if not math.isfinite(batch_loss):
            diverged += numbers.tolist()
    loss, labels = processes.total(loss, labels)
    scores, *others = processes.gather(scores)
    for other in others:
        scores.absorb(other)
    return _evaluation(task, scores, loss / max(labels, 1), len(samples), diverged)


def evaluate_answers(task: Task, values: Floats, truth: Floats, *, num_graphs: int) -> Evaluation:
    """Return loss and metrics of answers (rows, outputs) that are decoded already, as those of an ensemble.

    truth: (rows, label_width) labels, NaN where one is missing. num_graphs: that the rows belong to.
    """
    outputs, targets = torch.from_numpy(task.encode(values)), torch.from_numpy(truth)
    scores = task.scores()
    scores.update(outputs, targets)
    if task.scale is not None:
        mean, std = task.part.label_scale(task.scale).tensors()
        targets = (targets - mean) / std
    loss = task.part.loss_sum(outputs, targets.float()).item() / max(int(task.part.count_labels(targets)), 1)
    return _evaluation(task, scores, loss, num_graphs, [])


def _evaluation(task: Task, scores: Any, loss: float, num_graphs: int, diverged: list[int]) -> Evaluation:
    names = task.part.names
    each = scores.by_target() if len(names) > 1 and isinstance(scores, TargetScores) else []
    by_target = dict(zip(names, each, strict=True)) if each else {}
    return Evaluation(loss, {**scores.compute(), "num_graphs": float(num_graphs)}, by_target, diverged)


def collect_labels(found: Predictions) -> tuple[Floats, Floats]:
    """(rows, outputs) values and (rows, label_width) labels, of predictions for rows that were read."""
    pairs = [(each.values, each.truth) for each in found if each.values is not None and each.truth is not None]
    if not pairs:
        raise DataError("there is no graph with a label to evaluate on")
    values, truth = zip(*pairs, strict=True)
    return np.concatenate(values).astype(np.float64), np.concatenate(truth).astype(np.float64)


class Seen:
    """Decoded answers and labels of a split, kept while it is evaluated."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._parts: list[tuple[NDArray[np.int64], Floats, Floats]] = []

    def __call__(self, numbers: NDArray[np.int64], prediction: Tensor, target: Tensor) -> None:
        """Keep what has labels of a batch of graphs with these numbers in the split.

        prediction: (rows, outputs) as the model gave it. target: (rows, label_width).
        """
        target = target.detach().cpu()
        known = ~target.isnan().all(1)
        if len(numbers) != len(target):  # rows are nodes or edges, which stay in the order of the batches
            numbers = np.zeros(len(target), np.int64)
        decoded = self.task.decode(prediction.detach().cpu()[known]).double().numpy()
        self._parts.append((numbers[known.numpy()], decoded, target[known].double().numpy()))

    def arrays(self) -> tuple[Floats, Floats]:
        """(rows, outputs) decoded answers and (rows, label_width) labels, in the order of `rows`."""
        return self.rows()[1:]

    def rows(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return the numbers of the graphs of all rows, in ascending order, with the decoded answers and labels.

        Where rows are nodes or edges, they stay in the order of the batches, and their numbers are 0.
        """
        part = self.task.part
        nothing = np.zeros(0, np.int64), np.zeros((0, part.num_outputs)), np.zeros((0, part.label_width))
        numbers, answers, labels = (np.concatenate(each) for each in zip(nothing, *self._parts, strict=True))
        order = np.argsort(numbers, kind="stable")
        return numbers[order], answers[order], labels[order]


def labeled_graphs(config: RunConfig, metrics: Mapping[str, float]) -> int:
    """Return how many graphs have the labels of a split, where these are of nodes or edges; 0 for targets of graphs."""
    return 0 if config.model.level == "graph" else int(metrics["num_graphs"])
