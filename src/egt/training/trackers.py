"""Experiment trackers as callbacks: TensorBoard and Weights & Biases."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from egt.config.run import TrainerConfig
from egt.errors import ConfigError
from egt.training.callbacks import Callback

if TYPE_CHECKING:
    from egt.training.state import State


class TensorBoard(Callback):
    """Writes the rows of metrics.csv to the folder `tensorboard` of the run."""

    _writer: Any = None

    def on_epoch(self, state: State, row: Mapping[str, float]) -> None:
        """Write the numbers of the row at its step. The package is slow to import: not before it is needed."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(state.folder / "tensorboard"))
        for name, value in row.items():
            self._writer.add_scalar(name, value, int(row["step"]))
        self._writer.flush()

    def on_end(self, state: State) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


class WeightsAndBiases(Callback):
    """Logs the rows of metrics.csv to a run of the project `egt`."""

    _run: Any = None

    def on_start(self, state: State) -> None:
        """Begin the run."""
        import wandb

        self._run = wandb.init(name=state.config.name, project="egt", dir=str(state.folder))

    def on_epoch(self, state: State, row: Mapping[str, float]) -> None:
        """Log the row."""
        self._run.log(dict(row))

    def on_end(self, state: State) -> None:
        """End the run."""
        if self._run is not None:
            self._run.finish()


_TRACKERS: dict[str, type[Callback]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}


def trackers(settings: TrainerConfig) -> list[Callback]:
    """The trackers of a run: those that it names, or those that are installed and set up here.

    Raises:
        ConfigError: one that is named is not installed.
    """
    if settings.trackers == "auto":
        # Weights & Biases asks for a login unless its environment says what to do: only then is it meant.
        meant = {"tensorboard": True, "wandb": bool({"WANDB_API_KEY", "WANDB_MODE"} & os.environ.keys())}
        return [kind() for name, kind in _TRACKERS.items() if meant[name] and find_spec(name) is not None]
    for name in settings.trackers:
        if find_spec(name) is None:
            raise ConfigError(f"trainer.trackers names {name}, which is not installed here; pip install {name}")
    return [_TRACKERS[name]() for name in settings.trackers]
