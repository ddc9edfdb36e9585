"""The study: what is searched, what was tried and what came of it, in one SQLite file that all workers share.

A worker takes trials one after another, and trains each as an ordinary run in a folder of its own. Claims decide who
does which trial. A trial whose worker was killed, or ran out of time, is continued from its checkpoint by the next one.
"""

from __future__ import annotations

import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter

from egt.config.load import parse_config
from egt.config.run import RunConfig
from egt.data.source import Progress, Source
from egt.errors import ConfigError, EgtError, RunError, RunStopped, require_extra
from egt.files import exists
from egt.training.callbacks import Callback
from egt.training.run import train
from egt.training.run_folder import (
    CHECKPOINTS,
    CONFIG,
    check_not_foreign,
    check_unused,
    claim_run,
    hold_folder,
    is_claimed,
)
from egt.training.state import higher_is_better, score
from egt.tuning.space import Knob, Value, with_values

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

    from egt.training.run_folder import StepSums
    from egt.training.state import State

STUDY, TRIALS = "study.db", "trials"
Outcome = Literal["done", "pruned", "failed", "open"]
_NAME = "egt"
_SEARCH = "search"
_UNPRUNED_TRIALS = 3  # as many trials run to their end before any is compared with the median of the others
_LOCK_SECONDS = 60  # how long a worker waits for another one that writes to the file


@dataclass(frozen=True)
class Search:
    """What is searched: around the run `config` (as JSON) on `data` (its fingerprint), but for `fixed` settings.

    Two workers share a study only if theirs is the same.
    """

    config: Mapping[str, Any]
    fixed: Sequence[str]
    data: str

    @property
    def run(self) -> RunConfig:
        """The run that is tuned."""
        return parse_config(self.config, STUDY)


@dataclass(frozen=True)
class Tried:
    """A trial; number 0 has the defaults.

    The score of a pruned or open trial is the best so far, None before its first epoch; open ones go on with the next
    worker. `error` says why a trial failed.
    """

    number: int
    values: Mapping[str, Value]
    state: Outcome
    score: float | None
    epochs: int
    seconds: float
    error: str = ""

    @property
    def words(self) -> str:
        """What it tries."""
        return ", ".join(f"{name} {text(value)}" for name, value in self.values.items())


def import_optuna() -> Any:
    """Return the package, quiet; a `ConfigError` says how to install it."""
    with require_extra("tune", "egt tune needs Optuna"):
        import optuna
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def open_study(folder: Path, search: Search, first: Sequence[Mapping[str, Value]]) -> Study:
    """Open the study of a search in a folder, or make one that begins with these trials.

    A `ConfigError` is raised where the folder holds something else.
    """
    optuna = import_optuna()
    if not exists(folder / STUDY):
        check_unused(folder)
        check_not_foreign(folder, resume=False)
        if exists(folder / CONFIG):
            raise ConfigError(f"{folder} holds a run; choose another folder for the search (--out)")
    run = search.run
    # A trial ends if it is worse than the median of the others at the same epoch.
    warmup = (run.trainer.max_epochs or 1) // 10
    pruner = optuna.pruners.MedianPruner(n_startup_trials=_UNPRUNED_TRIALS, n_warmup_steps=warmup)
    with hold_folder(folder), _readable(folder):  # only one worker makes the study
        study = optuna.create_study(
            storage=_storage(folder),
            study_name=_NAME,
            pruner=pruner,
            direction="maximize" if higher_is_better(run) else "minimize",
            load_if_exists=True,
        )
        if _SEARCH not in study.user_attrs:  # new, or its worker was killed while it made the study
            for values in first[len(study.get_trials(deepcopy=False)) :]:
                study.enqueue_trial(dict(values))
            study.set_user_attr(_SEARCH, asdict(search))
        found = _search_of(study)
    _check_same(folder, found, search)
    return study


def make_sampler(search: Search, number: int) -> Any:
    """Return what proposes the values of a trial: workers that begin at the same moment do not try the same."""
    return import_optuna().samplers.TPESampler(seed=zlib.crc32(f"{search.run.seed} {number}".encode()))


def read_search(folder: Path) -> Search:
    """Return what the study in a folder searches."""
    with _readable(folder):
        return _search_of(import_optuna().load_study(storage=_storage(folder), study_name=_NAME))


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Say of whatever Optuna and its data base raise that the file cannot be read; any cell of it may be anything."""
    try:
        yield
    except (EgtError, OSError):
        raise
    except Exception as error:
        raise ConfigError(
            f"{folder / STUDY}: holds no study of `egt tune` that can be read ({' '.join(str(error).split())[:100]}); "
            "begin with the command that made it, or choose another folder (--out)"
        ) from error


def _search_of(study: Study) -> Search:
    list_trials(study)  # all that is read later can be read
    return TypeAdapter(Search).validate_python(study.user_attrs[_SEARCH])


def list_trials(study: Study) -> list[Tried]:
    """Return all trials that have begun, in their order."""
    better = max if study.direction.name == "MAXIMIZE" else min
    return [_describe(trial, better) for trial in study.get_trials(deepcopy=False) if trial.state.name != "WAITING"]


def trial_folder(folder: Path, number: int) -> Path:
    """Return where a trial is trained: an ordinary run folder."""
    return folder / TRIALS / str(number)


def _describe(trial: FrozenTrial, better: Callable[..., float | None]) -> Tried:
    states: dict[str, Outcome] = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"}
    seen = trial.intermediate_values
    return Tried(
        number=trial.number,
        values=trial.params,
        state=states.get(trial.state.name, "open"),
        score=trial.value if trial.state.name == "COMPLETE" else better(seen.values(), default=None),
        epochs=len(seen),
        seconds=trial.user_attrs.get("seconds", 0.0),
        error=trial.user_attrs.get("error", ""),
    )


def _storage(folder: Path) -> Any:
    optuna = import_optuna()
    options = {"connect_args": {"timeout": _LOCK_SECONDS}}
    return optuna.storages.RDBStorage(f"sqlite:///{(folder / STUDY).resolve()}", engine_kwargs=options)


def _check_same(folder: Path, found: Search, wanted: Search) -> None:
    names = {"config": "other settings or another target", "fixed": "other settings", "data": "other data"}
    for name, words in names.items():
        if getattr(found, name) != getattr(wanted, name):
            raise ConfigError(
                f"{folder} holds a search with {words}; continue it with `egt tune {folder}`, or choose another "
                "folder (--out)"
            )


def text(value: Value) -> str:
    """Return a value of a knob as people read it."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def trial_rows(trials: Sequence[Tried], best: int) -> tuple[list[str], list[list[str]]]:
    """Return the columns and the rows of a table of trials; the validation stands before the last two columns."""
    names = list(trials[0].values)
    rows = []
    for trial in trials:
        marks = (["default"] if trial.number == 0 else []) + (["best"] if trial.number == best else [])
        rows.append(
            [
                str(trial.number),
                *(text(trial.values[name]) if name in trial.values else "" for name in names),
                "" if trial.score is None else f"{trial.score:.4g}",
                str(trial.epochs),
                ", ".join([trial.state, *marks]),
            ]
        )
    return ["trial", *names, "validation", "epochs", "how it ended"], rows


