"""The same learning rate throughout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from egt.parts import register
from egt.schedules.schedule import SchedulePart, StepRate


@register
class ConstantRate(SchedulePart):
    """The same learning rate throughout."""

    kind: Literal["constant"] = "constant"

    def build(self, lr: float) -> ConstantSchedule:
        """See `SchedulePart.build`."""
        return ConstantSchedule(lr)


@dataclass(frozen=True)
class ConstantSchedule(StepRate):
    """The rate `lr` at every step."""

    lr: float

    def rate(self, step: int) -> float:
        """See `Schedule.rate`."""
        return self.lr
