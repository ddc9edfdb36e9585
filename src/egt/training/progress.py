"""Where a run is: counters and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple


class StepSums(NamedTuple):
    """What an optimizer step adds up over its graphs, of all processes."""

    loss: float
    labels: float
    auxiliary_loss: float
    graphs: float


@dataclass
class Best:
    """The best validation so far: its loss, its epoch, and the file that holds the weights."""

    loss: float
    epoch: int
    file: str


@dataclass
class Progress:
    """Counters and results of a run; plain data, so that JSON keeps it.

    Fields:
        epoch: the epoch that is being trained, from 0.
        position: steps of it that are done.
        step: optimizer steps of the whole run that are done.
        sums: of the running epoch, as in `StepSums`.
        seconds: of the running epoch, as measured.
        best: the best validation so far.
        history: a row for each finished epoch.
    """

    epoch: int = 0
    position: int = 0
    step: int = 0
    sums: list[float] = field(default_factory=lambda: [0.0] * 4)
    seconds: float = 0.0
    best: Best | None = None
    history: list[dict[str, float]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """What `from_json` takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Progress:
        """The progress that was kept."""
        best = state["best"]
        return cls(**{**state, "best": None if best is None else Best(**best)})
