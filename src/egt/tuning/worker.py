"""A worker: takes trials of a study one after another, and trains each as an ordinary run in a folder of its own.

Who does which trial is decided by claims (`egt.paper.claims`), so that any number of workers share a study. A
trial whose worker was killed, or ran out of time, is continued from its checkpoint by the next one that comes.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from egt.data.source import Progress, Source
from egt.errors import ConfigError, RunError, RunStopped
from egt.files import lease_holder
from egt.paper.claims import Claim, claim_run
from egt.training.callbacks import Callback
from egt.training.run import train
from egt.training.run_folder import CHECKPOINTS
from egt.training.state import score
from egt.tuning.space import Knob, with_values
from egt.tuning.study import Search, Tried, import_optuna, list_trials, make_sampler, trial_folder

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import Trial

    from egt.training.run_folder import StepSums
    from egt.training.state import State

Tell = Callable[[Tried], None]

_MOST_FAILURES = 5
"""As many trials in a row may fail: then it is not their settings."""


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

    `tell` receives each trial that has ended, `watch` the progress of the preparation of graphs.
    """

    study: Study
    search: Search
    space: Sequence[Knob]
    folder: Path
    source: Source
    deadline: float
    trials: int | None = None
    tell: Tell | None = None
    watch: Progress | None = None
    progress: bool = False
    _failures: int = field(default=0, init=False)

    def work(self) -> None:
        """Do trials: first those that nobody continues, then new ones."""
        while (number := self._next()) is not None:
            with claim_run(trial_folder(self.folder, number)) as claim:
                trial = self.study.get_trials(deepcopy=False)[number]
                if claim is None or trial.state.is_finished():  # another worker was faster
                    continue
                self.study.sampler = make_sampler(self.search, number)
                self._do(import_optuna().trial.Trial(self.study, trial._trial_id), claim)
            if self.tell is not None:
                self.tell(next(each for each in list_trials(self.study) if each.number == number))

    def _next(self) -> int | None:
        """Return the number of the trial to do; None at the end. The first one is done whatever time there is."""
        known = list_trials(self.study)
        left = [
            each.number
            for each in known
            if each.state == "open" and not lease_holder(trial_folder(self.folder, each.number))
        ]
        time_is_up = time.monotonic() > self.deadline
        if left and (left[0] == 0 or not time_is_up):
            return left[0]
        if known and (time_is_up or (self.trials is not None and len(known) >= self.trials)):
            return None
        return int(self.study.ask().number)

    def _do(self, trial: Trial, claim: Claim) -> None:
        """Train a trial and report how it ended; one that is stopped stays open."""
        optuna = import_optuna()
        states = optuna.trial.TrialState
        try:
            found = self._train(trial, claim)
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

    def _train(self, trial: Trial, claim: Claim) -> float:
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
            callbacks=[claim, Watch(trial, self.deadline)],
        )
        return score(config, outcome.history[outcome.epoch])
