"""What is checked before a run starts, each thing once: machine, folder, splits, labels, and what is continued."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egt.assemble import build_task
from egt.config.load import parse_config
from egt.config.run import RunConfig, TrainerConfig, settings_that_affect
from egt.data.encodings.encoding import Sample
from egt.data.source import DataCard
from egt.errors import ConfigError, DataError, counted
from egt.inference.backends import has_cuda
from egt.parts.tasks.task import TargetScale, fixed_columns
from egt.processes import find_launch

log = logging.getLogger(__name__)
Rows = NDArray[np.float64]
FEWEST, FEW = 3, 20  # rows without which nothing can be learned, and so few that a part of them tells little
_SMALLEST_LABEL = 1e-34
_FLOAT32_STEPS = 1e-5  # a spread below this share of the mean is less than a hundred steps of a float32
_DIVISION_HINT = "--set split=stratified, split.seed=1 or split.fractions=[0.6, 0.2, 0.2]"


def check_machine(settings: TrainerConfig) -> None:
    """Raise a `ConfigError` where the machine does not have what the run asks for, or a launcher started otherwise."""
    check_devices(settings)
    check_launch(settings.devices, settings.num_nodes)


def check_devices(settings: TrainerConfig) -> None:
    """Raise a `ConfigError` where the machine does not have the devices that the run asks for."""
    there = {"gpu": torch.cuda.is_available() or torch.backends.mps.is_available()}
    there |= {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(settings.accelerator, True):
        raise ConfigError(
            f"trainer.accelerator is {settings.accelerator}, and PyTorch finds none on this machine; "
            "use auto or cpu, or install the PyTorch that fits your GPU"
        )
    if settings.precision == "16" and not has_cuda(settings):
        raise ConfigError("trainer.precision 16 needs a GPU; on a CPU use bf16 or 32")
    if has_cuda(settings) and settings.devices != "auto" and settings.devices > torch.cuda.device_count():
        raise ConfigError(
            f"trainer.devices is {settings.devices}, and this machine has {torch.cuda.device_count()} GPUs; "
            "lower it, or set trainer.accelerator to cpu"
        )


def check_launch(devices: int | str, num_nodes: int) -> None:
    """Raise a `ConfigError` unless the processes that a launcher has started are those that the run asks for.

    Otherwise they would train alone in one folder, or wait forever for others.
    """
    started = find_launch()
    if num_nodes > 1 and started is None:
        raise ConfigError(
            f"trainer.num_nodes is {num_nodes}, but nobody has started the processes on the other machines: "
            "use torchrun or Slurm (docs/commands.md), or leave trainer.num_nodes at 1"
        )
    if started is not None and devices != "auto" and started.count != int(devices) * num_nodes:
        raise ConfigError(
            f"{started.count} processes were started, but trainer.devices x trainer.num_nodes is "
            f"{int(devices) * num_nodes}: --set trainer.devices={max(1, started.count // num_nodes)}"
        )


def check_rows(config: RunConfig, card: DataCard, *, is_divided_within: bool) -> None:
    """Refuse custom data with fewer graphs than splits; advise those who have few to use them all for testing."""
    schema, rows = config.data.custom, sum(card.split_sizes.values())
    if schema is None or not config.task.answers or is_divided_within or schema.level == "link":
        return
    where = config.data.source
    if rows < FEWEST:
        raise DataError(
            f"{where}: {counted(rows, 'row')}, and a model needs at least {FEWEST}, to learn from, to choose its epoch "
            "and to be tested; give more rows (some dozens say something about new ones)"
        )
    if rows <= FEW and schema.split.kind != "column" and schema.split.fold is None:
        log.warning(
            "%s: of %d rows only %d are for testing, which says little; --folds 5 tests every row once",
            where,
            rows,
            card.split_sizes.get("test", 0),
        )


def check_splits(config: RunConfig, training: Sequence[Sample], validation: Sequence[Sample]) -> None:
    """Raise an error where a split that the run needs has no graphs."""
    if not len(training):
        raise DataError("the training split has no graphs")
    if len(validation):
        return
    needs = ["trainer.select: best"] if config.trainer.select == "best" else []
    needs += ["trainer.patience"] if config.trainer.patience is not None else []
    needs += [f"schedule: {config.schedule.kind}"] if config.schedule.needs_validation else []
    if needs:
        raise ConfigError(
            f"there is no validation split, but {' and '.join(needs)} needs one; give some graphs to validation, "
            "or set trainer.select to last and schedule to constant"
        )


def check_same_run(kept: Mapping[str, Any], facts: Mapping[str, Any], folder: Path) -> None:
    """Raise a `ConfigError` unless a checkpoint is of the run that is to be continued: same settings, same data."""
    known = parse_config(kept["config"], f"the settings of the run in {folder}")  # with those that are new since
    ours, theirs = _paths(facts["config"]), _paths(known.model_dump(mode="json"))
    if known.data.custom is None:  # runs on graphs in memory did not always keep their schema
        ours = {path: value for path, value in ours.items() if path[:2] != ("data", "custom")}
        theirs.pop(("data", "custom"))
    free = settings_that_affect("speed") | (set() if known.schedule.follows_length else settings_that_affect("length"))
    paths = [path for path in {**ours, **theirs} if ours.get(path) != theirs.get(path) and path not in free]
    if paths:
        raise ConfigError(
            f"the run in {folder} was started with other settings: {', '.join('.'.join(path) for path in paths)}; "
            "resume with the same ones, or start a new run in another folder"
        )
    if kept["data"] != facts["data"] or kept.get("content", facts["content"]) != facts["content"]:
        raise ConfigError(
            f"the run in {folder} was started on other data: graphs or targets of training or validation have changed "
            "since; put the data back, or start a new run in another folder"
        )


def check_threads(kept: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Warn where a run continues with a different number of threads. Arguments as in `check_same_run`."""
    before, now = kept.get("threads", facts["threads"]), facts["threads"]
    if before != now:
        log.warning(
            "the run was started with %d threads and continues with %d: sums are added up in a different order, so the "
            "last digits will differ from those of an uninterrupted run (OMP_NUM_THREADS=%d avoids this)",
            before,
            now,
            before,
        )


