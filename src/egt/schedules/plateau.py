"""The authors' schedule of the medium-scale runs: reduce the rate when validation stops to improve."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from egt.parts import register
from egt.schedules.schedule import SchedulePart


@register
class Plateau(SchedulePart):
    """Multiply the learning rate by `factor` after `patience` epochs without a strictly better validation loss.

    It never falls below `min_lr`.
    """

    kind: Literal["plateau"] = "plateau"
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    patience: PositiveInt = 10
    min_lr: PositiveFloat = 5e-6
    needs_validation: ClassVar[bool] = True

    def build(self, lr: float) -> PlateauSchedule:
        """See `SchedulePart.build`."""
        return PlateauSchedule(lr, self.factor, self.patience, self.min_lr)

    def scaled(self, ratio: float) -> Plateau:
        """See `SchedulePart.scaled`. A patience below 3 would take the noise of one epoch for the end of progress."""
        return self.model_copy(update={"patience": max(min(self.patience, 3), round(self.patience * ratio))})


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
