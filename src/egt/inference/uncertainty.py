"""Split conformal prediction: intervals and sets that hold the truth as often as they promise.

A score says how far a label is from its prediction: |y - prediction| / unit of a number, 1 - p(label) of a class. The
unit is 1, or the deviation that the model predicts. Of n scores of rows that it was not fitted to, take the k-th
smallest,

    q = s_(k),  k = ceil((n + 1) coverage).

A new row that is exchangeable with them has a score of at most q with a chance of at least `coverage`, whatever the
model is. So prediction +- q unit, and the set of classes with 1 - p <= q, hold its label as often.

Temperature scaling: the logits of probabilities that are too sure, or not sure enough, are divided by one number.

    p' = softmax(log p / temperature)

The order of the classes stays the same. The temperature is the one that makes validation labels most likely; their mean
negative log-likelihood is convex in 1 / temperature, so that a search between two ends finds it.

`Spread`: the mean and the deviation of several answers to one question, added up one after another.

    n = n_a + n_b,  m = m_a + (m_b - m_a) n_b / n,  S = S_a + S_b + (m_b - m_a)^2 n_a n_b / n

with S the sum of squared distances from the mean: nothing is subtracted from itself, and no answer has to be kept.

Widening: errors grow with the distance from the training molecules, 1 - familiarity, in some tables and not in others.
The unit of a number is therefore multiplied by

    1 + c (1 - familiarity),

with the c that makes the scores most likely if they are distributed as Laplace says: least mean of log unit + log of
the mean score. 0 is among the choices.

`Calibration`: what held-out labels of a model say about its errors, as an artifact keeps it; and how often the
intervals and sets that it gives hold other labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, FiniteFloat, NonNegativeInt, ValidationError, model_validator

from egt.errors import ArtifactError, DataError
from egt.parts.tasks.task import Piece, TaskPart

MOST_KEPT = 1_000  # scores kept per group: more of them would only refine coverages beyond three digits
_IMBALANCE = 2.0
"""How many times more frequent the largest class may be than the smallest before each has scores of its own."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """The scores of the labels of one group: a target, or a class of a target.

    Fields:
        ranked: (m,) in ascending order; of more than `MOST_KEPT` labels, scores at equal distances in rank.
        count: n, how many labels they stand for.
    """

    ranked: tuple[float, ...]
    count: int

    @classmethod
    def of(cls, values: Floats) -> Scores:
        """Rank the scores of a group. values: (n,)."""
        count = len(values)
        kept = min(count, MOST_KEPT)
        places = -(-np.arange(1, kept + 1) * count // max(kept, 1)) - 1  # ceil(j n / m) - 1
        return cls(tuple(np.sort(values)[places].tolist()), count)

    def quantile(self, coverage: float) -> float:
        """Return q; infinite where there are too few labels for such a coverage."""
        rank = math.ceil(round((self.count + 1) * coverage, 9))
        if rank > self.count:
            return math.inf
        return self.ranked[-(-rank * len(self.ranked) // self.count) - 1]  # the first one kept from this rank on


def labels_needed(coverage: float) -> int:
    """Return the least n with a finite quantile: ceil((n + 1) coverage) <= n."""
    return math.ceil(round(coverage / (1 - coverage), 6))


def class_scores(probabilities: Floats, truth: Floats) -> list[list[Scores]]:
    """Return the scores 1 - p(label) of each target: of all its labels, or of each class where some are rare.

    Rare classes would hardly count among all labels: a set could leave them out every time and keep its promise. Groups
    by class keep it for the rows of each. From probabilities (rows, T, C) and labels (rows, T), NaN where one is
    missing.
    """
    num_classes = probabilities.shape[2]
    found = []
    for target in range(truth.shape[1]):
        known = np.flatnonzero(~np.isnan(truth[:, target]))
        labels = truth[known, target].astype(np.int64)
        scores = 1 - probabilities[known, target, labels]
        counts = np.bincount(labels, minlength=num_classes)
        groups = [labels == label for label in range(num_classes)]
        if counts.max() <= _IMBALANCE * counts.min():
            groups = [np.ones(len(known), dtype=bool)]
        found.append([Scores.of(scores[group]) for group in groups])
    return found


def holds(bounds: NDArray[np.bool_] | Floats, truth: Floats) -> Floats:
    """(rows, T) 1 where a set (rows, T, C) or interval (rows, T, 2) holds the label, 0 where not, NaN without one."""
    if bounds.dtype == bool:
        labels = np.nan_to_num(truth).astype(np.int64)
        inside = np.take_along_axis(bounds, labels[..., None], axis=2)[..., 0]
    else:
        inside = (bounds[..., 0] <= truth) & (truth <= bounds[..., 1])
    return np.where(np.isnan(truth), np.nan, inside)


def sizes(bounds: NDArray[np.bool_] | Floats) -> Floats:
    """(rows, T) the widths of intervals, or the numbers of classes in sets."""
    return bounds.sum(2).astype(np.float64) if bounds.dtype == bool else bounds[..., 1] - bounds[..., 0]


_WIDENINGS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_LEAST_TO_WIDEN = 30  # fewer labels say too little about where errors are large


def fit_widening(errors: Floats, distance: Floats) -> float:
    """Return the c of the module's text: (n,) errors in their unit, and how far their molecules are from training."""
    known = ~np.isnan(errors)
    errors, distance = errors[known], distance[known]
    if len(errors) < _LEAST_TO_WIDEN or not errors.any():
        return 0.0

    def loss(c: float) -> float:
        unit = 1 + c * distance
        return float(np.log(unit).mean() + np.log((errors / unit).mean()))

    return min(_WIDENINGS, key=loss)


