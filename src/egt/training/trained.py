"""What training leaves, read from the checkpoints of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from egt.config.run import RunConfig
from egt.errors import ArtifactError
from egt.tasks.task import TargetScale
from egt.training.checkpoint import checkpoints_of, named, read_tensors
from egt.training.progress import Progress


@dataclass(frozen=True, eq=False)
class Trained:
    """What training leaves.

    Fields:
        weights: the selected weights, by parameter name: the best on validation, or the last.
        epoch: the epoch after which they were taken, from 0.
        metrics: "loss" and scores of these weights on the validation split; empty without one.
        history: a row for each epoch, as in metrics.csv.
        scale: mean and std of the training targets where they were standardized.
    """

    weights: Mapping[str, Tensor]
    epoch: int
    metrics: Mapping[str, float]
    history: Sequence[Mapping[str, float]]
    scale: TargetScale | None


def read_trained(config: RunConfig, folder: Path) -> Trained:
    """The result of the run in a folder, as far as it has come."""
    latest = checkpoints_of(folder).latest()
    if latest is None:
        raise ArtifactError(f"{folder} holds no checkpoint of a run")
    state, tensors = latest
    progress = Progress.from_json(state["progress"])
    epoch = len(progress.history) - 1
    weights = named(tensors, "model") | named(tensors, "average")
    if config.trainer.select == "best" and progress.best is not None:
        epoch = progress.best.epoch
        _, weights = read_tensors(checkpoints_of(folder).folder / progress.best.file)
    row = next((row for row in progress.history if row["epoch"] == epoch), {})
    metrics = {name.removeprefix("val_"): value for name, value in row.items() if name.startswith("val_")}
    return Trained(weights, epoch, metrics, progress.history, TargetScale.from_json(state["scale"]))