def _paths(config: Mapping[str, Any], above: tuple[str, ...] = ()) -> dict[tuple[str, ...], str]:
    """Return the settings as path -> value."""
    flat: dict[tuple[str, ...], str] = {}
    for name, value in config.items():
        path = (*above, name)
        flat |= _paths(value, path) if isinstance(value, dict) else {path: repr(value)}
    return flat


def read_labels(config: RunConfig, samples: Sequence[Sample]) -> list[Rows]:
    """Return the labels of each graph, (rows, label_width) each, NaN where missing; graphs are read once for all."""
    name = f"{config.model.level}_targets"
    missing, labels = "", []
    for sample in samples:
        rows = _targets(config, sample)
        labels.append(rows)
        if getattr(sample.graph, name) is None:
            missing = missing or f"graph {sample.graph.id!r} of the training split has no {name}"
    if missing and any(len(rows) for rows in labels):
        raise DataError(missing)
    return labels


def fit_task(config: RunConfig, labels: Sequence[Rows]) -> RunConfig:
    """Return the run with settings of its task that the training labels decide."""
    task = config.task.fitted(iter(labels))
    return config if task is config.task else config.model_copy(update={"task": task})


def fit_scale(config: RunConfig, labels: Sequence[Rows]) -> TargetScale | None:
    """Return mean and std of the training labels, where the task standardizes them."""
    scale = config.task.scale(iter(labels))
    if scale is not None:
        check_spread(config.task.names, map(config.task.numbers, labels), scale)
    return scale


def check_labels(config: RunConfig, labels: Sequence[Rows], validation: Sequence[Sample]) -> None:
    """Raise a `DataError` where training or validation has no label at all, or training those of one class.

    A metric that cannot be computed is only a warning: weights are selected by the loss.
    """
    if not config.task.answers:
        return
    for name, rows in (("training", labels), ("validation", (_targets(config, sample) for sample in validation))):
        count = len(labels if name == "training" else validation)
        if count and all(np.isnan(each).all() for each in rows):
            raise DataError(
                f"no graph of the {name} split has a label for {', '.join(config.task.names)} "
                f"({counted(count, 'graph')}); give some of them labels, or split the data differently "
                f"(your data: {_DIVISION_HINT})"
            )
    _check_classes(config, labels)
    if len(validation) and not _is_computable(config, validation):
        log.warning(
            "%s cannot be computed on the validation split, which lacks labels (e.g. of the other class). Training "
            "continues and selects weights by the loss; to see the metric, split the data differently (your data: %s)",
            config.task.deciding_metric,
            _DIVISION_HINT,
        )


