"""The study: what is searched, what was tried and what came of it, in one SQLite file that all workers share."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from egt.config.load import parse_config
from egt.config.run import RunConfig
from egt.errors import ConfigError
from egt.files import exists
from egt.training.run_folder import CONFIG, check_not_foreign, check_unused, hold_folder
from egt.training.state import higher_is_better
from egt.tuning.space import Value

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial


STUDY, TRIALS = "study.db", "trials"

State = Literal["done", "pruned", "failed", "open"]

_NAME = "egt"

_SEARCH = "search"

_UNPRUNED_TRIALS = 3
"""As many trials run to their end before any is compared with the median of the others."""

_LOCK_SECONDS = 60
"""How long a worker waits for another one that writes to the file."""


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
    state: State
    score: float | None
    epochs: int
    seconds: float
    error: str = ""


def import_optuna() -> Any:
    """Return the package, quiet; a `ConfigError` says how to install it."""
    try:
        import optuna
    except ImportError as error:
        raise ConfigError('egt tune needs Optuna; install it with: pip install "egt-graph[tune]"') from error
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
    with hold_folder(folder):  # only one worker makes the study
        is_new = not exists(folder / STUDY)
        study = optuna.create_study(
            storage=_storage(folder),
            study_name=_NAME,
            pruner=pruner,
            direction="maximize" if higher_is_better(run) else "minimize",
            load_if_exists=True,
        )
        if is_new:
            study.set_user_attr(_SEARCH, asdict(search))
            for values in first:
                study.enqueue_trial(dict(values))
    _check_same(folder, Search(**study.user_attrs[_SEARCH]), search)
    return study


def make_sampler(search: Search, number: int) -> Any:
    """Return what proposes the values of a trial: workers that begin at the same moment do not try the same."""
    return import_optuna().samplers.TPESampler(seed=zlib.crc32(f"{search.run.seed} {number}".encode()))


def read_search(folder: Path) -> Search:
    """Return what the study in a folder searches."""
    optuna = import_optuna()
    from sqlalchemy.exc import SQLAlchemyError

    try:
        study = optuna.load_study(storage=_storage(folder), study_name=_NAME)
        return Search(**study.user_attrs[_SEARCH])
    except (SQLAlchemyError, KeyError, TypeError) as error:
        raise ConfigError(f"{folder / STUDY}: holds no study of `egt tune`; choose another folder (--out)") from error


def list_trials(study: Study) -> list[Tried]:
    """Return all trials that have begun, in their order."""
    better = max if study.direction.name == "MAXIMIZE" else min
    return [_tried(trial, better) for trial in study.get_trials(deepcopy=False) if trial.state.name != "WAITING"]


def trial_folder(folder: Path, number: int) -> Path:
    """Return where a trial is trained: an ordinary run folder."""
    return folder / TRIALS / str(number)


def _tried(trial: FrozenTrial, better: Callable[..., float | None]) -> Tried:
    states: dict[str, State] = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"}
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


def describe_trial(trial: Tried) -> str:
    """Return what a trial tries."""
    return ", ".join(f"{name} {text(value)}" for name, value in trial.values.items())


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