COVERAGE = 0.9  # of the intervals and sets that a report describes
_FEW_GRAPHS = 30  # of fewer graphs, the labels of nodes or edges say little about other graphs
_COLDEST, _WARMEST = 0.1, 10.0  # temperatures; labels without a single error would ask for 0
_LEAST = 1e-30
_GOLDEN = (np.sqrt(5) - 1) / 2


def warm(probabilities: Floats, temperature: float) -> Floats:
    """(rows, C) probabilities at a temperature. probabilities: (rows, C)."""
    logits = np.log(np.maximum(probabilities, _LEAST)) / temperature
    powers = np.exp(logits - logits.max(1, keepdims=True))
    found: Floats = powers / powers.sum(1, keepdims=True)
    return found


def fit_temperature(probabilities: Floats, labels: NDArray[np.int64]) -> float:
    """Return the temperature of probabilities (rows, C) that makes the labels (rows,) most likely; 1 without any."""
    if not len(labels):
        return 1.0
    low, high = 1 / _WARMEST, 1 / _COLDEST  # of 1 / temperature
    for _ in range(60):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if surprise(warm(probabilities, 1 / left), labels) < surprise(warm(probabilities, 1 / right), labels):
            high = right
        else:
            low = left
    return float(2 / (low + high))


def surprise(probabilities: Floats, labels: NDArray[np.int64]) -> float:
    """Return the mean negative log-likelihood of labels. Arguments as in `fit_temperature`."""
    chosen = probabilities[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(chosen, _LEAST)).mean())


@dataclass(frozen=True, eq=False)
class Spread:
    """What is known of answers: of several models, or of random draws of one.

    Fields:
        count: n, how many answers.
        mean: (...) m of each number.
        squares: (...) S of each number.
    """

    count: int
    mean: Floats
    squares: Floats

    @classmethod
    def of(cls, mean: NDArray[Any], std: NDArray[Any] | None = None, count: int = 1) -> Spread:
        """Return the spread of `count` answers with this mean and sample deviation; a single answer has none."""
        squares = np.zeros(mean.shape) if std is None else std.astype(np.float64) ** 2 * (count - 1)
        return cls(count, mean.astype(np.float64), squares)

    def __add__(self, other: Spread) -> Spread:
        """Return the spread of the answers of both."""
        count, distance = self.count + other.count, other.mean - self.mean
        mean = self.mean + distance * (other.count / count)
        squares = self.squares + other.squares + distance**2 * (self.count * other.count / count)
        return Spread(count, mean, squares)

    @property
    def std(self) -> Floats:
        """(...) the sample deviation, of at least two answers."""
        found: Floats = np.sqrt(self.squares / (self.count - 1))
        return found


Bounds = NDArray[np.bool_] | Floats

Kind = Literal["interval", "set", "mixed"]


