"""Who is told how a run goes: `Callback`, and the two that every run has, metrics.csv and a line in the log."""

from __future__ import annotations

import csv
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from egt.errors import RunError

if TYPE_CHECKING:
    from egt.training.progress import StepSums
    from egt.training.state import State

log = logging.getLogger(__name__)


class Callback:
    """Is told how a run goes, in its first process; subclasses do what they like with it.

    With `trainer.devices` above 1 a copy of it is made in the first of the new processes: it has to be picklable.
    """

    def on_start(self, state: State) -> None:
        """Training begins, or goes on from a checkpoint."""

    def on_step(self, state: State, step: StepSums) -> None:
        """An optimizer step was taken. step: its losses and counts over all processes."""

    def on_epoch(self, state: State, row: Mapping[str, float]) -> None:
        """An epoch was closed and kept. row: as in metrics.csv."""

    def on_end(self, state: State) -> None:
        """Training ends, well or not."""


class MetricsFile(Callback):
    """Keeps metrics.csv up to date, a row for each epoch."""

    def on_epoch(self, state: State, row: Mapping[str, float]) -> None:
        """Write all rows again."""
        write_history(state.folder / "metrics.csv", state.progress.history)


class LogLine(Callback):
    """Logs a line for each epoch."""

    def on_epoch(self, state: State, row: Mapping[str, float]) -> None:
        """Log the row."""
        log.info("%s", ", ".join(f"{name} {value:.6g}" for name, value in row.items()))


@contextmanager
def told(callbacks: Sequence[Callback], state: State) -> Iterator[None]:
    """Tell the callbacks when what happens inside begins, and when it ends, in whatever way."""
    try:
        for callback in callbacks:
            callback.on_start(state)
        yield
    finally:
        for callback in callbacks:
            callback.on_end(state)


def write_history(path: Path, rows: Sequence[Mapping[str, float]]) -> None:
    """Write all rows, at once or not at all: a resumed run has no row twice."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
        temporary.replace(path)
    except OSError as error:
        raise RunError(f"could not write {path}: {error.strerror}") from error
