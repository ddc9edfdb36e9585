"""What every task offers: the loss to train on, the scores to report, and predictions in the user's terms.

A task is one class of settings with its behavior (`TaskPart`: `Regression`, `Binary`, `Multiclass` or one of a
plug-in); with a level and the scale of the training targets it is a `Task`, which training and prediction use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat

import egt.nn as nn
from egt.data.encodings.encoding import Encoding, ShortestPaths
from egt.errors import DataError
from egt.graph import Level
from egt.parts.tasks.scores import Scores, TargetScores
from egt.registry import Part, Registry, register

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from egt.config.run import RunConfig
    from egt.data.batching.batch import GraphBatch
    from egt.data.source import Source
    from egt.nn.channels import Channels


_ROUNDING = 1e-12  # labels that differ by a smaller share of the largest of them are the same number


@dataclass(frozen=True)
class TargetScale:
    """value = mean + std * standardized, for each target: (T,) means and deviations, never 0, of training labels."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, rows: Iterable[NDArray[np.float64]]) -> TargetScale:
        """Return the scale of training targets, each (T,) or (rows, T); missing labels are left out.

        A target without labels or without spread keeps a std of 1.
        """
        values = np.concatenate([np.atleast_2d(row) for row in rows])
        known = ~np.isnan(values)
        count = np.maximum(known.sum(0), 1)
        largest = np.abs(np.where(known, values, 0.0)).max(0, initial=0.0)
        unit = np.ldexp(1.0, np.frexp(largest)[1])  # a power of 2; squares of very small labels would be 0
        mean = np.where(known, values, 0.0).sum(0) / count
        spread = np.sqrt(np.square(np.where(known, (values - mean) / unit, 0.0)).sum(0) / count)
        std = np.where(spread > _ROUNDING, spread * unit, 1.0)
        return cls(tuple(mean.tolist()), tuple(std.tolist()))

    def tensors(self, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
        """Return mean and std, (T,) each."""
        return nn.losses.constant(self.mean, device), nn.losses.constant(self.std, device)

    def to_json(self) -> dict[str, list[float]]:
        """Return what `from_json` takes."""
        return {"mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def from_json(cls, content: Mapping[str, Sequence[float]] | None) -> TargetScale | None:
        """Return the scale that a checkpoint or an artifact keeps; None where targets are not standardized."""
        return None if content is None else cls(tuple(content["mean"]), tuple(content["std"]))


class Objective(Part):
    """A head on the edge channel with a loss of its own, added with `weight` (kappa)."""

    registry: ClassVar[Registry[type[Objective]]] = Registry("objective", __package__)
    default_kind: ClassVar[str] = "distance"
    weight: NonNegativeFloat

    @property
    def num_outputs(self) -> int:
        """Outputs of the head for each pair."""
        raise NotImplementedError(f"{type(self).__name__} does not say how wide its head is (property `num_outputs`)")

    def encodings(self) -> tuple[Encoding, ...]:
        """Return what is computed for each graph beforehand."""
        return ()

    def check(self, run: RunConfig) -> None:
        """Refuse a model without an edge channel to read, and a layout without all pairs."""
        if not run.model.updates_edges:
            raise ValueError(
                f"the {self.kind} objective reads the edge channel, which EGT-Simple (edges: frozen) does not update; "
                "drop task.auxiliary or use edges: residual"
            )
        if run.data.layout == "edge_list":
            raise ValueError(
                f"data.layout edge_list has no pairs except edges; drop task.auxiliary (the {self.kind} objective), "
                "or use the packed layout"
            )

    def prepared(self, batch: GraphBatch) -> GraphBatch:
        """Return a batch with what the loss needs and values decide (`GraphBatch.scored`), made on the host.

        A batch without it is right too; a loss that finds such things on a device makes the host wait.
        """
        return batch

    def loss(self, head: Callable[[Tensor], Tensor], x: Channels, batch: GraphBatch) -> Tensor:
        """Return the sum over the graphs times the weight; the caller divides it by their number.

        The head is the objective's own and takes rows of the edge channel; `x` are the final channels.
        """
        raise NotImplementedError(f"{type(self).__name__} has no loss (method `loss`)")


Names = Annotated[tuple[str, ...], Field(min_length=1)]

Row = dict[str, Any]

PLACES: Mapping[Level, tuple[str, ...]] = {"graph": (), "node": ("node",), "edge": ("source", "target")}
"""Columns of a table of predictions that say which node or edge a row is about."""

FAMILIARITY = "familiarity"  # the column that says how familiar a molecule is
REMARKS = ("warning", "error")  # columns behind the answers


def fixed_columns(level: Level) -> list[str]:
    """Return the columns that a table of predictions may have whatever is predicted."""
    places = PLACES[level]
    return ["graph" if places else "id", *places, *(f"{place}_name" for place in places), FAMILIARITY, *REMARKS]


class Piece(NamedTuple):
    """A task of one kind among those of a mixed table.

    Fields:
        targets: its places among the targets; of a mixed table, also among the outputs.
        labels: its columns of labels.
    """

    part: TaskPart
    targets: slice
    labels: slice

    def of_bounds(self, bounds: NDArray[Any]) -> NDArray[Any]:
        """(..., T, 2) intervals or (..., T, C) sets of its targets. bounds: of all, (..., targets, 2) if mixed."""
        own = bounds[..., self.targets, :]
        return own == 1 if self.part.has_classes else own


class TaskPart(Part):
    """Loss, metrics and decoding of one kind of target. Missing labels are NaN and count nowhere.

    A prediction has one row per graph, node or query pair, as the model gives it. `names` are those of the targets;
    `auxiliary` objectives are trained beside it.
    """

    registry: ClassVar[Registry[type[TaskPart]]] = Registry("task", __package__)
    answers: ClassVar[bool] = True
    """Whether the outputs are answers, with a baseline and intervals; a model that others start from has none."""
    names: Names
    auxiliary: tuple[Objective, ...] = ()

    @property
    def num_outputs(self) -> int:
        """Numbers per prediction."""
        return len(self.names)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The tasks of single kinds that this one joins, with their places; a single one by default."""
        return (Piece(self, slice(0, len(self.names)), slice(0, self.label_width)),)

    @property
    def label_width(self) -> int:
        """Columns of the targets: numbers or class ids have one each, labels that may be bounds two."""
        return len(self.names)

    @property
    def deciding_metric(self) -> str:
        """The name of the metric to show and to compare by, one of those in `Scores.compute`."""
        raise NotImplementedError(f"{type(self).__name__} does not name its metric (property `deciding_metric`)")

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger `deciding_metric` is better."""
        return True

    @property
    def positive_class(self) -> str:
        """The class that scores such as F1 are about, where they are about one of two; else ""."""
        return ""

    def check(self, run: RunConfig) -> None:
        for objective in self.auxiliary:
            objective.check(run)

    def named(self, names: tuple[str, ...], class_names: tuple[str, ...]) -> TaskPart:
        """Return the task with targets, and classes where it has them, called as in its data."""
        return self.model_copy(update={"names": names}) if len(names) == len(self.names) else self

    def fitted(self, targets: Iterable[NDArray[np.float64]]) -> TaskPart:
        """Return the task with settings that the training targets decide, each (T,) or (rows, T), filled in."""
        return self

    def scale(self, targets: Iterable[NDArray[np.float64]]) -> TargetScale | None:
        """Fit what the loss needs of the training targets, each (T,) or (rows, T); None takes them unchanged."""
        return None

    @property
    def has_classes(self) -> bool:
        """Whether answers are classes; otherwise they are numbers."""
        return self.class_probabilities(np.zeros((1, self.num_outputs), np.float32)) is not None

    def uninformed(self, targets: Iterable[NDArray[np.float64]]) -> NDArray[np.float64] | None:
        """Return the outputs (outputs,) that fit the training labels, (rows, T) each, best if all rows get the same.

        None where that is not known. They are as `scores` takes them.
        """
        return None

    def numbers(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """(rows, T) one number or class id for each label, NaN where it is missing. targets: (rows, label_width)."""
        return targets

    def measured(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """(rows, T) the same, NaN also where a label is only a bound. targets: (rows, label_width)."""
        return targets

    def count_labels(self, target: Tensor) -> Tensor:
        """() int64: the labels that are not missing. target: (rows, label_width)."""
        return (~target.isnan()).sum()

    def with_targets(self, source: Source) -> Source:
        """Return the data of a run with the targets that the task computes for itself; unchanged by default."""
        return source

    def posed(self, batch: GraphBatch) -> GraphBatch:
        """Return a batch as the model sees it, with its targets, in training and evaluation; unchanged by default."""
        return batch

    def targets(self, batch: GraphBatch, level: Level) -> Tensor:
        """(rows, label_width) the targets of a `posed` batch, row-aligned with the prediction; NaN where missing."""
        return targets(batch, level)

    def loss_sum(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Sum the loss over the labels that are not missing (NaN).

        prediction: (rows, outputs); target: (rows, label_width), scaled.
        """
        raise NotImplementedError(f"{type(self).__name__} has no loss (method `loss_sum`)")

    def losses(self, prediction: Tensor, target: Tensor) -> Tensor:
        """(rows, T) the loss of each label, 0 where it is missing, to be weighted. Arguments as in `loss_sum`."""
        raise NotImplementedError(f"{type(self).__name__} has no losses of single labels (method `losses`)")

    def scores(self) -> Scores:
        """Return a fresh accumulator of the metrics of a split; it is fed predictions in the unit of the targets."""
        raise NotImplementedError(f"{type(self).__name__} has no metrics (method `scores`)")

    def decode(self, prediction: Tensor) -> Tensor:
        """Return values in their unit, or probabilities. prediction: (rows, outputs). Returns the same shape."""
        return prediction.float()

    def encode(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return outputs that decode to these values. values: (rows, outputs), decoded. Returns the same shape."""
        return values

    def output_scale(self, scale: TargetScale) -> TargetScale:
        """Return the scale of each output, from that of the targets; by default each target has one output."""
        return scale

    def label_scale(self, scale: TargetScale) -> TargetScale:
        """Return the scale of each column of the targets, from that of the targets."""
        return scale

    def centers_and_units(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """(rows, T) the middle of the intervals of numbers, and the unit of their widths, which by default is 1.

        values: (rows, outputs), decoded.
        """
        return values, np.ones_like(values)

    def class_probabilities(self, values: NDArray[Any]) -> NDArray[np.float64] | None:
        """(rows, T, C) the probability of each class of each target; None where values are numbers.

        values: (rows, outputs), decoded.
        """
        return None

    def columns(self, values: NDArray[np.float32]) -> Row:
        """Return one answer by the names of its columns. values: (outputs,), decoded."""
        return {name: number(value) for name, value in zip(self.names, values, strict=True)}

    def true_columns(self, target: NDArray[Any]) -> Row:
        """Return the labels beside an answer, in the terms of `columns`. target: (label_width,), NaN where missing."""
        return {
            f"{name}_true": "" if np.isnan(value) else self.label(value)
            for name, value in zip(self.names, target, strict=True)
        }

    def spread_columns(self, values: NDArray[Any], std: NDArray[Any]) -> Row:
        """Return the deviation of each answer of an ensemble (`NAME_std`). values, std: (outputs,), decoded."""
        return {f"{name}_std": number(value) for name, value in zip(self.names, std, strict=True)}

    def bound_columns(self, bounds: NDArray[Any]) -> Row:
        """Return the interval or set of each answer (`NAME_low` and `NAME_high`, or `NAME_set`).

        bounds: (T, 2) the lowest and highest number, or (T, C) whether a class is in the set.
        """
        row: Row = {}
        for name, bound in zip(self.names, bounds, strict=True):
            if bounds.dtype == bool:
                row[f"{name}_set"] = "|".join(str(self.label(k)) for k in np.flatnonzero(bound))
            else:
                row |= {f"{name}_{end}": number(np.float32(x)) for end, x in zip(("low", "high"), bound, strict=True)}
        return row

    def label(self, value: Any) -> Any:
        """Return a label in the user's terms: the number or, where there are classes, the name of one."""
        return number(value)


class Task:
    """The task of a run: its settings and behavior, whose targets are predicted, and the scale of these.

    The scale is None where the task takes the targets unchanged.
    """

    def __init__(self, part: TaskPart, level: Level, scale: TargetScale | None = None) -> None:
        self.part, self.level, self.scale = part, level, scale

    def prepared(self, batch: GraphBatch) -> GraphBatch:
        """Return a batch with what its objectives make on the host (`Objective.prepared`)."""
        for objective in self.part.auxiliary:
            batch = objective.prepared(batch)
        return batch

    def loss(self, prediction: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Return `loss_sum` and the number of labels: parts of a batch add up before the division."""
        return self.loss_sum(prediction, batch), self.count_labels(batch)

    def targets(self, batch: GraphBatch) -> Tensor:
        """(rows, label_width) the targets of a batch (`TaskPart.targets`)."""
        return self.part.targets(batch, self.level)

    def count_labels(self, batch: GraphBatch) -> Tensor:
        """() int64: the targets that are not missing."""
        return self.part.count_labels(self.targets(batch))

    def loss_sum(self, prediction: Tensor, batch: GraphBatch) -> Tensor:
        """Return the loss summed over the labels of a batch. prediction: (rows, outputs)."""
        target = self.targets(batch)
        if self.scale is not None:
            mean, std = self.part.label_scale(self.scale).tensors(target.device)
            target = (target - mean) / std
        return self.part.loss_sum(prediction, target)

    def scores(self) -> Scores:
        """Return a fresh accumulator of the metrics of a split, fed with predictions as the model gives them."""
        scores = self.part.scores()
        return scores if self.scale is None else Rescaled(scores, self.part.output_scale(self.scale))

    def decode(self, prediction: Tensor) -> Tensor:
        """Return values in their unit, or probabilities. prediction: (rows, outputs). Returns the same shape."""
        decoded = self.part.decode(prediction)
        if self.scale is None:
            return decoded
        mean, std = self.part.output_scale(self.scale).tensors(decoded.device)
        return mean + std * decoded

    def encode(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return outputs that decode to these values. values: (rows, outputs). Returns the same shape."""
        if self.scale is not None:
            scale = self.part.output_scale(self.scale)
            values = (values - np.array(scale.mean)) / np.array(scale.std)
        return self.part.encode(values)


class Rescaled:
    """Metrics of predictions on standardized targets, which are turned into the unit of the targets first."""

    def __init__(self, scores: Scores, scale: TargetScale) -> None:
        self.scores = scores
        self.mean, self.std = (values.double() for values in scale.tensors())

    def update(self, prediction: Tensor, target: Tensor) -> None:
        self.scores.update(self.mean + self.std * prediction.detach().cpu().double(), target)

    def absorb(self, other: Self) -> None:
        self.scores.absorb(other.scores)

    def compute(self) -> dict[str, float]:
        return self.scores.compute()

    def by_target(self) -> list[dict[str, float]]:
        return self.scores.by_target() if isinstance(self.scores, TargetScores) else []


def targets(batch: GraphBatch, level: Level) -> Tensor:
    """(rows, T) the targets of the level that is predicted, row-aligned with the prediction."""
    found: Tensor | None = getattr(batch, f"{level}_targets")
    if found is None:
        raise DataError(
            f"the graphs of this batch have no {level}_targets; the model predicts one value per {level}, "
            "so training and evaluation need them (NaN where a label is missing)"
        )
    return found


def mean_of_known(targets: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """(T,) the means of labels, NaN where there are none. targets: each (rows, T), NaN where one is missing."""
    total, count = np.zeros(1), np.zeros(1)
    for rows in targets:
        total, count = total + np.nansum(rows, axis=0), count + (~np.isnan(rows)).sum(0)
    mean: NDArray[np.float64] = total / np.where(count > 0, count, np.nan)
    return mean


def number(value: np.float32) -> float:
    """Return the shortest decimal that is the same float32."""
    return float(str(value))


@register
class DistanceObjective(Objective):
    """Auxiliary task: hop distances up to `max_hops` (nu) from the edge channel (`egt.nn.losses.distance_loss`)."""

    kind: Literal["distance"] = "distance"
    max_hops: Annotated[int, Field(ge=1, le=64)] = 3

    @property
    def num_outputs(self) -> int:
        return self.max_hops + 1

    def encodings(self) -> tuple[Encoding, ...]:
        return (ShortestPaths(self.max_hops),)

    def prepared(self, batch: GraphBatch) -> GraphBatch:
        return replace(batch, scored={**batch.scored, self.kind: nn.losses.scored_pairs(batch, self.max_hops)})

    def loss(self, head: Callable[[Tensor], Tensor], x: Channels, batch: GraphBatch) -> Tensor:
        return self.weight * nn.losses.distance_loss(head, x.e, batch, self.max_hops, x.layout.num_virtual)
