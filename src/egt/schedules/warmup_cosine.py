"""The authors' schedule of the large-scale runs: a linear warm-up, then half a cosine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from egt.parts import register
from egt.schedules.schedule import SchedulePart, StepRate


@register
class WarmupCosine(SchedulePart):
    """Linear from `min_lr` to the optimizer's rate over `warmup_steps`, then half a cosine down until `total_steps`."""

    kind: Literal["warmup_cosine"] = "warmup_cosine"
    warmup_steps: NonNegativeInt
    total_steps: PositiveInt
    min_lr: PositiveFloat = 1e-6

    @model_validator(mode="after")
    def _check_consistency(self) -> WarmupCosine:
        if self.warmup_steps >= self.total_steps:
            raise ValueError(f"warmup_steps {self.warmup_steps} must be below total_steps {self.total_steps}")
        return self

    def build(self, lr: float) -> CosineSchedule:
        """See `SchedulePart.build`."""
        return CosineSchedule(lr, self.min_lr, self.warmup_steps, self.total_steps)

    def scaled(self, ratio: float) -> WarmupCosine:
        """See `SchedulePart.scaled`."""
        total = max(1, round(self.total_steps * ratio))
        warmup = min(round(self.warmup_steps * ratio), total - 1)
        return self.model_copy(update={"warmup_steps": warmup, "total_steps": total})


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
        """See `Schedule.rate`."""
        if step < self.warmup_steps:
            return self.min_lr + (self.lr - self.min_lr) * step / self.warmup_steps
        done = min((step - self.warmup_steps) / (self.total_steps - self.warmup_steps), 1.0)
        return self.min_lr + (self.lr - self.min_lr) * (1 + math.cos(math.pi * done)) / 2
