"""A trained model beside held-out labels: its calibration, and how often its intervals and sets hold the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from egt.config.run import RunConfig
from egt.inference.uncertainty import Bounds, Calibration, Floats, Scores, holds, labels_needed, sizes
from egt.parts.tasks.task import Task, TaskPart

COVERAGE = 0.9
"""Of the intervals and sets that a report tells about."""

_FEW_GRAPHS = 30
"""Of fewer graphs, the labels of nodes or edges say little about other graphs."""


class Seen:
    """Decoded answers and labels of a split, kept while it is evaluated.

    Args:
        task: that decodes.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self._parts: list[tuple[Floats, Floats]] = []

    def __call__(self, prediction: Tensor, target: Tensor) -> None:
        """Keep what has labels of a batch. prediction: (rows, outputs) as the model gave it, target: (rows, T)."""
        target = target.detach().cpu()
        known = ~target.isnan().all(1)
        decoded = self.task.decode(prediction.detach().cpu()[known]).double().numpy()
        self._parts.append((decoded, target[known].double().numpy()))

    def arrays(self) -> tuple[Floats, Floats]:
        """(rows, outputs) decoded answers and (rows, T) labels."""
        answers, labels = zip(*self._parts, strict=True)
        return np.concatenate(answers), np.concatenate(labels)


def labeled_graphs(config: RunConfig, metrics: Mapping[str, float]) -> int:
    """Return how many graphs have the labels of a split, where these are of nodes or edges; 0 for targets of graphs."""
    return 0 if config.model.level == "graph" else int(metrics["num_graphs"])


def calibrate(part: TaskPart, values: Floats, truth: Floats, **about: Any) -> Calibration | None:
    """Return what labels say about the errors of a model that was not trained on them; None where nothing can be said.

    Args:
        part: the task.
        values: (rows, outputs) decoded answers.
        truth: (rows, T) labels, NaN where one is missing.
        about: fields of `Calibration`.
    """
    if np.isnan(truth).all() or not np.isfinite(values).all():
        return None
    classes = part.class_probabilities(values)
    if classes is not None:
        return Calibration.of_classes(classes, truth, **about)
    centers, units = part.centers_and_units(values)
    return Calibration.of_numbers(centers, truth, units, **about) if centers.shape == truth.shape else None


def bounds_of(part: TaskPart, calibration: Calibration, values: NDArray[Any], coverage: float = COVERAGE) -> Bounds:
    """(rows, T, 2) intervals or (rows, T, C) sets. values: (rows, outputs) decoded answers."""
    values = values.astype(np.float64)
    classes = part.class_probabilities(values)
    if classes is not None:
        return calibration.bounds(classes, coverage)
    centers, units = part.centers_and_units(values)
    return calibration.bounds(centers, coverage, units)


def measure_coverage(part: TaskPart, calibration: Calibration, values: Floats, truth: Floats) -> dict[str, Any]:
    """Return how often intervals or sets hold labels, and how large they are, for each target. Arguments as above."""
    return describe_bounds(part, bounds_of(part, calibration, values), truth, calibration)


def describe_bounds(part: TaskPart, bounds: Bounds, truth: Floats, calibration: Calibration) -> dict[str, Any]:
    """Return what `measure_coverage` does, of intervals or sets that are there. Arguments as elsewhere."""
    held, size = holds(bounds, truth), sizes(bounds)
    targets = {}
    for name, inside, large, labels in zip(part.names, held.T, size.T, truth.T, strict=True):
        known = ~np.isnan(labels)
        if known.any():
            mean = float(large[known].mean())
            targets[name] = {
                "coverage": float(inside[known].mean()),
                "size": mean if np.isfinite(mean) else None,
                "num_labels": int(known.sum()),
            }
    about = {"asked": COVERAGE, "kind": calibration.kind, "transductive": calibration.transductive}
    return {**about, "targets": targets, "doubts": doubts(part, calibration, COVERAGE)}


def doubts(part: TaskPart, calibration: Calibration, coverage: float) -> list[str]:
    """Return what a calibration cannot promise at a coverage, each in a sentence; empty where nothing is missing."""
    found = [
        text
        for name, groups in zip(part.names, calibration.scores, strict=True)
        if (text := _too_few(part, calibration, name, groups, coverage))
    ]
    graphs = calibration.num_graphs
    if 0 < graphs < _FEW_GRAPHS and not calibration.transductive:
        found.append(
            f"{calibration.kind}s rest on the nodes or edges of {graphs} graph{'s' if graphs > 1 else ''}, which err "
            "together within a graph: the promise is rougher than so many labels suggest"
        )
    return found


def _too_few(part: TaskPart, calibration: Calibration, name: str, groups: list[Scores], coverage: float) -> str:
    """Return why intervals of a target are infinite, or its sets hold some classes always; "" if they are not."""
    needed = labels_needed(coverage)
    few = [k for k, each in enumerate(groups) if each.count < needed]
    if not few:
        return ""
    least = min(groups[k].count for k in few)
    which = "all classes" if len(groups) == 1 else ", ".join(str(part.label(k)) for k in few)
    how = "are infinite" if calibration.kind == "interval" else f"always hold {which}"
    each = " of each class" if len(groups) > 1 else ""
    return (
        f"{name}: {calibration.kind}s of {100 * coverage:.6g}% {how}: they need {needed} held-out labels{each} to "
        f"calibrate on, and there are {least}"
    )