def _check_classes(config: RunConfig, labels: Sequence[Rows]) -> None:
    """Raise a `DataError` where the run learns classes, and all training labels are of one."""
    pieces = [piece for piece in config.task.pieces if piece.part.has_classes]
    if len(pieces) < len(config.task.pieces):
        return
    names = [name for piece in pieces for name in piece.part.names]
    seen: set[tuple[int, float]] = set()
    for rows in labels:
        columns = enumerate(config.task.numbers(rows).T)
        seen |= {(column, label) for column, each in columns for label in np.unique(each[~np.isnan(each)])}
        if len(seen) > len({column for column, _ in seen}):
            return
    found = ", ".join(f"{names[column]} = {label:g}" for column, label in sorted(seen)[:5])
    raise DataError(
        f"all labels of the training split are of one class ({found}): there is nothing to learn; "
        f"split the data differently (your data: {_DIVISION_HINT})"
    )


def check_columns(config: RunConfig, *, spread: bool = False) -> None:
    """Raise a `DataError` where two columns of the predictions would have one name.

    spread: there are also the deviations between the models of an ensemble.
    """
    if not config.task.answers:
        return
    taken = {*fixed_columns(config.model.level)}
    for name, kind in [(name, piece.part) for piece in config.task.pieces for name in piece.part.names]:
        part = kind.model_copy(update={"names": (name,)})
        zeros = np.zeros(part.num_outputs, np.float32)
        columns = {*part.columns(zeros), *part.true_columns(np.full(part.label_width, np.nan))}
        columns |= {*part.spread_columns(zeros, zeros)} if spread else set()
        if both := sorted(columns & taken):
            raise DataError(
                f"target {name!r}: predictions have another column {both[0]!r} already; rename the target in the data"
            )
        taken |= columns


def check_spread(names: Sequence[str], rows: Iterable[Rows], scale: TargetScale) -> None:
    """Look at how far the training labels of each target, each (T,) or (rows, T), are apart.

    Those that are smaller than a float32 can represent are a `DataError`, those without a spread a warning.
    """
    values = np.concatenate([np.atleast_2d(row) for row in rows])
    for name, labels, mean, std in zip(names, values.T, scale.mean, scale.std, strict=True):
        known = labels[~np.isnan(labels)]
        largest = float(np.abs(known).max(initial=0.0))
        if 0 < largest < _SMALLEST_LABEL:
            raise DataError(
                f"target {name}: the largest label is {largest:g}, too small for single precision; "
                "give the labels in a smaller unit"
            )
        if len(known) > 1 and std == 1.0 and np.ptp(known) <= 1e-9 * largest:
            log.warning(
                "target %s: all %d training labels are %g: there is nothing to learn about it", name, len(known), mean
            )
        elif std < _FLOAT32_STEPS * abs(mean):
            log.warning(
                "target %s: its labels lie within %g of %g, which single precision can hardly tell apart: "
                "subtract %g from them to learn their differences",
                name,
                std,
                mean,
                mean,
            )


def _is_computable(config: RunConfig, samples: Sequence[Sample]) -> bool:
    """Whether the metric is a number on these samples, whatever is predicted."""
    task = build_task(config)
    scores = task.scores()
    for sample in samples:
        target = torch.tensor(_targets(config, sample), dtype=torch.float32)
        scores.update(torch.zeros(len(target), config.task.num_outputs), target)
    return not math.isnan(scores.compute()[config.task.deciding_metric])


def _targets(config: RunConfig, sample: Sample) -> Rows:
    """(rows, label_width) the targets of a graph at the level of the run, NaN where missing; none when it has none."""
    values, width = getattr(sample.graph, f"{config.model.level}_targets"), config.task.label_width
    return np.empty((0, width)) if values is None else values.reshape(-1, width)
