"""A complete run: configuration -> data -> trained model -> metrics -> artifact."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from egt.assemble import build_model, build_task
from egt.config.run import RunConfig
from egt.config.run_data import in_pieces, keep_schema, open_labeled, prepare_split
from egt.data.batching.loader import graph_sizes
from egt.data.encodings.encoding import Sample
from egt.data.source import SPLITS, Progress, Source
from egt.data.store import Store
from egt.errors import ConfigError, DataError
from egt.inference.backends import execution
from egt.parts.tasks.task import TargetScale
from egt.processes import is_first, launched, num_devices
from egt.training.callbacks import Callback
from egt.training.checkpoint import Trained, checkpoints_of, read_trained
from egt.training.checks import (
    check_columns,
    check_labels,
    check_learned,
    check_machine,
    check_same_run,
    check_splits,
    check_spread,
    check_threads,
    check_unused,
)
from egt.training.loop import loop
from egt.training.memory_guard import check_model, check_sizes, fit_into_memory
from egt.training.run_folder import (
    ARTIFACT,
    check_not_foreign,
    claimed,
    keep_config,
    remove_leftovers,
    run_folder,
    try_folder,
    unchanged_if_refused,
)
from egt.training.work import Job

if TYPE_CHECKING:
    from egt.inference.artifact import Artifact
    from egt.training.finetune import Start

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a complete run leaves.

    Fields:
        path: of the artifact.
        artifact: the trained model with its metrics.
        epoch: the epoch, from 0, whose weights were selected.
        history: a row for each epoch.
        problems: split -> how many of its rows could not be read.
        is_first: whether this process wrote the artifact; of several, only one does and knows the metrics.
        members: of an ensemble, what each of its runs leaves; `artifact`, `epoch` and `history` are those of the first,
            with the metrics of all. Empty for a single run.
    """

    path: Path
    artifact: Artifact
    epoch: int
    history: Sequence[Mapping[str, float]]
    problems: Mapping[str, int]
    is_first: bool = True
    members: Sequence[Outcome] = ()


def train(
    config: RunConfig,
    out: Path | str | None = None,
    *,
    source: Source | None = None,
    resume: bool = False,
    show_progress: bool = True,
    watch: Progress | None = None,
    callbacks: Sequence[Callback] = (),
) -> Outcome:
    """Train and evaluate a run, and save its artifact.

    Args:
        config: everything that decides the result.
        out: the run folder, `runs/<name>` by default; gets `config.yaml`, `metrics.csv`, `checkpoints/`, `artifact/`.
        source: the data, if it is open already.
        resume: continue the run in `out`.
        show_progress: show a progress bar while training.
        watch: receives the progress of the preparation of graphs.
        callbacks: receive each step and epoch.
    """
    folder = run_folder(config.name) if out is None else Path(out)
    if not resume:
        check_unused(folder)
    check_not_foreign(folder, resume)
    check_machine(config.trainer)
    if source is None:
        try_folder(folder)  # before data is opened, which can take long
        source = open_labeled(config)
    config = keep_schema(with_names(config, source), source)
    with _held(folder, resume):
        begun = bool(checkpoints_of(folder).generations())
        if not begun:
            check_columns(config)
        start = None if begun else _start(config)
        check_model(config)
        check_sizes(config, source.card)
        _keep(config, folder)  # a run that is killed from here on can be resumed without its options
        stores = _prepare(config, source, watch)
        fitted = _fitted(_with_fitted_task(config, stores["train"]), stores)
        if fitted is not config:
            config = fitted
            _keep(config, folder)
        result = train_on(
            config,
            stores["train"],
            stores.get("val"),
            folder,
            resume=True,
            start=start,
            show_progress=show_progress,
            callbacks=callbacks,
        )
        path = folder / ARTIFACT
        problems = {name: sum(1 for row in store.problems if row.error) for name, store in stores.items()}
        artifact = _artifact(config, source, stores, result, problems, path)
        return Outcome(path, artifact, result.epoch, result.history, problems, is_first=is_first())


def train_on(
    config: RunConfig,
    training: Sequence[Sample],
    validation: Sequence[Sample] | None,
    folder: Path,
    *,
    resume: bool = False,
    start: Start | None = None,
    show_progress: bool = True,
    callbacks: Sequence[Callback] = (),
) -> Trained:
    """Train the model of a run on graphs that are prepared: the loop, in as many processes as it asks for.

    With `trainer.devices` above 1 this process starts the others and waits for them (a script that calls it needs
    `if __name__ == "__main__":`), unless torchrun or Slurm has started them; `folder` is then on a disk they share.

    Args:
        config: everything that decides the result.
        training: prepared graphs to learn from; a store, or any sequence.
        validation: prepared graphs that select the weights and steer the schedule, if it asks for that.
        folder: of the run; gets `checkpoints/` and `metrics.csv`.
        resume: continue the run in `folder` where it stopped, or start if there is nothing to continue.
        start: weights of another model to start with.
        show_progress: show a progress bar.
        callbacks: receive each step and epoch.

    Raises:
        ConfigError: settings that make no sense here, or a folder that cannot be written.
        RunError: the run failed: interrupted, diverged, disk full. Its last checkpoint is kept.
        ArtifactError: a damaged or foreign checkpoint.
    """
    check_splits(config, training, validation)
    if not resume:
        check_unused(folder)
    checkpoints = checkpoints_of(folder)
    checkpoints.open()
    facts = _facts(config, training, validation)
    kept = checkpoints.latest()
    if kept is None:
        scale = _scale(config, training)
        facts["scale"] = None if scale is None else scale.to_json()
    else:
        check_same_run(kept[0], facts, folder)
        check_threads(kept[0], facts)
        checkpoints.check_best(config, kept[0])
        facts["scale"] = kept[0]["scale"]
    check_labels(config, training, validation)
    job = Job(config, training, validation or (), folder, facts, start, show_progress, callbacks)
    devices = num_devices(config.trainer)
    if devices > 1 and launched() is None:
        from egt.processes import run_together

        run_together(loop, devices, {"job": job})
    else:
        loop(job)
    return read_trained(config, folder)