@dataclass(frozen=True)
class Calibration:
    """Scores and temperatures for each target.

    Fields:
        kind: "interval" for numbers, "set" for classes, "mixed" for a table of both.
        scores: for each target one group, or one for each of its classes.
        temperatures: of each target's probabilities; empty for numbers, and 1 for those of a mixed table.
        transductive: the labels are of nodes or edges of the graph that the model was trained on, so that it promises
            something about the other nodes or edges of that graph, and nothing about other graphs.
        folds: how many models the scores come from, each on rows that it was not trained on; 0 for validation labels.
        num_graphs: how many graphs have the labels, where these are of nodes or edges; 0 where a label is a graph's.
        widening: c of each target, 0 for classes; empty where intervals do not follow the familiarity of molecules.
    """

    kind: Kind
    scores: list[list[Scores]]
    temperatures: tuple[float, ...] = ()
    transductive: bool = False
    folds: int = 0
    num_graphs: int = 0
    widening: tuple[float, ...] = ()

    def factors(self, familiarity: Floats | None) -> Floats | float:
        """(rows, T) how many times wider intervals are than those of training molecules. familiarity: (rows,)."""
        if familiarity is None or not self.widening:
            return 1.0
        found: Floats = 1 + np.multiply.outer(1 - familiarity, np.array(self.widening))
        return found

    @classmethod
    def of_numbers(cls, values: Floats, truth: Floats, unit: Floats | float = 1.0, **about: Any) -> Calibration:
        """Calibrate intervals. values, truth, unit: (rows, T), NaN where a label is missing; `about`: other fields."""
        scores = np.abs(truth - values) / unit
        return cls("interval", [[Scores.of(column[~np.isnan(column)])] for column in scores.T], **about)

    @classmethod
    def of_classes(cls, values: Floats, truth: Floats, **about: Any) -> Calibration:
        """Calibrate sets and temperatures. values: (rows, T, C) probabilities; truth: (rows, T), NaN where missing."""
        known = [~np.isnan(column) for column in truth.T]
        temperatures = tuple(
            fit_temperature(values[rows, target], truth[rows, target].astype(np.int64))
            for target, rows in enumerate(known)
        )
        return cls("set", class_scores(values, truth), temperatures, **about)

    def bounds(self, values: Floats, coverage: float, unit: Floats | float = 1.0) -> Bounds:
        """(rows, T, 2) intervals or (rows, T, C) sets that hold the truth with this chance.

        Args:
            values: (rows, T) numbers, or (rows, T, C) probabilities before any temperature.
            coverage: the chance.
            unit: (rows, T) of each number, as when it was calibrated.

        Raises:
            DataError: a coverage that is not between 0 and 1.
        """
        if not 0 < coverage < 1:
            raise DataError(
                f"the interval is {coverage:g}; give the chance to hold the truth, such as 0.9 (between 0 and 1)"
            )
        if self.kind == "set":
            inside: Bounds = 1 - values <= self._quantiles(coverage, values.shape[2])
            return inside
        width = self._quantiles(coverage, 1)[:, 0] * unit
        return np.stack([values - width, values + width], axis=2)

    def _quantiles(self, coverage: float, width: int) -> Floats:
        """(T, width) q of each target, and of each of its classes where they have their own."""
        quantiles = [[each.quantile(coverage) for each in groups] for groups in self.scores]
        return np.stack([np.broadcast_to(each, (width,)) for each in quantiles])

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Return what `from_json` takes. names: of the targets."""
        targets: list[dict[str, Any]] = [
            {"name": name, "groups": [{"count": each.count, "scores": list(each.ranked)} for each in groups]}
            for name, groups in zip(names, self.scores, strict=True)
        ]
        for target, temperature in zip(targets, self.temperatures, strict=bool(self.temperatures)):
            target["temperature"] = temperature
        for target, widening in zip(targets, self.widening, strict=bool(self.widening)):
            target["widening"] = widening
        about = {"format": 1, "kind": self.kind, "transductive": self.transductive, "folds": self.folds}
        return {**about, "num_graphs": self.num_graphs, "targets": targets}

    @classmethod
    def from_json(cls, text: str | bytes, where: str) -> Calibration:
        """Read the JSON text of `to_json`.

        Raises:
            ArtifactError: it is no calibration.
        """
        try:
            found = _File.model_validate_json(text, strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
            raise ArtifactError(f"{where}: is not a calibration ({reason}); make the artifact again") from error
        scores = [[Scores(group.scores, group.count) for group in target.groups] for target in found.targets]
        warm = tuple(target.temperature for target in found.targets if target.temperature is not None)
        wide = tuple(target.widening for target in found.targets)
        wide = wide if any(wide) else ()
        return cls(found.kind, scores, warm, found.transductive, found.folds, found.num_graphs, wide)

    def of(self, piece: Piece) -> Calibration:
        """Return the calibration of one kind of targets; all of it where there is no other kind."""
        if self.kind != "mixed":
            return self
        kind: Kind = "set" if piece.part.has_classes else "interval"
        temperatures = self.temperatures[piece.targets] if kind == "set" else ()
        scores, widening = self.scores[piece.targets], self.widening[piece.targets]
        return replace(self, kind=kind, scores=scores, temperatures=temperatures, widening=widening)

    def check_fits(self, part: TaskPart, where: str) -> None:
        """Raise an `ArtifactError` for a calibration of another task."""
        fits = len(self.scores) == len(part.names) and (self.kind == "mixed") == (_kind_of(part) == "mixed")
        fits &= self.kind != "mixed" or len(self.temperatures) == len(part.names)
        if not fits or not all(self.of(piece)._fits(piece.part) for piece in part.pieces):
            raise ArtifactError(f"{where}: is the calibration of another task; make the artifact again")

    def _fits(self, part: TaskPart) -> bool:
        classes = part.class_probabilities(np.zeros((1, part.num_outputs)))
        kind, widths = ("interval", {1}) if classes is None else ("set", {1, classes.shape[2]})
        groups = {len(groups) for groups in self.scores}
        temperatures = len(self.scores) if kind == "set" else 0
        return self.kind == kind and groups <= widths and len(self.temperatures) == temperatures


def _kind_of(part: TaskPart) -> Kind:
    kinds = {piece.part.has_classes for piece in part.pieces}
    return "mixed" if len(kinds) > 1 else "set" if True in kinds else "interval"


class _Group(BaseModel):
    count: NonNegativeInt
    scores: tuple[FiniteFloat, ...]

    @model_validator(mode="after")
    def _check_scores(self) -> Self:
        if list(self.scores) != sorted(self.scores) or not bool(self.count) <= len(self.scores) <= self.count:
            raise ValueError("scores must be in ascending order, at most as many as labels")
        return self


class _Target(BaseModel):
    groups: tuple[_Group, ...]
    temperature: Annotated[FiniteFloat, Field(gt=0)] | None = None
    widening: Annotated[FiniteFloat, Field(ge=0)] = 0.0


class _File(BaseModel):
    """The content of a calibration's file."""

    format: Literal[1]
    kind: Kind
    transductive: bool
    folds: NonNegativeInt
    num_graphs: NonNegativeInt = 0
    targets: tuple[_Target, ...]


