"""The progress bar of a run, on standard error: loss, metric, best so far, speed and time left."""

from __future__ import annotations

import time
from typing import Any

import lightning.pytorch as lightning
from lightning.pytorch.callbacks import Callback
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from egt.training.run import Run


class RunBar(Callback):
    """One bar over the whole run.

    Args:
        run: what is shown.
        metric: the score to show beside the loss.
        shown: False shows nothing.
    """

    def __init__(self, run: Run, metric: str, *, shown: bool) -> None:
        self.run, self.metric = run, metric
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[facts]}"))
        self.bar = Progress(*columns, console=Console(stderr=True), disable=not shown, transient=True)
        self.task = self.bar.add_task("", total=self._num_steps(), facts="")
        self._started, self._first_step, self._graphs = time.monotonic(), 0, 0

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Show the bar."""
        self._started, self._first_step = time.monotonic(), self.run.progress.step
        self.bar.start()

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Move on by a step."""
        progress = self.run.progress
        if progress.step == self._first_step:  # nothing but a validation was left of the epoch
            return
        self._graphs += sum(part.num_graphs for part in batch) * trainer.world_size
        loss, labels, _, _ = progress.sums
        elapsed = time.monotonic() - self._started
        facts = [f"loss {loss / max(labels, 1):.4g}", *self._validation(), f"{self._graphs / elapsed:.0f} graphs/s"]
        left = self._num_steps() - progress.step
        facts.append(f"{_clock(left * elapsed / (progress.step - self._first_step))} left")
        epochs = self.run.config.trainer.max_epochs
        name = f"epoch {progress.epoch + 1}" + (f"/{epochs}" if epochs else "")
        self.bar.update(self.task, completed=progress.step, description=name, facts=" | ".join(facts))

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Take the bar away."""
        self.bar.stop()

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        """Take the bar away before the message."""
        self.bar.stop()

    def _validation(self) -> list[str]:
        """The last score and the best loss so far."""
        progress = self.run.progress
        name = f"val_{self.metric}"
        last = [f"{self.metric} {progress.history[-1][name]:.4g}"] if name in (progress.history or [{}])[-1] else []
        return last if progress.best is None else [*last, f"best loss {progress.best.loss:.4g}"]

    def _num_steps(self) -> int:
        """Steps of the whole run."""
        limits = self.run.config.trainer
        by_epochs = None if limits.max_epochs is None else limits.max_epochs * self.run.steps_per_epoch
        return min(steps for steps in (by_epochs, limits.max_steps) if steps is not None)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
