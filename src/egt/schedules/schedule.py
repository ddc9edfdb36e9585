"""What all schedules share: the rate at a step, a reaction to each validation loss, and a state to resume from."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from egt.parts import Part, Registry


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

    registry: ClassVar[Registry[type[SchedulePart]]] = Registry("schedule", __package__)
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

    def observe(self, loss: float) -> None:
        """See `Schedule.observe`; losses change nothing here."""

    def state(self) -> dict[str, Any]:
        """See `Schedule.state`; there is none."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """See `Schedule.restore`."""
