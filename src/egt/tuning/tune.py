"""The front door of a search: `egt.tune` does what `egt tune` does.

A search leaves `run.yaml` with the best settings, the artifact of the best trial, and a page. More workers on this
machine are `egt tune FOLDER` in processes of their own, as on another machine.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from egt.api import configured
from egt.charts import line_chart
from egt.config.load import Setting, Settings, parse_settings, read_config
from egt.config.run import RunConfig
from egt.config.run_data import open_source
from egt.data.schema import CustomSchema
from egt.data.source import Progress, Source
from egt.errors import ConfigError, RunError, RunStopped
from egt.files import exists, write_atomically
from egt.graph import Level
from egt.inference.artifact import CARD, put_folder
from egt.inference.predictor import Predictor, load
from egt.pages import Sheet, figure, page, write_page
from egt.training.record import RunRecord, read_run
from egt.training.run_folder import ARTIFACT, CONFIG, METRICS, hold_folder, remove_leftovers, run_folder, try_folder
from egt.training.state import higher_is_better, measure
from egt.tuning.space import Knob, collect_changes, first_trials, search_space
from egt.tuning.study import (
    STUDY,
    Report,
    Search,
    Tried,
    Worker,
    import_optuna,
    list_trials,
    open_study,
    read_search,
    text,
    trial_folder,
    trial_rows,
)

if TYPE_CHECKING:
    from optuna.study import Study


log = logging.getLogger(__name__)
_STATES = {
    "pruned": "pruned: ended because it was worse than the median at the same epoch",
    "open": "open: stopped before its end, at its best validation so far; the same command continues it",
}
"""What is said below the table about trials that did not run to their end."""


def tuning_page(found: Tuning, space: Sequence[Knob]) -> str:
    """Return an HTML page about a search over a space that stands alone."""
    default, best = found.trials[0], found.best
    records = {"default": default, "best": best} if default.state == "done" else {"best": best}
    runs = {name: read_run(trial_folder(found.folder, trial.number)) for name, trial in records.items()}
    columns, rows = found.table()
    sections = [
        ("The best settings", _settings(space, best)),
        ("Metrics", _metrics(runs)),
        ("The search", _search_figure(found)),
        ("How they learned", _curves(runs, found.measure)),
        ("All trials", Sheet("", columns, rows, _notes(found.trials)).html()),
    ]
    lead = f"Trial {best.number} of {len(found.trials)} has the best validation {found.measure}: {best.score:.4g}"
    return page(f"{found.config.name}: tuning", lead, sections)


def _settings(space: Sequence[Knob], best: Tried) -> str:
    rows = [(knob.name, text(knob.default), text(best.values[knob.name])) for knob in space]
    return Sheet("", ("setting", "default", "best"), rows).html()


def _metrics(runs: dict[str, RunRecord]) -> str:
    """Return the metrics of the default and of the best trial; the search has looked at those of validation only."""
    metrics = runs["best"].metrics
    rows = [
        (split, name, *(_number(run.metrics[split][name]) for run in runs.values()))
        for split, values in metrics.items()
        for name in values
        if not name.startswith("num_")
    ]
    notes = ("The best trial was chosen on validation, where it therefore looks better than it is; compare on test.",)
    return Sheet("", ("split", "metric", *runs), rows, notes).html()


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"


def _search_figure(found: Tuning) -> str:
    higher = higher_is_better(found.config)
    worst = -math.inf if higher else math.inf
    scores = [each.score if each.state == "done" and each.score is not None else worst for each in found.trials]
    series = {"best so far": list(accumulate(scores, max if higher else min)), "each trial": scores}
    caption = "Validation score of each trial that ran to its end, and of the best one so far"
    return figure(line_chart(series, "trials so far", found.measure), caption)


def _curves(runs: dict[str, RunRecord], measure: str) -> str:
    series = {name: [row[f"val_{measure}"] for row in run.history] for name, run in runs.items()}
    return figure(line_chart(series, "epoch", f"validation {measure}"), f"validation {measure}")


def _notes(trials: Sequence[Tried]) -> list[str]:
    failed = [f"trial {trial.number} failed: {trial.error}" for trial in trials if trial.error]
    states = {trial.state for trial in trials}
    return failed + [note for state, note in _STATES.items() if state in states]


@contextmanager
def more_workers(folder: Path, count: int, minutes: float, trials: int | None) -> Iterator[None]:
    """Let more workers take part in the search in a folder; at the end they are waited for, or stopped if it fails.

    Meanwhile the threads of this process are its share of the cores.
    """
    if not count:
        yield
        return
    threads = torch.get_num_threads()
    share = max(1, threads // (count + 1))
    # -P: else Python would import whatever lies in the current folder under the name of a library.
    words = [sys.executable, "-P", "-m", "egt", "tune", str(folder), "--minutes", f"{minutes:.6g}", "--json"]
    words += [] if trials is None else ["--trials", str(trials)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(share)}
    others = [subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) for _ in range(count)]
    torch.set_num_threads(share)
    try:
        yield
        if failed := [other.returncode for other in others if other.wait()]:  # what this one has found is as good
            log.warning("%d of %d other workers failed, see above", len(failed), count)
    finally:
        for other in others:
            other.terminate()
            other.wait()
        torch.set_num_threads(threads)


RUN, REPORT = "run.yaml", "report.html"


@dataclass(frozen=True)
class Tuning:
    """What `egt.tune` leaves.

    Fields:
        settings: in which it differs from the default, path -> value; `egt.train(..., set=settings)` trains it again.
    """

    folder: Path
    config: RunConfig
    settings: Mapping[str, Any]
    trials: Sequence[Tried]
    best: Tried

    @property
    def path(self) -> Path:
        """The artifact of the best trial."""
        return self.folder / ARTIFACT

    @property
    def measure(self) -> str:
        """What is compared on validation."""
        return measure(self.config)

    @cached_property
    def model(self) -> Predictor:
        """The model of the best trial."""
        return load(self.path)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the columns and the rows of a table of all trials (`trial_rows`)."""
        return trial_rows(self.trials, self.best.number)