Report = Callable[[Tried], None]
_MOST_FAILURES = 5  # as many trials in a row may fail: then it is not their settings


class OutOfTime(RunStopped):
    """The budget is used up in the middle of a trial, which can be continued."""


class Watch(Callback):
    """Reports to the study how a trial goes, and ends it when it is worse than others or when the time is up.

    The first trial, with the defaults, always goes to its end.
    """

    def __init__(self, trial: Trial, deadline: float) -> None:
        self.trial, self.deadline = trial, deadline
        self.can_end = trial.number > 0

    def on_step(self, state: State, step: StepSums) -> None:
        """Stop at the deadline, with a checkpoint."""
        if self.can_end and time.monotonic() > self.deadline:
            state.checkpoint()
            raise OutOfTime("the time is up")

    def on_epoch(self, state: State, row: Mapping[str, float]) -> None:
        """Report the score of the epoch; one that does not promise anything ends the trial."""
        self.trial.report(score(state.config, row), int(row["epoch"]))
        self.trial.set_user_attr("seconds", round(sum(each["seconds"] for each in state.progress.history), 1))
        if self.can_end and not state.is_finished() and self.trial.should_prune():
            raise import_optuna().TrialPruned


@dataclass
class Worker:
    """Does trials of a study until there are as many as `trials`, or the time is up (by the monotonic clock).

    `report` receives each trial that has ended, `watch` the progress of the preparation of graphs.
    """

    study: Study
    search: Search
    space: Sequence[Knob]
    folder: Path
    source: Source
    deadline: float
    trials: int | None = None
    report: Report | None = None
    watch: Progress | None = None
    progress: bool = False
    _failures: int = field(default=0, init=False)

    def work(self) -> None:
        """Do trials: first those that were stopped, then new ones."""
        while (number := self._next()) is not None:
            with claim_run(trial_folder(self.folder, number)) as is_free:
                trial = self.study.get_trials(deepcopy=False)[number]
                if not is_free or trial.state.is_finished():  # another worker was faster
                    continue
                self.study.sampler = make_sampler(self.search, number)
                self._do(import_optuna().trial.Trial(self.study, trial._trial_id))
            if self.report is not None:
                self.report(next(each for each in list_trials(self.study) if each.number == number))

    def _next(self) -> int | None:
        """Return the number of the trial to do; None at the end. The first one is done whatever time there is."""
        known = list_trials(self.study)
        left = [
            each.number
            for each in known
            if each.state == "open" and not is_claimed(trial_folder(self.folder, each.number))
        ]
        time_is_up = time.monotonic() > self.deadline
        if left and (left[0] == 0 or not time_is_up):
            return left[0]
        if known and (time_is_up or (self.trials is not None and len(known) >= self.trials)):
            return None
        return int(self.study.ask().number)

    def _do(self, trial: Trial) -> None:
        """Train a trial and report how it ended; one that is stopped stays open."""
        optuna = import_optuna()
        states = optuna.trial.TrialState
        try:
            found = self._train(trial)
        except OutOfTime:
            return
        except optuna.TrialPruned:
            self._failures = 0
            self.study.tell(trial, state=states.PRUNED)
        except (ConfigError, RunError) as error:
            self._failures += 1
            if isinstance(error, RunStopped) or trial.number == 0 or self._failures >= _MOST_FAILURES:
                raise
            trial.set_user_attr("error", str(error))
            self.study.tell(trial, state=states.FAIL)
        else:
            self._failures = 0
            self.study.tell(trial, found)
        shutil.rmtree(trial_folder(self.folder, trial.number) / CHECKPOINTS, ignore_errors=True)

    def _train(self, trial: Trial) -> float:
        """Return the score of the weights that a trial selects."""
        values = {knob.name: knob.suggest(trial) for knob in self.space}
        config = with_values(self.search.run, self.space, values)
        outcome = train(
            config,
            trial_folder(self.folder, trial.number),
            source=self.source,
            resume=True,
            show_progress=self.progress,
            watch=self.watch,
            callbacks=[Watch(trial, self.deadline)],
        )
        return score(config, outcome.history[outcome.epoch])
