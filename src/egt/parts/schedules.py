"""Schedules: the learning rate at a step, its reaction to each validation loss, and a state to resume from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from egt.registry import Part, Registry, register


class Schedule(Protocol):
    """A learning rate that may depend on the step and on the validation losses so far."""

    def rate(self, step: int) -> float:
        """Return the rate of the optimizer step with this 0-based number."""

    def observe(self, loss: float) -> None:
        """Take note of the validation loss of an epoch."""

    def state(self) -> dict[str, Any]:
        """Return what has to be kept to continue."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a kept state."""


class SchedulePart(Part):
    """The settings of a schedule.

    `needs_validation` where it is steered by the validation loss, `follows_length` where it ends with the run: a run
    that is resumed then keeps its length.
    """

    registry: ClassVar[Registry[type[SchedulePart]]] = Registry("schedule", __name__)
    needs_validation: ClassVar[bool] = False
    follows_length: ClassVar[bool] = False

    def of_length(self, num_steps: int) -> SchedulePart:
        """Return the schedule of a run of this many steps; all are the same unless it follows the length."""
        return self

    def build(self, lr: float) -> Schedule:
        """Return the schedule of a run whose optimizer has this rate."""
        raise NotImplementedError(f"{type(self).__name__} does not say how the rate moves (method `build`)")

    def scaled(self, ratio: float) -> SchedulePart:
        """Return the same shape for a run that is shorter (or longer) by this ratio."""
        return self


class StepRate:
    """The parts of a schedule that is a function of the step alone: nothing to observe, nothing to keep."""

    def observe(self, loss: float) -> None: ...

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class CosineSchedule(StepRate):
    """Linear from `min_lr` at step 0 to `lr` at step `warmup_steps`, then half a cosine down to `min_lr`.

    The minimum is reached at step `total_steps` and kept from there on.
    """

    lr: float
    min_lr: float
    warmup_steps: int
    total_steps: int

    def rate(self, step: int) -> float:
        if step < self.warmup_steps:
            return self.min_lr + (self.lr - self.min_lr) * step / self.warmup_steps
        done = min((step - self.warmup_steps) / (self.total_steps - self.warmup_steps), 1.0)
        return self.min_lr + (self.lr - self.min_lr) * (1 + math.cos(math.pi * done)) / 2


@register
class ConstantRate(SchedulePart):
    """The same learning rate throughout."""

    kind: Literal["constant"] = "constant"

    def build(self, lr: float) -> Schedule:
        return CosineSchedule(lr, lr, warmup_steps=0, total_steps=1)


@register
class Cosine(SchedulePart):
    """Linear from `min_lr` to the optimizer's rate over the share `warmup` of all steps, then half a cosine down.

    The end is that of the run (`trainer.max_epochs`, `trainer.max_steps`), so both stay as they are when it is resumed.
    """

    kind: Literal["cosine"] = "cosine"
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.05
    min_lr: PositiveFloat = 1e-6
    follows_length: ClassVar[bool] = True

    def of_length(self, num_steps: int) -> WarmupCosine:
        warmup = min(round(self.warmup * num_steps), num_steps - 1)
        return WarmupCosine(warmup_steps=warmup, total_steps=num_steps, min_lr=self.min_lr)


@register
class WarmupCosine(SchedulePart):
    """Linear from `min_lr` to the optimizer's rate over `warmup_steps`, then half a cosine down until `total_steps`.

    It is the authors' schedule of the large-scale runs.
    """

    kind: Literal["warmup_cosine"] = "warmup_cosine"
    warmup_steps: NonNegativeInt
    total_steps: PositiveInt
    min_lr: PositiveFloat = 1e-6

    @model_validator(mode="after")
    def _check_consistency(self) -> WarmupCosine:
        if self.warmup_steps >= self.total_steps:
            raise ValueError(f"warmup_steps {self.warmup_steps} must be below total_steps {self.total_steps}")
        return self

    def build(self, lr: float) -> Schedule:
        return CosineSchedule(lr, self.min_lr, self.warmup_steps, self.total_steps)

    def scaled(self, ratio: float) -> WarmupCosine:
        total = max(1, round(self.total_steps * ratio))
        warmup = min(round(self.warmup_steps * ratio), total - 1)
        return self.model_copy(update={"warmup_steps": warmup, "total_steps": total})


@register
class Plateau(SchedulePart):
    """Multiply the learning rate by `factor` after `patience` epochs without a strictly better validation loss.

    It never falls below `min_lr`. It is the authors' schedule of the medium-scale runs.
    """

    kind: Literal["plateau"] = "plateau"
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    patience: PositiveInt = 10
    min_lr: PositiveFloat = 5e-6
    needs_validation: ClassVar[bool] = True

    def build(self, lr: float) -> Schedule:
        return PlateauSchedule(lr, self.factor, self.patience, self.min_lr)

    def scaled(self, ratio: float) -> Plateau:
        """See `SchedulePart.scaled`. A patience below 3 would take the noise of one epoch for the end of progress."""
        return self.model_copy(update={"patience": max(min(self.patience, 3), round(self.patience * ratio))})


class PlateauSchedule:
    """The rule of `Plateau`. The count starts again at each reduction; the best loss stays.

    DISCREPANCY: their configs have a key for the monitored quantity that their code ignores; it monitors what also
    selects the best weights, the validation loss without the distance objective, as here.
    """

    def __init__(self, lr: float, factor: float, patience: int, min_lr: float) -> None:
        self.lr, self.factor, self.patience, self.min_lr = lr, factor, patience, min_lr
        self.best, self.num_bad = math.inf, 0

    def rate(self, step: int) -> float:
        return self.lr

    def observe(self, loss: float) -> None:
        if loss < self.best:
            self.best, self.num_bad = loss, 0
            return
        self.num_bad += 1
        if self.num_bad == self.patience:
            self.lr, self.num_bad = min(self.lr, max(self.lr * self.factor, self.min_lr)), 0

    def state(self) -> dict[str, Any]:
        return {"lr": self.lr, "best": self.best, "num_bad": self.num_bad}

    def restore(self, state: dict[str, Any]) -> None:
        self.lr, self.best, self.num_bad = state["lr"], state["best"], state["num_bad"]
