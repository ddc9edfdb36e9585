"""Validation rows as weights answer them that these rows have not chosen: what calibration needs.

The epoch is chosen on the validation rows, so its errors on them are smaller than on new rows, and intervals that rest
on them are too narrow. The rows are therefore halved, and each half keeps the answers of the weights that are best on
the *other* half (cross-fitting). The run itself selects by all of them, as ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from egt.config.run import RunConfig
from egt.graph import IntArray
from egt.inference.evaluation import Floats, Seen, evaluate_answers
from egt.parts.tasks.task import Task
from egt.processes import Processes
from egt.training.state import is_better

HeldOut = tuple[Floats, Floats]
"""(rows, outputs) decoded answers and (rows, label_width) labels of rows that a model was not trained on."""

_ENDS = ("answers", "labels")


class CrossFit:
    """The answers for each half of the validation rows by the weights that are best on the other half, so far.

    Attributes:
        rows: of each half, loss and metrics of the best epoch on it, as in the history.
        kept: of each half, what the weights that are best on it answer for the other one.
    """

    def __init__(self, config: RunConfig, task: Task) -> None:
        self.config, self.task = config, task
        self.rows: list[Mapping[str, float]] = []
        self.kept: list[HeldOut] = []

    def observe(self, seen: Seen, processes: Processes) -> None:
        """Take in the answers of an epoch, of which each process has seen some."""
        numbers, answers, labels = (np.concatenate(each) for each in zip(*processes.gather(seen.rows()), strict=True))
        if len(labels) < 2:
            return
        order = np.argsort(numbers, kind="stable")  # whatever the processes
        answers, labels = answers[order], labels[order]
        halves = [(answers[rows], labels[rows]) for rows in _halves(labels)]
        first = not self.rows
        for half, (values, truth) in enumerate(halves):
            found = evaluate_answers(self.task, values, truth, num_graphs=len(truth))
            row = {f"val_{name}": value for name, value in {"loss": found.loss, **found.metrics}.items()}
            if first:
                self.rows.append(row)
                self.kept.append(halves[1 - half])
            elif is_better(self.config, row, self.rows[half]):
                self.rows[half], self.kept[half] = row, halves[1 - half]

    def tensors(self) -> dict[str, Tensor]:
        """Return what `restore` takes, beside the rows."""
        return {
            f"held_out.{half}.{name}": torch.from_numpy(array)
            for half, arrays in enumerate(self.kept)
            for name, array in zip(_ENDS, arrays, strict=True)
        }

    def restore(self, rows: Sequence[Mapping[str, float]], tensors: Mapping[str, Tensor]) -> None:
        """Continue from a checkpoint."""
        self.rows, self.kept = list(rows), [_half(tensors, half) for half in range(len(rows))]


def _halves(labels: Floats) -> tuple[IntArray, IntArray]:
    """Divide rows, so that both halves have labels of all sizes. labels: (rows, label_width)."""
    order = np.lexsort(labels.T)
    return order[::2], order[1::2]


def in_order(found: HeldOut, labels: Floats) -> Floats:
    """(rows, outputs) what is kept of rows that are graphs, in the order of labels. labels: (rows, label_width)."""
    first, second = _halves(labels)
    answers = np.empty_like(found[0])
    answers[np.concatenate([second, first])] = found[0]  # each half keeps the answers for the other
    return answers


def _half(tensors: Mapping[str, Tensor], half: int) -> HeldOut:
    answers, labels = (tensors[f"held_out.{half}.{name}"].numpy() for name in _ENDS)
    return answers, labels


def kept_answers(tensors: Mapping[str, Tensor]) -> HeldOut | None:
    """Return what a checkpoint keeps of both halves together; None where it keeps nothing."""
    if "held_out.0.answers" not in tensors:
        return None
    answers, labels = zip(*(_half(tensors, half) for half in (0, 1)), strict=True)
    return np.concatenate(answers), np.concatenate(labels)