def calibrate(
    part: TaskPart, values: Floats, truth: Floats, familiarity: Floats | None = None, **about: Any
) -> Calibration | None:
    """Return what labels say about the errors of a model that was not trained on them; None where nothing can be said.

    Args:
        part: the task.
        values: (rows, outputs) decoded answers.
        truth: (rows, label_width) labels, NaN where one is missing; bounds do not count.
        familiarity: (rows,) of molecules, which intervals may follow; None for other graphs.
        about: fields of `Calibration`.
    """
    truth = part.measured(truth)
    if np.isnan(truth).all() or not np.isfinite(values).all():
        return None
    if len(part.pieces) == 1:
        return _calibrate(part.pieces[0].part, values, truth, familiarity, **about)
    found = [
        _calibrate(piece.part, values[:, piece.targets], truth[:, piece.targets], familiarity, **about)
        for piece in part.pieces
    ]
    each = [one for one in found if one is not None]
    kind, scores = _kind_of(part), [groups for one in each for groups in one.scores]
    ones = [one.temperatures or (1.0,) * len(one.scores) for one in each]
    temperatures = tuple(x for one in ones for x in one) if kind != "interval" else ()
    wide = tuple(x for one in each for x in one.widening or (0.0,) * len(one.scores))
    return Calibration(kind, scores, temperatures, **about, widening=wide if any(wide) else ())


def _calibrate(
    part: TaskPart, values: Floats, truth: Floats, familiarity: Floats | None, **about: Any
) -> Calibration | None:
    """Calibrate targets of one kind. truth: (rows, T), NaN where a label is missing."""
    classes = part.class_probabilities(values)
    if classes is not None:
        return Calibration.of_classes(classes, truth, **about)
    centers, units = part.centers_and_units(values)
    if centers.shape != truth.shape:
        return None
    if familiarity is None:
        return Calibration.of_numbers(centers, truth, units, **about)
    errors = np.abs(truth - centers) / units
    widening = tuple(fit_widening(column, 1 - familiarity) for column in errors.T)
    units = units * (1 + np.multiply.outer(1 - familiarity, np.array(widening)))
    return Calibration.of_numbers(centers, truth, units, **about, widening=widening if any(widening) else ())


