"""The base of every config section: frozen, and strict about names."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of a run's configuration. Unknown keys are errors; values cannot be changed in place."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
