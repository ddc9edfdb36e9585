"""A linear warm-up and half a cosine over the whole run, however long it is."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveFloat

from egt.parts import register
from egt.schedules.schedule import SchedulePart
from egt.schedules.warmup_cosine import WarmupCosine


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
        """See `SchedulePart.of_length`."""
        warmup = min(round(self.warmup * num_steps), num_steps - 1)
        return WarmupCosine(warmup_steps=warmup, total_steps=num_steps, min_lr=self.min_lr)