def bounds_of(
    part: TaskPart,
    calibration: Calibration,
    values: NDArray[Any],
    coverage: float = COVERAGE,
    familiarity: Floats | None = None,
) -> Bounds:
    """(rows, T, 2) intervals or (rows, T, C) sets; of both, (rows, T, 2) with 1 for a class in a set and 0 for others.

    Args:
        part: the task.
        calibration: of the model.
        values: (rows, outputs) decoded answers.
        coverage: the chance to hold the truth.
        familiarity: (rows,) of molecules.
    """
    found = []
    for piece in part.pieces:
        own, answers = calibration.of(piece), values.astype(np.float64)
        answers = answers if len(part.pieces) == 1 else answers[:, piece.targets]
        classes = piece.part.class_probabilities(answers)
        if classes is not None:
            found.append(own.bounds(classes, coverage))
        else:
            centers, units = piece.part.centers_and_units(answers)
            found.append(own.bounds(centers, coverage, units * own.factors(familiarity)))
    if len(found) == 1:
        return found[0]
    joined: Floats = np.concatenate(found, axis=1)  # sets as numbers
    return joined


def measure_coverage(
    part: TaskPart, calibration: Calibration, values: Floats, truth: Floats, familiarity: Floats | None = None
) -> dict[str, Any]:
    """Return how often intervals or sets hold labels, and how large they are, for each target."""
    bounds = bounds_of(part, calibration, values, familiarity=familiarity)
    return describe_bounds(part, bounds, truth, calibration)


def describe_bounds(part: TaskPart, bounds: Bounds, truth: Floats, calibration: Calibration) -> dict[str, Any]:
    """Return what `measure_coverage` does, of intervals or sets that are there."""
    truth, targets = part.measured(truth), {}
    for piece in part.pieces:
        own, known = piece.of_bounds(bounds), truth[:, piece.targets]
        for name, inside, large, labels in zip(
            piece.part.names, holds(own, known).T, sizes(own).T, known.T, strict=True
        ):
            rows = ~np.isnan(labels)
            if rows.any():
                mean = float(large[rows].mean())
                targets[name] = {
                    "kind": calibration.of(piece).kind,
                    "coverage": float(inside[rows].mean()),
                    "size": mean if np.isfinite(mean) else None,
                    "num_labels": int(rows.sum()),
                }
    about = {"asked": COVERAGE, "kind": calibration.kind, "transductive": calibration.transductive}
    return {**about, "targets": targets, "doubts": doubts(part, calibration, COVERAGE)}


def doubts(part: TaskPart, calibration: Calibration, coverage: float) -> list[str]:
    """Return what a calibration cannot promise at a coverage, each in a sentence; empty where nothing is missing."""
    found, needed = list[str](), labels_needed(coverage)
    pieces = [(piece.part, calibration.of(piece)) for piece in part.pieces]
    named = [
        (name, one, own.kind, groups) for one, own in pieces for name, groups in zip(one.names, own.scores, strict=True)
    ]
    for name, one, kind, groups in named:
        few = [k for k, each in enumerate(groups) if each.count < needed]
        if not few:
            continue
        which = "all classes" if len(groups) == 1 else ", ".join(str(one.label(k)) for k in few)
        how = "are infinite" if kind == "interval" else f"always hold {which}"
        each_class = " of each class" if len(groups) > 1 else ""
        found.append(
            f"{name}: {kind}s of {100 * coverage:.6g}% {how}: they need {needed} held-out labels{each_class} to "
            f"calibrate on, and there are {min(groups[k].count for k in few)}"
        )
    graphs = calibration.num_graphs
    if 0 < graphs < _FEW_GRAPHS and not calibration.transductive:
        kinds = " and ".join(dict.fromkeys(f"{own.kind}s" for _, own in pieces))
        found.append(
            f"{kinds} rest on the nodes or edges of {graphs} graph{'s' if graphs > 1 else ''}, which err together "
            "within a graph: the promise is rougher than so many labels suggest"
        )
    return found