def leave_best(study: Study, space: Sequence[Knob], folder: Path) -> Tuning:
    """Write what a search has found so far; a `RunError` where no trial has finished, as others are busy with them."""
    with hold_folder(folder):  # other workers may end at the same moment
        remove_leftovers(folder)
        trials = list_trials(study)
        if not any(each.state == "done" for each in trials):
            raise RunError(f"{folder}: no trial has finished yet; continue with `egt tune {folder}`")
        best = next(each for each in trials if each.number == study.best_trial.number)
        place = trial_folder(folder, best.number)
        put_folder(folder / ARTIFACT, CARD, lambda draft: shutil.copytree(place / ARTIFACT, draft, dirs_exist_ok=True))
        for source, target in ((place / ARTIFACT / CONFIG, folder / RUN), (place / METRICS, folder / METRICS)):
            with write_atomically(target) as draft:
                shutil.copyfile(source, draft)
        found = Tuning(folder, read_config(folder / RUN), collect_changes(space, best.values), trials, best)
        write_page(folder / REPORT, tuning_page(found, space))
    return found


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
    tell: Report | None = None,
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
    for option, value in (("--minutes", minutes), ("--trials", trials), ("--workers", workers)):
        if value is not None and not value > 0:
            raise ConfigError(f"{option} {value}: must be more than 0")
    import_optuna()
    folder, search, source = _open_search(data, target, task, parse_settings(set), None if out is None else Path(out))
    config = search.run
    _check_run(config, source, workers)
    if show is not None and config.data.custom is not None:
        show(config.data.custom)
    num_graphs = source.card.split_sizes["train"]
    per_graph = 1.0 if config.model.level == "graph" else source.card.num_nodes[1]
    space = search_space(config, num_graphs * per_graph, num_graphs, search.fixed)
    study = open_study(folder, search, first_trials(space))
    worker = Worker(
        study, search, space, folder, source, deadline, trials, tell, watch, progress=progress and workers == 1
    )
    try:
        with more_workers(folder, workers - 1, minutes, trials):
            worker.work()
    except RunStopped as error:
        if any(each.state == "done" for each in list_trials(study)):
            leave_best(study, space, folder)
        raise RunStopped(f"the search was stopped; `egt tune {folder}` continues it") from error
    return leave_best(study, space, folder)


def _open_search(
    data: Any, target: str | Sequence[str] | None, task: Level | None, settings: list[Setting], out: Path | None
) -> tuple[Path, Search, Source]:
    """Return the folder of a search, what is searched, and the data."""
    in_memory = not isinstance(data, str | Path | RunConfig)
    if not in_memory and not isinstance(data, RunConfig) and exists(Path(data) / STUDY):
        if target or task is not None or settings or out is not None:
            raise ConfigError(f"{data} holds a search with a target and settings; continue it with `egt tune {data}`")
        search = read_search(Path(data))
        return Path(data), search, open_source(search.run)
    config = configured(data, target, task=task, set=settings)
    folder = out or run_folder(f"{config.name}-tuned")
    try_folder(folder)
    source = open_source(config, data if in_memory else None)
    if not exists(folder / STUDY):
        for warning in source.warnings():
            log.warning("%s", warning)
    fixed = [setting.path for setting in settings]
    return folder, Search(config.model_dump(mode="json"), fixed, source.fingerprint()), source


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
