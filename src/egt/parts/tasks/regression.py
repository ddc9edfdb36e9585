"""Regression: numbers per graph, node or edge, alone or each with a deviation of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

import egt.nn as nn
from egt.parts.tasks.scores import BoundScores, ErrorScores, MeanScores
from egt.parts.tasks.task import Row, TargetScale, TaskPart, mean_of_known, number
from egt.registry import register

if TYPE_CHECKING:
    from torch import Tensor

    from egt.parts.tasks.scores import Scores


class _Errors(TaskPart):
    """Numbers, with an error for each label as the loss."""

    loss: Literal["mae", "mse"] = "mae"
    standardize: bool = False

    @property
    def deciding_metric(self) -> str:
        return {"mae": "mae", "mse": "rmse"}[self.loss]

    @property
    def higher_is_better(self) -> bool:
        return False

    def scale(self, targets: Iterable[NDArray[np.float64]]) -> TargetScale | None:
        return TargetScale.of(targets) if self.standardize else None

    def uninformed(self, targets: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
        return mean_of_known(targets)


@register
class Regression(_Errors):
    """Numbers; the `loss` is the mean absolute or squared error.

    `standardize` trains on (y - mean) / std of the training targets and answers in their unit.
    """

    kind: Literal["regression"] = "regression"

    def loss_sum(self, prediction: Tensor, target: Tensor) -> Tensor:
        return nn.losses.sum_known(self._error, prediction.float(), target)

    def losses(self, prediction: Tensor, target: Tensor) -> Tensor:
        return nn.losses.each_known(self._error, prediction.float(), target)

    @property
    def _error(self) -> Callable[[Tensor, Tensor], Tensor]:
        return nn.losses.absolute if self.loss == "mae" else nn.losses.squared

    def scores(self) -> Scores:
        return ErrorScores()


@register
class Censored(_Errors):
    """Numbers, of which some labels are bounds, as `>5` and `<= 0.1` in assays.

    The error of a prediction is its distance from the numbers that a label allows: none on the right side of a bound.
    A target has two columns of labels (`egt.data.columns.encode_bounds`): the lowest number and the highest, NaN where
    there is none. A measured number is both. Metrics and intervals are those of measured numbers; `bounds_kept` is the
    share of the bounds that predictions keep. `loss` and `standardize` are those of
    regression.
    """

    kind: Literal["censored"] = "censored"

    @property
    def label_width(self) -> int:
        return 2 * len(self.names)

    def label_scale(self, scale: TargetScale) -> TargetScale:
        mean, std = np.repeat(scale.mean, 2), np.repeat(scale.std, 2)
        return TargetScale(tuple(mean.tolist()), tuple(std.tolist()))

    def numbers(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """(rows, T) the labels, of which bounds are taken for numbers. targets: (rows, 2 T) or (2 T,)."""
        low, high = _ends(targets)
        return np.where(np.isnan(low), high, low)

    def measured(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        low, high = _ends(targets)
        return np.where(low == high, low, np.nan)

    def count_labels(self, target: Tensor) -> Tensor:
        known: Tensor = ~target.isnan()
        return (known[:, ::2] | known[:, 1::2]).sum()

    def scale(self, targets: Iterable[NDArray[np.float64]]) -> TargetScale | None:
        return super().scale(map(self.numbers, targets))

    def uninformed(self, targets: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the mean of each target, bounds taken for numbers."""
        return super().uninformed(map(self.numbers, targets))

    def loss_sum(self, prediction: Tensor, target: Tensor) -> Tensor:
        return self.losses(prediction, target).sum()

    def losses(self, prediction: Tensor, target: Tensor) -> Tensor:
        distance = nn.losses.distance_from(prediction.float(), target[:, ::2], target[:, 1::2])
        return distance if self.loss == "mae" else distance.square()

    def scores(self) -> Scores:
        return BoundScores()

    def true_columns(self, target: NDArray[Any]) -> Row:
        """Return the labels as texts, a bound with its sign. target: (2 T,)."""
        return {f"{name}_true": _text(*ends) for name, ends in zip(self.names, target.reshape(-1, 2), strict=True)}


def _ends(targets: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lowest and the highest numbers, each (rows, T). targets: (rows, 2 T) or (2 T,)."""
    pairs = np.atleast_2d(targets)
    return pairs[:, ::2], pairs[:, 1::2]


def _text(low: np.float64, high: np.float64) -> str:
    if np.isnan(low):
        return "" if np.isnan(high) else f"<{high:.15g}"
    return f">{low:.15g}" if np.isnan(high) else f"{low:.15g}"


@register
class Gaussian(TaskPart):
    """Numbers with a deviation (`NAME_std`), by the negative log-likelihood of a normal distribution.

        (log v + (y - m)^2 / v) / 2

    is its loss; the constant is left out. The outputs are m of all targets, then log v of all of them. `standardize` is
    as in regression.
    """

    kind: Literal["gaussian"] = "gaussian"
    standardize: bool = True

    @property
    def num_outputs(self) -> int:
        return 2 * len(self.names)

    @property
    def deciding_metric(self) -> str:
        return "mae"

    @property
    def higher_is_better(self) -> bool:
        return False

    def scale(self, targets: Iterable[NDArray[np.float64]]) -> TargetScale | None:
        return TargetScale.of(targets) if self.standardize else None

    def output_scale(self, scale: TargetScale) -> TargetScale:
        return TargetScale((*scale.mean, *(0.0 for _ in scale.mean)), (*scale.std, *scale.std))

    def uninformed(self, targets: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the mean of each target, and a variance of 1."""
        mean = mean_of_known(targets)
        return np.concatenate([mean, np.zeros_like(mean)])

    def loss_sum(self, prediction: Tensor, target: Tensor) -> Tensor:
        return nn.losses.gaussian(prediction, target)

    def scores(self) -> Scores:
        return MeanScores()

    def decode(self, prediction: Tensor) -> Tensor:
        return nn.losses.means_and_deviations(prediction)

    def encode(self, values: NDArray[Any]) -> NDArray[Any]:
        mean, std = np.split(values, 2, axis=1)
        return np.concatenate([mean, 2 * np.log(std)], axis=1)

    def centers_and_units(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        mean, std = np.split(values, 2, axis=1)
        return mean, std

    def columns(self, values: NDArray[np.float32]) -> Row:
        mean, std = np.split(values, 2)
        row: Row = {}
        for k, name in enumerate(self.names):
            row |= {name: number(mean[k]), f"{name}_std": number(std[k])}
        return row

    def spread_columns(self, values: NDArray[Any], std: NDArray[Any]) -> Row:
        """Return the deviation of a mixture: that between the models, and their own.

        A mixture of normal distributions has the variance mean(v) + var(m); `values` has the mean of the deviations,
        whose variance between the models is in `std`: mean(v) = mean(s)^2 + var(s), with the sample variance as an
        estimate.
        """
        own = np.split(values, 2)[1]
        total = np.sqrt(own**2 + (std**2).reshape(2, -1).sum(0))
        return {f"{name}_std": number(np.float32(value)) for name, value in zip(self.names, total, strict=True)}
