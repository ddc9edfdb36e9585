"""A complete run: configuration -> data -> trained model -> metrics -> artifact."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from egt.artifact.artifact import Artifact, load_artifact, save_artifact
from egt.assemble import build_model, build_task
from egt.config.run import RunConfig
from egt.encodings.store import Store
from egt.errors import ConfigError, RunError
from egt.inference.evaluation import evaluate
from egt.inference.run_data import keep_schema, open_source, prepare_split
from egt.sources.source import SPLITS, Progress, Source
from egt.training.devices import check_devices
from egt.training.finetune import load_start
from egt.training.fit import FitResult
from egt.training.fit import fit as train_model
from egt.training.folder import ARTIFACT, keep_config, try_folder, unchanged_if_refused
from egt.training.memory import fit_into_memory
from egt.training.processes import check_launch, is_first
from egt.training.run import checkpoints_of

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
    """

    path: Path
    artifact: Artifact
    epoch: int
    history: Sequence[Mapping[str, float]]
    problems: Mapping[str, int]
    is_first: bool = True


def fit(
    config: RunConfig,
    out: Path | str | None = None,
    *,
    source: Source | None = None,
    resume: bool = False,
    show_progress: bool = True,
    watch: Progress | None = None,
) -> Outcome:
    """Train and evaluate a run, and save its artifact.

    Args:
        config: everything that decides the result.
        out: the run folder, `runs/<name>` by default; gets `config.yaml`, `metrics.csv`, `checkpoints/`, `artifact/`.
        source: the data, if it is open already.
        resume: continue the run in `out`.
        show_progress: show a progress bar while training.
        watch: is told about the preparation of graphs.
    """
    folder = Path("runs", config.name) if out is None else Path(out)
    begun = bool(checkpoints_of(folder).generations())
    if begun and not resume:
        raise ConfigError(f"{folder} already holds a run; continue it with --resume, or choose another folder (--out)")
    check_devices(config.trainer)
    check_launch(config.trainer.devices, config.trainer.num_nodes)
    try_folder(folder)
    source = source or open_source(config)
    config = keep_schema(with_names(config, source), source)
    with unchanged_if_refused(folder) if is_first() else nullcontext():
        start = None if begun else load_start(config)
        _keep(config, folder)  # a run that is killed from here on can be resumed without its options
        stores = _prepare(config, source, watch)
        config = fit_into_memory(config, stores)
        _keep(config, folder)
        result = _train(config, stores, folder, resume=resume, start_from=start, show_progress=show_progress)
    path = folder / ARTIFACT
    problems = {name: sum(1 for row in store.problems if row.error) for name, store in stores.items()}
    if not is_first():  # another process of this run writes the artifact
        untrained = Artifact(config, build_model(config))
        return Outcome(path, untrained, result.epoch, result.history, problems, is_first=False)
    artifact = _artifact(config, source, stores, result, problems)
    save_artifact(artifact, path)
    return Outcome(path, load_artifact(path), result.epoch, result.history, problems)


def with_names(config: RunConfig, source: Source) -> RunConfig:
    """The run with targets and classes called as in its data."""
    if config.data.custom is not None:
        return config
    target = source.card.target
    return config.model_copy(update={"task": config.task.named(target.names, target.class_names)})


def _prepare(config: RunConfig, source: Source, watch: Progress | None) -> dict[str, Store]:
    """The splits that have graphs."""
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


def _keep(config: RunConfig, folder: Path) -> None:
    if is_first():
        keep_config(config, folder)


def _train(config: RunConfig, stores: Mapping[str, Store], folder: Path, **options: Any) -> FitResult:
    """The trained model; a lack of memory is told as what to do about it."""
    try:
        return train_model(config, stores["train"], stores.get("val"), out_dir=folder, **options)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and "allocate memory" not in str(error):
            raise
        raise RunError(
            "out of memory; compute a batch in smaller parts (data.pair_budget), or lower data.batch_size "
            "(`egt plan` tells what a run needs)"
        ) from error


def _artifact(
    config: RunConfig, source: Source, stores: Mapping[str, Store], result: FitResult, problems: Mapping[str, int]
) -> Artifact:
    model = build_model(config)
    model.load_state_dict(dict(result.weights))
    model.eval()
    task = build_task(config, result.scale)
    metrics = {name: evaluate(model, task, config, stores[name]) for name in ("val", "test") if name in stores}
    card = source.card
    data = {
        "card": {**asdict(card), "vocabulary": {}, "split_sizes": {name: len(store) for name, store in stores.items()}},
        "fingerprint": source.fingerprint(),
        "scale": None if result.scale is None else {"mean": result.scale.mean, "std": result.scale.std},
        "unreadable_rows": problems,
        "epoch": result.epoch,
    }
    return Artifact(config, model, metrics, data)
