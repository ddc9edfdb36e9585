"""What is predicted, with which loss, and how it is scored."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator

from egt.section import Section

Names = Annotated[tuple[str, ...], Field(min_length=1)]


class DistanceObjective(Section):
    """Auxiliary task: hop distances up to `max_hops` (nu) from the edge channel, its loss times `weight` (kappa)."""

    kind: Literal["distance"] = "distance"
    max_hops: Annotated[int, Field(ge=1, le=64)] = 3
    weight: NonNegativeFloat


class Regression(Section):
    """Numbers. `standardize` trains on (y - mean) / std of the training targets and answers in their unit."""

    kind: Literal["regression"] = "regression"
    names: Names
    loss: Literal["mae", "mse"] = "mae"
    standardize: bool = False
    auxiliary: tuple[DistanceObjective, ...] = ()

    @property
    def num_outputs(self) -> int:
        """Numbers per prediction."""
        return len(self.names)


class Binary(Section):
    """Yes or no for each of one or many labels, some of which may be missing. `metric` scores and is averaged."""

    kind: Literal["binary"] = "binary"
    names: Names
    metric: Literal["roc_auc", "average_precision"] = "roc_auc"
    auxiliary: tuple[DistanceObjective, ...] = ()

    @property
    def num_outputs(self) -> int:
        """Numbers per prediction."""
        return len(self.names)


class Multiclass(Section):
    """One of several classes. `class_counts` turn into the paper's fixed class weights."""

    kind: Literal["multiclass"] = "multiclass"
    names: Annotated[tuple[str, ...], Field(min_length=1, max_length=1)] = ("class",)
    num_classes: Annotated[int, Field(ge=2)]
    class_names: tuple[str, ...] = ()
    class_counts: tuple[PositiveInt, ...] | None = None
    metric: Literal["accuracy", "weighted_accuracy", "f1"] = "accuracy"
    auxiliary: tuple[DistanceObjective, ...] = ()

    @property
    def num_outputs(self) -> int:
        """Numbers per prediction."""
        return self.num_classes

    @property
    def class_weights(self) -> tuple[float, ...] | None:
        """w_c = (T - n_c) / sum_k (T - n_k), T the number of all; rare classes weigh more."""
        if self.class_counts is None:
            return None
        total = sum(self.class_counts)
        others = [total - count for count in self.class_counts]
        return tuple(other / sum(others) for other in others)

    @model_validator(mode="after")
    def _check_consistency(self) -> Multiclass:
        for name in ("class_counts", "class_names"):
            given = getattr(self, name)
            if given and len(given) != self.num_classes:
                raise ValueError(f"{name} has {len(given)} entries for {self.num_classes} classes")
        if self.metric == "f1" and self.num_classes != 2:
            raise ValueError("metric f1 is for two classes; use accuracy or weighted_accuracy")
        return self


TaskConfig = Annotated[Regression | Binary | Multiclass, Field(discriminator="kind")]
