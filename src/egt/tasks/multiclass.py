"""Classification into one of several classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator

from egt.parts import register
from egt.tasks.task import Row, TaskPart, Weight, constant, number, unfitted

if TYPE_CHECKING:
    from torch import Tensor

    from egt.tasks.scores import ClassScores

_MISSING = -100


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
        """See `TaskPart.num_outputs`."""
        return self.num_classes

    @property
    def deciding_metric(self) -> str:
        """See `TaskPart.deciding_metric`."""
        return self.metric

    @property
    def positive_class(self) -> str:
        """See `TaskPart.positive_class`."""
        return self.label(1) if self.num_classes == 2 else ""

    @property
    def loss_weights(self) -> tuple[float, ...] | None:
        """The given weights, or w_c = (T - n_c) / sum_k (T - n_k) of counts, T the number of all; None for none."""
        if self.class_weights == "balanced":
            raise unfitted()
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
        """See `TaskPart.named`."""
        classes = class_names if len(class_names) == self.num_classes else self.class_names
        names = names if len(names) == 1 else self.names
        return self.model_copy(update={"names": names, "class_names": classes})

    def fitted(self, targets: Iterable[NDArray[np.float64]]) -> Multiclass:
        """See `TaskPart.fitted`: the weights of classes."""
        if self.class_weights != "balanced":
            return self
        from egt.tasks.class_weights import balanced

        labels = np.concatenate([np.atleast_2d(rows) for rows in targets])[:, 0]
        return self.model_copy(update={"class_weights": balanced(labels, self.num_classes)})

    def uninformed(self, targets: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return how often each class occurs; see `TaskPart.uninformed`."""
        counts = np.zeros(self.num_classes)
        for rows in targets:
            counts += np.bincount(rows[~np.isnan(rows)].astype(np.int64), minlength=self.num_classes)
        return counts

    def loss_sum(self, prediction: Tensor, target: Tensor) -> Tensor:
        """See `TaskPart.loss_sum`."""
        from torch.nn import functional

        classes = target[:, 0].nan_to_num(nan=_MISSING).long()
        weights = self.loss_weights
        weight = None if weights is None else constant(weights, prediction.device)
        return functional.cross_entropy(prediction.float(), classes, weight, ignore_index=_MISSING, reduction="sum")

    def scores(self) -> ClassScores:
        """See `TaskPart.scores`."""
        from egt.tasks.scores import ClassScores

        return ClassScores(self.num_classes)

    def decode(self, prediction: Tensor) -> Tensor:
        """Return the probability of each class; see `TaskPart.decode`."""
        return prediction.float().softmax(-1)

    def encode(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the logarithm of each probability; see `TaskPart.encode`."""
        return np.log(np.maximum(values.astype(np.float64), np.finfo(np.float32).tiny))

    def class_probabilities(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """See `TaskPart.class_probabilities`."""
        return values.astype(np.float64)[:, None]

    def spread_columns(self, values: NDArray[Any], std: NDArray[Any]) -> Row:
        """Return the deviation of the probability of the class that is answered; see `TaskPart.spread_columns`."""
        return {f"{self.names[0]}_std": number(std[values.argmax()])}

    def label(self, value: float) -> str:
        """See `TaskPart.label`."""
        return self.class_names[int(value)] if self.class_names else str(int(value))

    def columns(self, values: NDArray[np.float32]) -> Row:
        """Return the class, its probability, and the probability of each class; see `TaskPart.columns`."""
        classes = self.class_names or tuple(str(k) for k in range(self.num_classes))
        name, best = self.names[0], int(values.argmax())
        row: Row = {name: classes[best], f"{name}_probability": number(values[best])}
        return row | {f"{name}_{label}_probability": number(p) for label, p in zip(classes, values, strict=True)}
