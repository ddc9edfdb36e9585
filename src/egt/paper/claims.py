"""Claims on runs: several processes or machines with a common folder never do one at the same time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from egt import files
from egt.errors import ConfigError, RunStopped
from egt.training.callbacks import Callback

if TYPE_CHECKING:
    from egt.training.checkpoint import StepSums
    from egt.training.state import State


class Claim(Callback):
    """The lease of a run; as a callback it ends the run once another process has taken over.

    Args:
        lease: on e.g. DIR/zinc-100k/seed0.
    """

    def __init__(self, lease: files.Lease) -> None:
        self.lease = lease
        self._checked = time.monotonic()

    def on_step(self, state: State, step: StepSums) -> None:
        """End a run that is not ours any more; looked up now and then."""
        if time.monotonic() - self._checked < files.HEARTBEAT_SECONDS:
            return
        self._checked = time.monotonic()
        if not self.lease.is_held():
            raise RunStopped(
                f"{self.lease.place}: another process has taken over, because this one had not been heard from"
            )


@contextmanager
def claimed(place: Path) -> Iterator[Claim | None]:
    """Yield the claim on a run while the context lasts; None if another process is at it.

    Args:
        place: what is claimed; its parent folder is made.
    """
    with ExitStack() as stack:
        try:
            lease = stack.enter_context(files.lease(place))
        except OSError as error:
            raise ConfigError(
                f"{place.parent} cannot be written ({error.strerror}); choose another folder (--out)"
            ) from error
        yield None if lease is None else Claim(lease)
