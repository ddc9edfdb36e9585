"""Mixed tables: targets of several kinds in one model, each with its loss and metrics, and weights of rows and targets.

Every target has one output. The labels of the kinds stand one behind the other, and the weights of the rows, if there
are any, in a last column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator

import egt.nn as nn
from egt.parts.tasks.scores import NAN, Scores, TargetScores
from egt.parts.tasks.task import Piece, Row, TargetScale, TaskPart
from egt.registry import register

if TYPE_CHECKING:
    from torch import Tensor

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_OF_ONE_UNIT = ("mae", "rmse")  # metrics that have no mean over targets of different units

_LEFT = 0.25
"""The share of the error of constant answers that a model leaves. Where numbers weigh no more than yes/no at the start,
yes/no is overfitted before they are learned."""


@register
class Mixed(TaskPart):
    """Several tasks as one, `parts` of regression, bounds or yes/no; `names` are their targets, in this order.

    `target_weights` are what a label of each target counts in the loss, 1 for null. "balanced" makes them of the
    training labels, and the run keeps them: w = 1 / (b sqrt(n)) for n labels, with b = 1 for yes/no, whose loss is a
    likelihood. That of numbers is one with b the error that is left, for which a quarter of the mean loss of the best
    constant answer is taken. The unit is such that constant answers have the loss 1. With `row_weights` the targets
    have a last column: what the labels of a row count. Metrics are not weighted; `skill`, the mean over the targets of
    R2 and of 2 ROC-AUC - 1, is 0 for constant answers and 1 for right ones.
    """

    kind: Literal["mixed"] = "mixed"
    parts: Annotated[tuple[TaskPart, ...], Field(min_length=1)]
    target_weights: Literal["balanced"] | tuple[Weight, ...] | None = "balanced"
    row_weights: bool = False

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        names = tuple(name for part in self.parts for name in part.names)
        if names != self.names:
            raise ValueError(f"names are {list(self.names)}, those of the parts {list(names)}; make them agree")
        for part in self.parts:
            if part.num_outputs != len(part.names) or type(part).losses is TaskPart.losses:
                raise ValueError(
                    f"task {part.kind} cannot be a part of a mixed one; regression, censored or binary can"
                )
            if getattr(part, "class_weights", None) is not None:
                raise ValueError("class_weights and target_weights exclude each other; leave class_weights out")
        if isinstance(self.target_weights, tuple) and len(self.target_weights) != len(names):
            raise ValueError(f"target_weights has {len(self.target_weights)} numbers for {len(names)} targets")
        return self

    @property
    def pieces(self) -> tuple[Piece, ...]:
        targets = [0, *accumulate(len(part.names) for part in self.parts)]
        labels = [0, *accumulate(part.label_width for part in self.parts)]
        return tuple(
            Piece(part, slice(*targets[k : k + 2]), slice(*labels[k : k + 2])) for k, part in enumerate(self.parts)
        )

    @property
    def label_width(self) -> int:
        return sum(part.label_width for part in self.parts) + self.row_weights

    @property
    def deciding_metric(self) -> str:
        return "skill" if len(self.parts) > 1 else self.parts[0].deciding_metric

    @property
    def higher_is_better(self) -> bool:
        return len(self.parts) > 1 or self.parts[0].higher_is_better

    @property
    def positive_class(self) -> str:
        positive = {part.positive_class for part in self.parts} - {""}
        return positive.pop() if len(positive) == 1 else ""

    def fitted(self, targets: Iterable[NDArray[np.float64]]) -> Mixed:
        if self.target_weights != "balanced":
            return self
        labels = np.concatenate([np.atleast_2d(rows) for rows in targets])
        plain = self.model_copy(update={"target_weights": None})
        scale = plain.scale([labels])
        outputs, scaled = plain.uninformed([labels]), labels
        if scale is not None:
            mean, std = np.array(scale.mean), np.array(scale.std)
            columns = plain.label_scale(scale)
            outputs, scaled = (outputs - mean) / std, (labels - columns.mean) / columns.std
        answer = torch.tensor(np.nan_to_num(np.tile(outputs, (len(labels), 1))))
        rows = self._row_weights(torch.from_numpy(scaled)).numpy()
        loss = (plain._losses(answer, torch.from_numpy(scaled)).numpy() * rows).sum(0)
        count = (~np.isnan(self.numbers(labels)) * rows).sum(0)
        learned = (loss > 0) & (count > 0)
        classes = np.concatenate([np.full(len(part.names), part.has_classes) for part in self.parts])
        left = np.where(classes, count, _LEFT * loss)
        weight = np.divide(np.sqrt(count), left, out=np.zeros(len(loss)), where=learned)
        total = (weight * loss).sum()
        weight = weight * self.count_labels(torch.from_numpy(labels)).item() / total if total else weight + 1
        return self.model_copy(update={"target_weights": tuple(weight.tolist())})

    def scale(self, targets: Iterable[NDArray[np.float64]]) -> TargetScale | None:
        rows = [np.atleast_2d(each) for each in targets]
        scales = [piece.part.scale(each[:, piece.labels] for each in rows) for piece in self.pieces]
        if not any(scales):
            return None
        sizes = [len(part.names) for part in self.parts]
        ones = [scale or TargetScale((0.0,) * size, (1.0,) * size) for scale, size in zip(scales, sizes, strict=True)]
        return _join_scales(ones)

    def label_scale(self, scale: TargetScale) -> TargetScale:
        found = [piece.part.label_scale(_slice(scale, piece.targets)) for piece in self.pieces]
        found += [TargetScale((0.0,), (1.0,))] * self.row_weights
        return _join_scales(found)

    def uninformed(self, targets: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
        rows = [np.atleast_2d(each) for each in targets]
        found = [piece.part.uninformed(each[:, piece.labels] for each in rows) for piece in self.pieces]
        return np.concatenate([each for each in found if each is not None])

    def numbers(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        rows = np.atleast_2d(targets)
        return np.concatenate([piece.part.numbers(rows[:, piece.labels]) for piece in self.pieces], axis=1)

    def measured(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        rows = np.atleast_2d(targets)
        return np.concatenate([piece.part.measured(rows[:, piece.labels]) for piece in self.pieces], axis=1)

    def count_labels(self, target: Tensor) -> Tensor:
        return torch.stack([piece.part.count_labels(target[:, piece.labels]) for piece in self.pieces]).sum()

    def loss_sum(self, prediction: Tensor, target: Tensor) -> Tensor:
        return self.losses(prediction, target).sum()

    def losses(self, prediction: Tensor, target: Tensor) -> Tensor:
        """(rows, T) the loss of each label, weighted."""
        each = self._losses(prediction, target) * self._row_weights(target)
        if self.target_weights is None:
            return each
        if self.target_weights == "balanced":
            raise ValueError("task.target_weights is 'balanced': fill it in with task.fitted(targets)")
        return each * nn.losses.constant(self.target_weights, each.device)

    def _losses(self, prediction: Tensor, target: Tensor) -> Tensor:
        found = [piece.part.losses(prediction[:, piece.targets], target[:, piece.labels]) for piece in self.pieces]
        return torch.cat(found, dim=1)

    def _row_weights(self, target: Tensor) -> Tensor:
        """(rows, 1) what the labels of each row count."""
        return target[:, -1:] if self.row_weights else torch.ones_like(target[:, :1])

    def scores(self) -> Scores:
        return MixedScores(self.pieces)

    def decode(self, prediction: Tensor) -> Tensor:
        return torch.cat([piece.part.decode(prediction[:, piece.targets]) for piece in self.pieces], dim=1)

    def encode(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([piece.part.encode(values[:, piece.targets]) for piece in self.pieces], axis=1)

    def centers_and_units(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.parts[0].centers_and_units(values) if len(self.parts) == 1 else super().centers_and_units(values)

    def class_probabilities(self, values: NDArray[Any]) -> NDArray[np.float64] | None:
        """Return those of the only part; None of several, which have their own."""
        return self.parts[0].class_probabilities(values) if len(self.parts) == 1 else None

    def columns(self, values: NDArray[np.float32]) -> Row:
        return _join(piece.part.columns(values[piece.targets]) for piece in self.pieces)

    def true_columns(self, target: NDArray[Any]) -> Row:
        return _join(piece.part.true_columns(target[piece.labels]) for piece in self.pieces)

    def bound_columns(self, bounds: NDArray[Any]) -> Row:
        """Return the interval or set of each answer. bounds: (T, 2), of sets whether a class is in it."""
        return _join(piece.part.bound_columns(piece.of_bounds(bounds)) for piece in self.pieces)

    def spread_columns(self, values: NDArray[Any], std: NDArray[Any]) -> Row:
        return _join(piece.part.spread_columns(values[piece.targets], std[piece.targets]) for piece in self.pieces)


def _slice(scale: TargetScale, places: slice) -> TargetScale:
    return TargetScale(scale.mean[places], scale.std[places])


def _join_scales(scales: Iterable[TargetScale]) -> TargetScale:
    means, stds = zip(*((scale.mean, scale.std) for scale in scales), strict=True)
    return TargetScale(tuple(chain(*means)), tuple(chain(*stds)))


def _join(rows: Iterable[Row]) -> Row:
    return {name: value for row in rows for name, value in row.items()}


class MixedScores:
    """Metrics of each part, as means over the targets that have them, and the `skill` over all targets.

    `mae` and `rmse` are there if only one target is a number.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.parts = [piece.part.scores() for piece in pieces]

    def update(self, prediction: Tensor, target: Tensor) -> None:
        for piece, scores in zip(self.pieces, self.parts, strict=True):
            scores.update(prediction[:, piece.targets], target[:, piece.labels])

    def absorb(self, other: Self) -> None:
        for own, theirs in zip(self.parts, other.parts, strict=True):
            own.absorb(theirs)

    def by_target(self) -> list[dict[str, float]]:
        found = [scores.by_target() if isinstance(scores, TargetScores) else [] for scores in self.parts]
        return [each for targets in found for each in targets]

    def compute(self) -> dict[str, float]:
        if len(self.parts) == 1:
            return self.parts[0].compute()
        each, found = self.by_target(), dict[str, float]()
        counts = [name for part in self.parts for name in part.compute() if name in ("num_labels", "num_bounds")]
        for name in dict.fromkeys(name for part in self.parts for name in part.compute()):
            values = [scores[name] for scores in each if name in scores]
            if name in counts:
                found[name] = sum(values)
            elif name != "num_targets" and not (name in _OF_ONE_UNIT and len(values) > 1):
                found[name] = _mean(values)
        return {"skill": _mean([_skill(scores) for scores in each]), **found}


def _skill(scores: dict[str, float]) -> float:
    return scores["r2"] if "r2" in scores else 2 * scores["roc_auc"] - 1


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if value == value]
    return sum(known) / len(known) if known else NAN
