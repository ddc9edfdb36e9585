"""Classification: yes or no for each of one or many labels, or one of several classes. Labels may be missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator

import egt.nn as nn
from egt.errors import ConfigError
from egt.parts.tasks.scores import ClassScores, RankingScores
from egt.parts.tasks.task import Row, TaskPart, mean_of_known, number
from egt.registry import register

if TYPE_CHECKING:
    from torch import Tensor

    from egt.parts.tasks.scores import Scores

Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]  # how much a class counts in the loss


def balanced(labels: NDArray[np.float64], num_classes: int) -> tuple[float, ...]:
    """Return w_c = n / (k n_c) for n labels of k classes, n_c of class c: every class counts as much in all.

    A class without labels has the weight 1, and is none of the k. labels: (n,) class ids, NaN where one is missing.
    """
    known = labels[~np.isnan(labels)].astype(np.int64)
    counts = np.bincount(known, minlength=num_classes)
    present = max(int((counts > 0).sum()), 1)
    weights = np.where(counts > 0, len(known) / (present * np.maximum(counts, 1)), 1.0)
    return tuple(weights.tolist())


def _unfitted() -> ConfigError:
    return ConfigError(
        "task.class_weights is 'balanced', whose numbers come from training graphs: train with egt.train, or fill them "
        "in with task.fitted(targets)"
    )


_CLASS_NAMES = ("0", "1")

_Pair = tuple[Weight, Weight]

_LEAST = 1e-9  # probabilities of a float32 that has rounded to 0 or 1 still have a logit


@register
class Binary(TaskPart):
    """Yes or no for each of one or many labels, some of which may be missing; also whether a query pair is linked.

    The loss is the cross-entropy of each label on its logit; `metric` scores and is averaged over the labels;
    `class_names` are what the data calls no and yes: `f1` and `average_precision` are about the second one.
    `class_weights` are the weights of no and yes in the loss, [1, 5],
    or such a pair for each label, or "balanced": as training labels say, and the run keeps the numbers.
    """

    kind: Literal["binary"] = "binary"
    metric: Literal["roc_auc", "average_precision"] = "roc_auc"
    class_names: Annotated[tuple[str, ...], Field(min_length=2, max_length=2)] = _CLASS_NAMES
    class_weights: Literal["balanced"] | _Pair | tuple[_Pair, ...] | None = None

    @model_validator(mode="after")
    def _check_weights(self) -> Binary:
        if not isinstance(self.class_weights, tuple) or isinstance(self.class_weights[0], float):
            return self
        if len(self.class_weights) != len(self.names):
            raise ValueError(f"class_weights has {len(self.class_weights)} pairs for {len(self.names)} labels")
        return self

    @property
    def deciding_metric(self) -> str:
        return self.metric

    @property
    def positive_class(self) -> str:
        return self.class_names[1]

    def named(self, names: tuple[str, ...], class_names: tuple[str, ...]) -> Binary:
        classes = class_names if len(class_names) == 2 else self.class_names
        names = names if len(names) == len(self.names) else self.names
        return self.model_copy(update={"names": names, "class_names": classes})

    def fitted(self, targets: Iterable[NDArray[np.float64]]) -> Binary:
        if self.class_weights != "balanced":
            return self
        labels = np.concatenate([np.atleast_2d(rows) for rows in targets])
        return self.model_copy(update={"class_weights": tuple(balanced(column, 2) for column in labels.T)})

    def uninformed(self, targets: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the logit of how often each label is yes."""
        return self.encode(mean_of_known(targets))

    def loss_sum(self, prediction: Tensor, target: Tensor) -> Tensor:
        if self.class_weights is None:
            return nn.losses.binary_entropy(prediction, target)
        if self.class_weights == "balanced":
            raise _unfitted()
        pairs = np.broadcast_to(np.array(self.class_weights), (target.shape[1], 2))
        no, yes = (nn.losses.constant(tuple(side.tolist()), target.device) for side in pairs.T)
        return nn.losses.binary_entropy(prediction, target, no, yes)

    def losses(self, prediction: Tensor, target: Tensor) -> Tensor:
        return nn.losses.each_known(nn.losses.surprise, prediction.float(), target)

    def scores(self) -> Scores:
        return RankingScores()

    def decode(self, prediction: Tensor) -> Tensor:
        return prediction.float().sigmoid()

    def encode(self, values: NDArray[Any]) -> NDArray[Any]:
        p = np.clip(values.astype(np.float64), _LEAST, 1 - _LEAST)
        return np.log(p / (1 - p))

    def class_probabilities(self, values: NDArray[Any]) -> NDArray[np.float64]:
        yes = values.astype(np.float64)
        return np.stack([1 - yes, yes], axis=2)

    def label(self, value: float) -> str:
        return self.class_names[int(value)]

    def columns(self, values: NDArray[np.float32]) -> Row:
        """Return the class of each label, and its probabilities, named by class.

        Labels 0 and 1 have one, `NAME_probability`, that of 1. Other classes have no order that a reader could know:
        each has its own, `NAME_CLASS_probability`.
        """
        row: Row = {}
        for name, p in zip(self.names, values, strict=True):
            row[name] = self.class_names[int(p >= 0.5)]
            if self.class_names == _CLASS_NAMES:
                row[f"{name}_probability"] = number(p)
                continue
            for label, share in zip(self.class_names, (1 - p, p), strict=True):
                row[f"{name}_{label}_probability"] = number(share)
        return row


