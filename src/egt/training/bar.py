"""The progress bar of a run, on standard error: loss, metric, best so far, speed and time left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from egt.training.callbacks import Callback
from egt.training.progress import StepSums

if TYPE_CHECKING:
    from egt.training.state import State


class RunBar(Callback):
    """One bar over the whole run.

    Args:
        metric: the score to show beside the loss.
    """

    def __init__(self, metric: str) -> None:
        self.metric = metric
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[facts]}"))
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task("", total=None, facts="")
        self._started, self._first_step, self._graphs = 0.0, 0, 0.0

    def on_start(self, state: State) -> None:
        """Show the bar."""
        self._started, self._first_step = time.monotonic(), state.progress.step
        self.bar.update(self.task, total=state.num_steps)
        self.bar.start()

    def on_step(self, state: State, step: StepSums) -> None:
        """Move on by a step."""
        progress = state.progress
        self._graphs += step.graphs
        loss, labels, _, _ = progress.sums
        elapsed = time.monotonic() - self._started
        facts = [
            f"loss {loss / max(labels, 1):.4g}",
            *self._validation(state),
            f"{self._graphs / elapsed:.0f} graphs/s",
        ]
        left = state.num_steps - progress.step
        facts.append(f"{_clock(left * elapsed / (progress.step - self._first_step))} left")
        epochs = state.config.trainer.max_epochs
        name = f"epoch {progress.epoch + 1}" + (f"/{epochs}" if epochs else "")
        self.bar.update(self.task, completed=progress.step, description=name, facts=" | ".join(facts))

    def on_end(self, state: State) -> None:
        """Take the bar away, before any message."""
        self.bar.stop()

    def _validation(self, state: State) -> list[str]:
        """The last score and the best loss so far."""
        progress = state.progress
        name = f"val_{self.metric}"
        last = [f"{self.metric} {progress.history[-1][name]:.4g}"] if name in (progress.history or [{}])[-1] else []
        return last if progress.best is None else [*last, f"best loss {progress.best.loss:.4g}"]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
