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
    from egt.training.run_folder import StepSums
    from egt.training.state import State


class Claim(Callback):
    """The lease of a run; as a callback it ends the run once another process has taken over."""

    def __init__(self, lease: files.Lease) -> None:
        self.lease = lease
        self._checked = time.monotonic()

    def on_step(self, state: State, step: StepSums) -> None:
        """Look now and then whether the lease is still held."""
        if time.monotonic() - self._checked < files.HEARTBEAT_SECONDS:
            return
        self._checked = time.monotonic()
        if not self.lease.is_held():
            raise RunStopped(f"{self.lease.place}: another process has taken over, because this one was silent")


@contextmanager
def claim_run(folder: Path) -> Iterator[Claim | None]:
    """Yield the claim on a run while the context lasts; None if another process is at it. Its parent is made."""
    with ExitStack() as stack:
        try:
            lease = stack.enter_context(files.lease(folder))
        except OSError as error:
            raise ConfigError(
                f"{folder.parent} cannot be written ({error.strerror}); choose another folder (--out)"
            ) from error
        yield None if lease is None else Claim(lease)
