"""A run on its way: progress, schedule, averaged weights, and how they are kept and put back."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from egt.config.run import RunConfig
from egt.errors import ArtifactError
from egt.model import EGT
from egt.schedules.schedule import Schedule
from egt.training.average import WeightAverage
from egt.training.checkpoint import Checkpoints, write_tensors
from egt.training.folder import CHECKPOINTS
from egt.training.history import write_history
from egt.training.progress import Best, Progress, named, restore_optimizer, training_tensors

log = logging.getLogger(__name__)


class Run:
    """Everything of a run that outlives a step.

    Args:
        config: the run's settings.
        model: what is trained.
        facts: what a checkpoint has to agree with and what comes with the weights, as JSON.
        folder: of the run; checkpoints and metrics are written there.
        steps_per_epoch: optimizer steps of a whole epoch.
        writes: whether this process writes files.
    """

    def __init__(
        self,
        config: RunConfig,
        model: EGT,
        facts: Mapping[str, Any],
        folder: Path,
        steps_per_epoch: int,
        *,
        writes: bool,
    ) -> None:
        self.config, self.model, self.facts, self.folder = config, model, facts, folder
        self.steps_per_epoch, self.writes = steps_per_epoch, writes
        self.checkpoints = checkpoints_of(folder)
        self.progress = Progress()
        self.schedule: Schedule = config.schedule.build(config.optimizer.lr)
        decay = config.trainer.ema_decay
        self.average = None if decay is None else WeightAverage(model, decay)
        self.optimizer: Optimizer | None = None
        self.precision: dict[str, Any] = {}
        self._kept: Mapping[str, Tensor] = {}
        self._last_write = time.monotonic()

    @property
    def finished(self) -> bool:
        """Whether the run has reached its end."""
        limits = self.config.trainer
        return not self.awaits_validation and (
            (limits.max_epochs is not None and self.progress.epoch >= limits.max_epochs)
            or (limits.max_steps is not None and self.progress.step >= limits.max_steps)
        )

    @property
    def awaits_validation(self) -> bool:
        """Whether the running epoch has had all its steps, but is not closed."""
        has_begun = self.progress.sums[3] > 0
        return has_begun and self.progress.position >= self.last_position

    @property
    def last_position(self) -> int:
        """Where the running epoch ends: with its last step, or earlier with the last step of the run."""
        max_steps = self.config.trainer.max_steps
        if max_steps is None:
            return self.steps_per_epoch
        return min(self.steps_per_epoch, self.progress.position + max_steps - self.progress.step)

    def restore(self, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Continue from a checkpoint; the optimizer follows when it is there."""
        weights = named(tensors, "model")
        if weights.keys() != self.model.state_dict().keys():
            raise ArtifactError(f"the checkpoints in {self.checkpoints.folder} are of another model")
        self.model.load_state_dict(weights)
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(name in state["trained"])
        if self.average is not None:
            self.average.restore(named(tensors, "average"))
        self.progress = Progress.from_json(state["progress"])
        self.schedule.restore(state["schedule"])
        self.precision = state["precision"]
        self._kept = tensors

    def attach(self, optimizer: Optimizer) -> None:
        """Take the optimizer in, and give it the state of the checkpoint that the run continues from."""
        self.optimizer = optimizer
        restore_optimizer(self.model, optimizer, self._kept)
        self._kept = {}

    def checkpoint(self) -> None:
        """Keep the run as it is."""
        self._last_write = time.monotonic()
        if not self.writes:
            return
        assert self.optimizer is not None
        state = {
            **self.facts,
            "progress": self.progress.as_json(),
            "schedule": self.schedule.state(),
            "best": self.progress.as_json()["best"],
            "precision": self.precision,
            "trained": [name for name, parameter in self.model.named_parameters() if parameter.requires_grad],
        }
        average = {} if self.average is None else self.average.values
        tensors = training_tensors(self.model, self.optimizer, average)
        best = self.progress.best
        self.checkpoints.write(self.progress.step, state, tensors, None if best is None else best.file)

    def after_step(self, sums: list[float]) -> None:
        """Count a step, with its loss, labels, auxiliary loss and graphs; write a checkpoint when it is time to."""
        self.progress.position += 1
        self.progress.step += 1
        self.progress.sums = [old + new for old, new in zip(self.progress.sums, sums, strict=True)]
        if self.average is not None:
            self.average.update()
        waited = time.monotonic() - self._last_write
        if waited >= 60 * self.config.trainer.checkpoint_minutes and self.progress.position < self.last_position:
            self.checkpoint()

    def end_epoch(self, validation: Mapping[str, float]) -> dict[str, float]:
        """Close an epoch: history, schedule, best weights, checkpoint. Returns the new row of the history.

        Args:
            validation: "loss" and metrics on the validation split; empty when there is none.
        """
        progress = self.progress
        loss, labels, auxiliary, graphs = progress.sums
        row = {
            "epoch": progress.epoch,
            "step": progress.step,
            "lr": self.schedule.rate(progress.step - 1),
            "train_loss": loss / max(labels, 1),
            **({"train_auxiliary": auxiliary / max(graphs, 1)} if self.config.task.auxiliary else {}),
            **{f"val_{name}": value for name, value in validation.items()},
            "seconds": round(progress.seconds, 3),
            "graphs_per_second": round(graphs / max(progress.seconds, 1e-9), 1),
        }
        progress.history.append(row)
        if validation:
            self.schedule.observe(validation["loss"])
            if progress.best is None or validation["loss"] < progress.best.loss:
                file = f"best-{progress.step:012d}.safetensors"
                progress.best = Best(validation["loss"], progress.epoch, file)
                if self.writes and self.config.trainer.select == "best":
                    weights = self.model.state_dict() | ({} if self.average is None else self.average.values)
                    write_tensors(self.checkpoints.folder / file, self.facts, weights)
        if progress.position >= self.steps_per_epoch:
            progress.epoch, progress.position = progress.epoch + 1, 0
        progress.sums, progress.seconds = [0.0] * 4, 0.0
        self.checkpoint()
        if self.writes:
            write_history(self.folder / "metrics.csv", progress.history)
            log.info("%s", ", ".join(f"{name} {value:.6g}" for name, value in row.items()))
        return row


def checkpoints_of(folder: Path) -> Checkpoints:
    """The checkpoints of the run in this folder."""
    return Checkpoints(folder / CHECKPOINTS)
