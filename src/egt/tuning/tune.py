"""The front door of a search: `egt.tune` does what `egt tune` does."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from egt.api import Settings, configured
from egt.config.reading import as_words
from egt.config.run import RunConfig
from egt.errors import ConfigError, RunStopped
from egt.files import exists
from egt.graph import Level
from egt.inference.run_data import open_source
from egt.sources.custom.custom_source import CustomSource
from egt.sources.custom.schema import CustomSchema
from egt.sources.source import Progress, Source
from egt.training.run_folder import run_folder, try_folder
from egt.tuning.extra_workers import more_workers
from egt.tuning.result import Tuning, leave_best
from egt.tuning.space import Knob, first_trials, search_space
from egt.tuning.study import STUDY, Search, import_optuna, kept_search, open_study, tried
from egt.tuning.worker import Tell, Worker

log = logging.getLogger(__name__)


def tune(
    data: Any,
    target: str | Sequence[str] | None = None,
    *,
    task: Level | None = None,
    set: Settings = (),
    minutes: float = 20.0,
    trials: int | None = None,
    workers: int = 1,
    out: Path | str | None = None,
    progress: bool = True,
    watch: Progress | None = None,
    show: Callable[[CustomSchema], None] | None = None,
    tell: Tell | None = None,
) -> Tuning:
    """Search for settings that are better on validation than the default, and keep the best model.

    The first trial is the default, the next ones change one setting of it each, and the others are proposed from what
    came of those before. A search that was stopped continues when it is started again, and one that has ended
    continues for as long again.

    Args:
        data: what `egt.train` takes, or the folder of a search to continue.
        target: column(s) of your own data to predict, or patterns such as `NR-*`.
        task: level of your own data to predict, if it does not follow from the target.
        set: settings of all trials, as in `egt.train`; what is set here is not varied.
        minutes: the budget. The first trial is finished all the same, a later one is continued by the next search.
        trials: end once there are this many, including those of earlier searches in the folder.
        workers: processes that share the search; more of them, also on other machines, join with `egt tune FOLDER`.
        out: the folder of the search; runs/NAME-tuned by default.
        progress: show a progress bar while training, with one worker.
        watch: receives the progress of the preparation of graphs.
        show: receives what was inferred about your data, before the search begins.
        tell: receives each trial that has ended.
    """
    deadline = time.monotonic() + 60 * minutes
    _check_budget(minutes, trials, workers)
    import_optuna()
    folder, search, source = _opened(data, target, task, as_words(set), None if out is None else Path(out))
    config = search.run
    _check_run(config, source, workers)
    if show is not None and config.data.custom is not None:
        show(config.data.custom)
    space = _space(config, search, source)
    study = open_study(folder, search, first_trials(space))
    worker = Worker(
        study, search, space, folder, source, deadline, trials, tell, watch, progress=progress and workers == 1
    )
    try:
        with more_workers(folder, workers - 1, minutes, trials):
            worker.work()
    except RunStopped as error:
        if any(each.state == "done" for each in tried(study)):
            leave_best(study, space, folder)
        raise RunStopped(f"the search was stopped; `egt tune {folder}` continues it") from error
    return leave_best(study, space, folder)


def _opened(
    data: Any, target: str | Sequence[str] | None, task: Level | None, settings: list[str], out: Path | None
) -> tuple[Path, Search, Source]:
    """Return the folder of a search, what is searched, and the data."""
    in_memory = not isinstance(data, str | Path | RunConfig)
    if not in_memory and not isinstance(data, RunConfig) and exists(Path(data) / STUDY):
        if target or task is not None or settings or out is not None:
            raise ConfigError(f"{data} holds a search with a target and settings; continue it with `egt tune {data}`")
        search = kept_search(Path(data))
        return Path(data), search, open_source(search.run)
    config = configured(data, target, task=task, set=settings)
    folder = out or run_folder(f"{config.name}-tuned")
    try_folder(folder)
    source = open_source(config, data if in_memory else None)
    if isinstance(source, CustomSource) and not exists(folder / STUDY):
        for warning in source.warnings():
            log.warning("%s", warning)
    fixed = [setting.partition("=")[0] for setting in settings]
    return folder, Search(config.model_dump(mode="json"), fixed, source.fingerprint()), source


def _space(config: RunConfig, search: Search, source: Source) -> list[Knob]:
    num_graphs = source.card.split_sizes["train"]
    per_graph = 1.0 if config.model.level == "graph" else source.card.num_nodes[1]
    return search_space(config, num_graphs * per_graph, num_graphs, search.fixed)


def _check_budget(minutes: float, trials: int | None, workers: int) -> None:
    for option, value in (("--minutes", minutes), ("--trials", trials), ("--workers", workers)):
        if value is not None and not value > 0:
            raise ConfigError(f"{option} {value}: must be more than 0")


def _check_run(config: RunConfig, source: Source, workers: int) -> None:
    if not source.card.split_sizes.get("val"):
        raise ConfigError(
            f"{config.data.source}: there is no validation split to compare trials on; give it one, for your own data "
            "with --set split.fractions=[0.8,0.1,0.1]"
        )
    if config.trainer.devices != 1:
        raise ConfigError(
            f"trainer.devices={config.trainer.devices}: a trial is trained by one process; share the trials among "
            "several with --workers"
        )
    if workers > 1 and config.data.custom is not None and not exists(config.data.source):
        raise ConfigError(f"--workers {workers}: other processes cannot read data in memory; give a file, or 1 worker")
