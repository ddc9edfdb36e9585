"""`fit`: prepared graphs -> a trained model, with checkpoints from which it continues exactly."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from egt.batching.loader import graph_sizes
from egt.config.load import parse_config
from egt.config.run import RunConfig
from egt.encodings.encoding import Sample
from egt.encodings.store import Store
from egt.errors import ArtifactError, ConfigError, DataError
from egt.tasks.scale import TargetScale
from egt.training.checkpoint import read_tensors
from egt.training.devices import check_devices, num_devices
from egt.training.engine import train
from egt.training.labels import check_labels
from egt.training.processes import check_launch, run_together, started_from_outside
from egt.training.progress import Progress, named
from egt.training.run import checkpoints_of
from egt.training.transfer import Start

_FREE: set[tuple[str, ...]] = {
    ("trainer", "max_epochs"),
    ("trainer", "max_steps"),
    ("trainer", "checkpoint_minutes"),
    ("trainer", "accelerator"),
    ("trainer", "devices"),
    ("trainer", "num_nodes"),
    ("data", "num_workers"),
    ("data", "pair_budget"),
    ("start", "artifact"),  # its weights are known by their checksum
}
"""Settings that may change when a run is resumed: they say how long, where and in which parts, not what is computed."""


@dataclass(frozen=True, eq=False)
class FitResult:
    """What a run leaves.

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


def fit(
    config: RunConfig,
    train_samples: Sequence[Sample],
    validation_samples: Sequence[Sample] | None,
    *,
    out_dir: Path,
    resume: bool = False,
    start_from: Start | None = None,
    show_progress: bool = True,
) -> FitResult:
    """Train the model of a run.

    With `trainer.devices` above 1 this process starts the others and waits for them (a script that calls it needs
    `if __name__ == "__main__":`), unless torchrun or Slurm has started them; `out_dir` is then on a disk they share.

    Args:
        config: everything that decides the result.
        train_samples: prepared graphs to learn from; a store, or any sequence.
        validation_samples: prepared graphs that select the weights and steer the schedule, if it asks for that.
        out_dir: of the run; gets `checkpoints/` and `metrics.csv`.
        resume: continue the run in `out_dir` where it stopped, or start if there is nothing to continue.
        start_from: weights of another model to start with.
        show_progress: show the progress bar.

    Raises:
        ConfigError: settings that make no sense here, or a folder that cannot be written.
        RunError: the run failed: interrupted, diverged, disk full. Its last checkpoint is kept.
        ArtifactError: a damaged or foreign checkpoint.
    """
    _check(config, train_samples, validation_samples)
    check_devices(config.trainer)
    check_launch(config.trainer.devices, config.trainer.num_nodes)
    checkpoints = checkpoints_of(out_dir)
    checkpoints.open()
    facts = _facts(config, train_samples, validation_samples)
    latest = checkpoints.latest()
    if latest is None:
        facts |= {"scale": _scale(config, train_samples)}
    elif resume:
        _check_same(latest[0], facts, out_dir)
        facts |= {"scale": latest[0]["scale"]}
    else:
        raise ConfigError(f"{out_dir} already holds a run; continue it with --resume, or choose another folder")
    check_labels(config, train_samples, validation_samples)
    arguments: dict[str, Any] = {
        "config": config,
        "train_samples": train_samples,
        "validation_samples": validation_samples,
        "out_dir": out_dir,
        "facts": facts,
        "start": start_from,
        "show_progress": show_progress,
    }
    devices = num_devices(config.trainer)
    if devices > 1 and not started_from_outside():
        run_together(train, devices, arguments)
    else:
        train(**arguments)
    return read_result(config, out_dir)


