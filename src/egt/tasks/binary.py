"""Binary and multi-label classification, some labels missing."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from egt.parts import register
from egt.tasks.task import Row, TaskPart, Weight, constant, mean_of_known, number, sum_known, unfitted

if TYPE_CHECKING:
    from torch import Tensor

    from egt.tasks.scores import RankingScores

_CLASS_NAMES = ("0", "1")
_Pair = tuple[Weight, Weight]
_LEAST = 1e-9
"""Probabilities of a float32 that has rounded to 0 or 1 still have a logit."""


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
        """See `TaskPart.deciding_metric`."""
        return self.metric

    @property
    def positive_class(self) -> str:
        """See `TaskPart.positive_class`."""
        return self.class_names[1]

    def named(self, names: tuple[str, ...], class_names: tuple[str, ...]) -> Binary:
        """See `TaskPart.named`."""
        classes = class_names if len(class_names) == 2 else self.class_names
        names = names if len(names) == len(self.names) else self.names
        return self.model_copy(update={"names": names, "class_names": classes})

    def fitted(self, targets: Iterable[NDArray[np.float64]]) -> Binary:
        """See `TaskPart.fitted`: the weights of no and yes for each label."""
        if self.class_weights != "balanced":
            return self
        from egt.tasks.class_weights import balanced

        labels = np.concatenate([np.atleast_2d(rows) for rows in targets])
        return self.model_copy(update={"class_weights": tuple(balanced(column, 2) for column in labels.T)})

    def uninformed(self, targets: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the logit of how often each label is yes; see `TaskPart.uninformed`."""
        return self.encode(mean_of_known(targets))

    def loss_sum(self, prediction: Tensor, target: Tensor) -> Tensor:
        """See `TaskPart.loss_sum`."""
        from torch.nn import functional

        loss = partial(functional.binary_cross_entropy_with_logits, reduction="none")
        return sum_known(loss, prediction.float(), target, self._weight(target))

    def _weight(self, target: Tensor) -> Tensor | None:
        """(rows, T) the weight of each label."""
        import torch

        if self.class_weights is None:
            return None
        if self.class_weights == "balanced":
            raise unfitted()
        pairs = np.broadcast_to(np.array(self.class_weights), (target.shape[1], 2))
        no, yes = (constant(tuple(side.tolist()), target.device) for side in pairs.T)
        return torch.where(target > 0.5, yes, no)

    def scores(self) -> RankingScores:
        """See `TaskPart.scores`."""
        from egt.tasks.scores import RankingScores

        return RankingScores()

    def decode(self, prediction: Tensor) -> Tensor:
        """Return the probability of each label; see `TaskPart.decode`."""
        return prediction.float().sigmoid()

    def encode(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the logit of each probability; see `TaskPart.encode`."""
        p = np.clip(values.astype(np.float64), _LEAST, 1 - _LEAST)
        return np.log(p / (1 - p))

    def class_probabilities(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """See `TaskPart.class_probabilities`."""
        yes = values.astype(np.float64)
        return np.stack([1 - yes, yes], axis=2)

    def label(self, value: float) -> str:
        """See `TaskPart.label`."""
        return self.class_names[int(value)]

    def columns(self, values: NDArray[np.float32]) -> Row:
        """Return the class of each label, and its probabilities, named by class; see `TaskPart.columns`.

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