@register
class Multiclass(TaskPart):
    """One of `num_classes` classes, by softmax cross-entropy.

    `class_names` are what the data calls them; `metric` is the one to show and to select by; `f1` is
    that of the second of two classes, and of more the mean over classes. `class_weights` are one
    weight for each class, or "balanced": rare classes weigh more, as training labels say, and the run keeps the
    numbers. `class_counts` turn into the paper's fixed weights. Metrics are not weighted.
    The weighted sum is divided by the number of labels, missing ones and padding left out. DISCREPANCY: the
    TensorFlow code divides by the number of all positions, padding included; with Adam the scale hardly matters.
    """

    kind: Literal["multiclass"] = "multiclass"
    names: Annotated[tuple[str, ...], Field(min_length=1, max_length=1)] = ("class",)
    num_classes: Annotated[int, Field(ge=2)]
    class_names: tuple[str, ...] = ()
    class_counts: tuple[PositiveInt, ...] | None = None
    class_weights: Literal["balanced"] | tuple[Weight, ...] | None = None
    metric: Literal["accuracy", "weighted_accuracy", "balanced_accuracy", "f1", "mcc"] = "accuracy"

    @property
    def num_outputs(self) -> int:
        return self.num_classes

    @property
    def deciding_metric(self) -> str:
        return self.metric

    @property
    def positive_class(self) -> str:
        return self.label(1) if self.num_classes == 2 else ""

    @property
    def loss_weights(self) -> tuple[float, ...] | None:
        """The given weights, or w_c = (T - n_c) / sum_k (T - n_k) of counts, T the number of all; None for none."""
        if self.class_weights == "balanced":
            raise _unfitted()
        if self.class_counts is None:
            return self.class_weights
        total = sum(self.class_counts)
        others = [total - count for count in self.class_counts]
        return tuple(other / sum(others) for other in others)

    @model_validator(mode="after")
    def _check_consistency(self) -> Multiclass:
        for name in ("class_counts", "class_names", "class_weights"):
            given = getattr(self, name)
            if given and given != "balanced" and len(given) != self.num_classes:
                raise ValueError(f"{name} has {len(given)} entries for {self.num_classes} classes")
        if self.class_counts is not None and self.class_weights is not None:
            raise ValueError("class_counts and class_weights both weigh the classes; set one of them to null")
        return self

    def named(self, names: tuple[str, ...], class_names: tuple[str, ...]) -> Multiclass:
        classes = class_names if len(class_names) == self.num_classes else self.class_names
        names = names if len(names) == 1 else self.names
        return self.model_copy(update={"names": names, "class_names": classes})

    def fitted(self, targets: Iterable[NDArray[np.float64]]) -> Multiclass:
        if self.class_weights != "balanced":
            return self
        labels = np.concatenate([np.atleast_2d(rows) for rows in targets])[:, 0]
        return self.model_copy(update={"class_weights": balanced(labels, self.num_classes)})

    def uninformed(self, targets: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
        counts = np.zeros(self.num_classes)
        for rows in targets:
            counts += np.bincount(rows[~np.isnan(rows)].astype(np.int64), minlength=self.num_classes)
        return counts

    def loss_sum(self, prediction: Tensor, target: Tensor) -> Tensor:
        weights = self.loss_weights
        weight = None if weights is None else nn.losses.constant(weights, prediction.device)
        return nn.losses.entropy(prediction, target[:, 0], weight)

    def scores(self) -> Scores:
        recall = self.metric if self.metric == "weighted_accuracy" else "balanced_accuracy"
        return ClassScores(self.num_classes, recall)

    def decode(self, prediction: Tensor) -> Tensor:
        return prediction.float().softmax(-1)

    def encode(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.log(np.maximum(values.astype(np.float64), np.finfo(np.float32).tiny))

    def class_probabilities(self, values: NDArray[Any]) -> NDArray[np.float64]:
        return values.astype(np.float64)[:, None]

    def spread_columns(self, values: NDArray[Any], std: NDArray[Any]) -> Row:
        """Return the deviation of the probability of the class that is answered."""
        return {f"{self.names[0]}_std": number(std[values.argmax()])}

    def label(self, value: float) -> str:
        return self.class_names[int(value)] if self.class_names else str(int(value))

    def columns(self, values: NDArray[np.float32]) -> Row:
        """Return the class, its probability, and the probability of each class."""
        classes = self.class_names or tuple(str(k) for k in range(self.num_classes))
        name, best = self.names[0], int(values.argmax())
        row: Row = {name: classes[best], f"{name}_probability": number(values[best])}
        return row | {f"{name}_{label}_probability": number(p) for label, p in zip(classes, values, strict=True)}