def with_names(config: RunConfig, source: Source) -> RunConfig:
    """Return the run with targets and classes called as in its data."""
    if config.data.custom is not None:
        return config
    target = source.card.target
    return config.model_copy(update={"task": config.task.named(target.names, target.class_names)})


@contextmanager
def _held(folder: Path, resume: bool) -> Iterator[None]:
    """Check again that the folder belongs to this run: another one may have come since the first check.

    Of several processes the first one holds it.
    """
    if not is_first():
        yield
        return
    with claimed(folder):
        if not resume:
            check_unused(folder)
        remove_leftovers(folder)
        with unchanged_if_refused(folder):
            yield


def _prepare(config: RunConfig, source: Source, watch: Progress | None) -> dict[str, Store]:
    """Return the splits that have graphs."""
    stores = {}
    for split in SPLITS:
        if not source.card.split_sizes.get(split):
            continue
        store = prepare_split(config, source, split, progress=watch)
        for problem in store.problems[:5]:
            if problem.error:
                log.warning("%s: row %s (%s) is left out: %s", split, problem.row + 1, problem.id, problem.error)
        if len(store):
            stores[split] = store
    if "train" not in stores:
        raise ConfigError(f"{config.data.source}: no graph of the training split can be read")
    return stores


def _start(config: RunConfig) -> Start | None:
    """Return the weights that a new run starts from; None for random ones."""
    if config.start is None:
        return None
    from egt.training.finetune import load_start

    return load_start(config)


def _keep(config: RunConfig, folder: Path) -> None:
    if is_first():
        keep_config(config, folder)


def _facts(config: RunConfig, training: Sequence[Sample], validation: Sequence[Sample] | None) -> dict[str, Any]:
    """Return what a checkpoint has to agree with: settings and data."""
    sizes = graph_sizes(training)
    return {
        "config": config.model_dump(mode="json"),
        "data": hashlib.sha256(sizes.tobytes()).hexdigest(),
        "content": [each.fingerprint if isinstance(each, Store) else None for each in (training, validation)],
        "threads": torch.get_num_threads(),
    }


def _fitted(config: RunConfig, stores: Mapping[str, Store]) -> RunConfig:
    """Return the run as it fits into memory (`fit_into_memory`)."""
    computed = {name: in_pieces(config, store, training=name == "train") for name, store in stores.items()}
    return fit_into_memory(config, computed)


def _with_fitted_task(config: RunConfig, samples: Sequence[Sample]) -> RunConfig:
    """Return the run with settings of its task that the training labels decide."""
    task = config.task.fitted(_training_targets(config, samples))
    return config if task is config.task else config.model_copy(update={"task": task})


def _training_targets(config: RunConfig, samples: Sequence[Sample]) -> Iterator[NDArray[np.float64]]:
    name = f"{config.model.level}_targets"
    for sample in samples:
        values = getattr(sample.graph, name)
        if values is None:
            raise DataError(f"graph {sample.graph.id!r} of the training split has no {name}")
        yield values


def _scale(config: RunConfig, samples: Sequence[Sample]) -> TargetScale | None:
    """Return mean and std of the training targets, where the task standardizes them."""

    def rows() -> Iterator[NDArray[np.float64]]:
        for values in _training_targets(config, samples):
            labels.append(values)
            yield values

    labels: list[NDArray[np.float64]] = []
    scale = config.task.scale(rows())
    if scale is not None:
        check_spread(config.task.names, labels, scale)
    return scale


def _artifact(
    config: RunConfig,
    source: Source,
    stores: Mapping[str, Store],
    result: Trained,
    problems: Mapping[str, int],
    path: Path,
) -> Artifact:
    """Evaluate the trained model and save it; in the other processes of a run, an untrained one stands for it."""
    from egt.inference.artifact import Artifact, save_artifact
    from egt.inference.calibrating import Seen, calibrate, labeled_graphs, measure_coverage
    from egt.inference.evaluation import evaluate

    if not is_first():
        return Artifact(config, build_model(config))
    model = build_model(config, backend=execution(config, training=False).backend)
    model.load_state_dict(dict(result.weights))
    model.eval()
    task = build_task(config, result.scale)
    held_out = [name for name in ("val", "test") if name in stores]
    seen = {name: Seen(task) for name in held_out if config.task.answers}
    found = {name: evaluate(model, task, config, stores[name], see=seen.get(name)) for name in held_out}
    metrics = {name: each.metrics for name, each in found.items()}
    check_learned(config, stores, metrics)
    card = source.card
    data = {
        "card": {**asdict(card), "vocabulary": {}, "split_sizes": {name: len(store) for name, store in stores.items()}},
        "fingerprint": source.fingerprint(),
        "scale": None if result.scale is None else result.scale.to_json(),
        "unreadable_rows": problems,
        "epoch": result.epoch,
        "metrics_by_target": {name: each.by_target for name, each in found.items() if each.by_target},
    }
    calibration = None
    if "val" in seen:
        calibration = calibrate(
            config.task,
            *seen["val"].arrays(),
            transductive=source.is_divided_within,
            num_graphs=labeled_graphs(config, metrics["val"]),
        )
    if calibration is not None and "test" in seen:
        data["coverage"] = measure_coverage(config.task, calibration, *seen["test"].arrays())
    artifact = Artifact(config, model, metrics, data, calibration=calibration)
    save_artifact(artifact, path)
    return artifact
