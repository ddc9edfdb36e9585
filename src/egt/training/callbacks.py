"""What watches a run: `Callback`, and what every run has: metrics.csv, a line in the log, trackers, a bar."""

from __future__ import annotations

import csv
import logging
import os
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from egt.config.run import TrainerConfig
from egt.errors import ConfigError, RunError
from egt.files import write_atomically
from egt.training.run_folder import METRICS, StepSums

if TYPE_CHECKING:
    from egt.training.state import State

log = logging.getLogger(__name__)


class Callback:
    """Receives the steps and epochs of a run, in its first process; subclasses do what they like with them.

    With `trainer.devices` above 1 a copy of it is made in the first of the new processes: it has to be picklable.
    """

    def on_start(self, state: State) -> None:
        """Training begins, or continues from a checkpoint."""

    def on_step(self, state: State, step: StepSums) -> None:
        """Run after an optimizer step. step: its losses and counts over all processes."""

    def on_epoch(self, state: State, row: Mapping[str, float]) -> None:
        """Run after an epoch, when its checkpoint is written. row: as in metrics.csv."""

    def on_end(self, state: State) -> None:
        """Training ends, well or not."""


class MetricsFile(Callback):
    """Keeps metrics.csv up to date, a row for each epoch."""

    def on_epoch(self, state: State, row: Mapping[str, float]) -> None:
        write_history(state.folder / METRICS, state.progress.history)


_NOT_LOGGED = ("step", "lr", "graphs_per_second")


class LogLine(Callback):
    """Logs a line for each epoch: losses, scores and seconds; metrics.csv has the rest."""

    def on_epoch(self, state: State, row: Mapping[str, float]) -> None:
        shown = {**row, "epoch": row["epoch"] + 1}  # epochs are counted from 1 where people read them
        names = [name for name in shown if name not in _NOT_LOGGED and "_num_" not in name]
        log.info("%s", ", ".join(f"{name} {shown[name]:.4g}" for name in names))


def write_history(path: Path, rows: Sequence[Mapping[str, float]]) -> None:
    """Write all rows, at once or not at all: a resumed run has no row twice."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    try:
        with write_atomically(path) as draft, draft.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise RunError(f"could not write {path}: {error.strerror}") from error


class TensorBoard(Callback):
    """Writes the rows of metrics.csv to the folder `tensorboard` of the run."""

    _writer: Any = None

    def on_epoch(self, state: State, row: Mapping[str, float]) -> None:
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter  # here: it is slow to import

            self._writer = SummaryWriter(str(state.folder / "tensorboard"))
        for name, value in row.items():
            self._writer.add_scalar(name, value, int(row["step"]))
        self._writer.flush()

    def on_end(self, state: State) -> None:
        if self._writer is not None:
            self._writer.close()


class WeightsAndBiases(Callback):
    """Logs the rows of metrics.csv to a run of the project `egt`."""

    _run: Any = None

    def on_start(self, state: State) -> None:
        import wandb

        self._run = wandb.init(name=state.config.name, project="egt", dir=str(state.folder))

    def on_epoch(self, state: State, row: Mapping[str, float]) -> None:
        self._run.log(dict(row))

    def on_end(self, state: State) -> None:
        if self._run is not None:
            self._run.finish()


_TRACKERS: dict[str, type[Callback]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}


def trackers(settings: TrainerConfig) -> list[Callback]:
    """Return the trackers of a run: those that it names, or those that are installed and set up here."""
    if settings.trackers == "auto":
        # Weights & Biases asks for a login unless its environment says what to do: only then is it meant.
        meant = {"tensorboard": True, "wandb": bool({"WANDB_API_KEY", "WANDB_MODE"} & os.environ.keys())}
        return [kind() for name, kind in _TRACKERS.items() if meant[name] and find_spec(name) is not None]
    for name in settings.trackers:
        if find_spec(name) is None:
            raise ConfigError(f"trainer.trackers names {name}, which is not installed here; pip install {name}")
    return [_TRACKERS[name]() for name in settings.trackers]


class RunBar(Callback):
    """One bar over the whole run, with a score beside the loss."""

    def __init__(self, metric: str) -> None:
        self.metric = metric
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[facts]}"))
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task("", total=None, facts="")
        self._started, self._first_step, self._graphs = 0.0, 0, 0.0

    def on_start(self, state: State) -> None:
        self._started, self._first_step = time.monotonic(), state.progress.step
        self.bar.update(self.task, total=state.num_steps)
        self.bar.start()

    def on_step(self, state: State, step: StepSums) -> None:
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
        self.bar.stop()

    def _validation(self, state: State) -> list[str]:
        """Return the last score and the best loss so far."""
        progress = state.progress
        name = f"val_{self.metric}"
        last = [f"{self.metric} {progress.history[-1][name]:.4g}"] if name in (progress.history or [{}])[-1] else []
        return last if progress.best is None else [*last, f"best loss {progress.best.loss:.4g}"]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
