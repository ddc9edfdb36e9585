"""Learning-rate schedules. Each knows its rate at a step, is told every validation loss, and can be put back."""

from __future__ import annotations

import math
from typing import Any, Protocol

from egt.config.run import Constant, Plateau, RunConfig, WarmupCosine


class Schedule(Protocol):
    """A learning rate that may depend on the step and on the validation losses so far."""

    def rate(self, step: int) -> float:
        """The rate of the optimizer step with this 0-based number."""

    def observe(self, loss: float) -> None:
        """Take note of the validation loss of an epoch."""

    def state(self) -> dict[str, Any]:
        """What has to be kept to continue."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a kept state."""


class PlateauSchedule:
    """The authors' rule: times `factor` after exactly `patience` epochs without a strictly better validation loss.

    The count starts again at each reduction; the best loss stays. The rate never falls below `min_lr`.
    DISCREPANCY: their configs have a key for the monitored quantity that their code ignores; it monitors what also
    selects the best weights, the validation loss without the distance objective, as here.
    """

    def __init__(self, lr: float, factor: float, patience: int, min_lr: float) -> None:
        self.lr, self.factor, self.patience, self.min_lr = lr, factor, patience, min_lr
        self.best, self.num_bad = math.inf, 0

    def rate(self, step: int) -> float:
        """See `Schedule.rate`."""
        return self.lr

    def observe(self, loss: float) -> None:
        """See `Schedule.observe`."""
        if loss < self.best:
            self.best, self.num_bad = loss, 0
            return
        self.num_bad += 1
        if self.num_bad == self.patience:
            self.lr, self.num_bad = min(self.lr, max(self.lr * self.factor, self.min_lr)), 0

    def state(self) -> dict[str, Any]:
        """See `Schedule.state`."""
        return {"lr": self.lr, "best": self.best, "num_bad": self.num_bad}

    def restore(self, state: dict[str, Any]) -> None:
        """See `Schedule.restore`."""
        self.lr, self.best, self.num_bad = state["lr"], state["best"], state["num_bad"]


class StepSchedule:
    """A rate that is a function of the step alone.

    Linear from `min_lr` at step 0 to `lr` at step `warmup_steps`, then half a cosine down to `min_lr` at step
    `total_steps`, and `min_lr` from there on. Without steps the rate is constant.
    """

    def __init__(self, lr: float, min_lr: float = 0.0, warmup_steps: int = 0, total_steps: int | None = None) -> None:
        self.lr, self.min_lr, self.warmup_steps, self.total_steps = lr, min_lr, warmup_steps, total_steps

    def rate(self, step: int) -> float:
        """See `Schedule.rate`."""
        if self.total_steps is None:
            return self.lr
        if step < self.warmup_steps:
            return self.min_lr + (self.lr - self.min_lr) * step / self.warmup_steps
        done = min((step - self.warmup_steps) / (self.total_steps - self.warmup_steps), 1.0)
        return self.min_lr + (self.lr - self.min_lr) * (1 + math.cos(math.pi * done)) / 2

    def observe(self, loss: float) -> None:
        """See `Schedule.observe`; losses change nothing here."""

    def state(self) -> dict[str, Any]:
        """See `Schedule.state`; there is none."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """See `Schedule.restore`."""


def build_schedule(config: RunConfig) -> Schedule:
    """The schedule of a run."""
    lr = config.optimizer.lr
    match config.schedule:
        case Plateau() as plateau:
            return PlateauSchedule(lr, plateau.factor, plateau.patience, plateau.min_lr)
        case WarmupCosine() as cosine:
            return StepSchedule(lr, cosine.min_lr, cosine.warmup_steps, cosine.total_steps)
        case Constant():
            return StepSchedule(lr)