def read_result(config: RunConfig, out_dir: Path) -> FitResult:
    """The result of the run in a folder, as far as it has come."""
    latest = checkpoints_of(out_dir).latest()
    if latest is None:
        raise ArtifactError(f"{out_dir} holds no checkpoint of a run")
    state, tensors = latest
    progress = Progress.from_json(state["progress"])
    epoch = len(progress.history) - 1
    weights = named(tensors, "model") | named(tensors, "average")
    if config.trainer.select == "best" and progress.best is not None:
        epoch = progress.best.epoch
        _, weights = read_tensors(checkpoints_of(out_dir).folder / progress.best.file)
    row = next((row for row in progress.history if row["epoch"] == epoch), {})
    metrics = {name.removeprefix("val_"): value for name, value in row.items() if name.startswith("val_")}
    scale = state["scale"]
    return FitResult(
        weights, epoch, metrics, progress.history, None if scale is None else TargetScale(**_tuples(scale))
    )


def _tuples(scale: Mapping[str, list[float]]) -> dict[str, tuple[float, ...]]:
    return {name: tuple(values) for name, values in scale.items()}


def _check(config: RunConfig, train_samples: Sequence[Sample], validation: Sequence[Sample] | None) -> None:
    if not len(train_samples):
        raise DataError("the training split has no graphs")
    if validation is None or not len(validation):
        needs = [
            setting
            for setting, asked in (
                ("trainer.select: best", config.trainer.select == "best"),
                (f"schedule: {config.schedule.kind}", config.schedule.needs_validation),
            )
            if asked
        ]
        if needs:
            raise ConfigError(
                f"there is no validation split, but {' and '.join(needs)} needs one; give some graphs to validation, "
                "or set trainer.select to last and schedule to constant"
            )


def _facts(config: RunConfig, train_samples: Sequence[Sample], validation: Sequence[Sample] | None) -> dict[str, Any]:
    """What a checkpoint has to agree with: settings and data."""
    sizes = graph_sizes(train_samples)
    return {
        "config": config.model_dump(mode="json"),
        "data": hashlib.sha256(sizes.tobytes()).hexdigest(),
        "content": [each.fingerprint if isinstance(each, Store) else None for each in (train_samples, validation)],
    }


def _check_same(kept: Mapping[str, Any], facts: Mapping[str, Any], out_dir: Path) -> None:
    known = parse_config(kept["config"], f"the settings of the run in {out_dir}")  # with those that are new since
    ours, theirs = _paths(facts["config"]), _paths(known.model_dump(mode="json"))
    if known.data.custom is None:  # runs on graphs in memory did not always keep their schema
        ours = {path: value for path, value in ours.items() if path[:2] != ("data", "custom")}
        theirs.pop(("data", "custom"))
    paths = [path for path in {**ours, **theirs} if ours.get(path) != theirs.get(path) and path not in _FREE]
    if paths:
        raise ConfigError(
            f"the run in {out_dir} was started with other settings: {', '.join('.'.join(path) for path in paths)}; "
            "resume with the same ones, or start a new run in another folder"
        )
    if kept["data"] != facts["data"] or kept.get("content", facts["content"]) != facts["content"]:
        raise ConfigError(
            f"the run in {out_dir} was started on other data: graphs or targets of training or validation have changed "
            "since; put the data back, or start a new run in another folder"
        )


def _paths(config: Mapping[str, Any], above: tuple[str, ...] = ()) -> dict[tuple[str, ...], str]:
    """The settings as path -> value."""
    flat: dict[tuple[str, ...], str] = {}
    for name, value in config.items():
        path = (*above, name)
        flat |= _paths(value, path) if isinstance(value, dict) else {path: repr(value)}
    return flat


def _scale(config: RunConfig, samples: Sequence[Sample]) -> dict[str, list[float]] | None:
    """Mean and std of the training targets, where the task standardizes them."""
    name = f"{config.model.level}_targets"

    def rows() -> Iterator[NDArray[np.float64]]:
        for sample in samples:
            values = getattr(sample.graph, name)
            if values is None:
                raise DataError(f"graph {sample.graph.id!r} of the training split has no {name}")
            yield values

    scale = config.task.scale(rows())
    return None if scale is None else {"mean": list(scale.mean), "std": list(scale.std)}
