"""What a search leaves: `run.yaml` with the best settings, the artifact of the best trial, and a page."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egt.artifact.artifact import CARD, put_folder
from egt.config.load import read_config
from egt.config.run import RunConfig
from egt.errors import RunError
from egt.files import write_atomically
from egt.reporting.page import write_page
from egt.training.run_folder import ARTIFACT, CONFIG, METRICS, claimed
from egt.tuning.score import measure
from egt.tuning.space import Knob, changed
from egt.tuning.study import Tried, trial_folder, tried
from egt.tuning.tuning_page import tuning_page

if TYPE_CHECKING:
    from optuna.study import Study

    from egt.inference.predictor import Predictor

RUN, REPORT = "run.yaml", "report.html"


@dataclass(frozen=True)
class Tuning:
    """What `egt.tune` leaves.

    Fields:
        folder: of the search.
        config: the best run.
        settings: in which it differs from the default, path -> value; `egt.train(..., set=settings)` trains it again.
        trials: that have begun, in their order.
        best: the best of them on validation.
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
        from egt.inference.loading import load

        return load(self.path)


def leave_best(study: Study, space: Sequence[Knob], folder: Path) -> Tuning:
    """Write what a search has found so far.

    Raises:
        RunError: no trial has finished; other workers are still busy with the first ones.
    """
    with claimed(folder):  # other workers may end at the same moment
        trials = tried(study)
        if not any(each.state == "done" for each in trials):
            raise RunError(f"{folder}: no trial has finished yet; continue with `egt tune {folder}`")
        best = next(each for each in trials if each.number == study.best_trial.number)
        place = trial_folder(folder, best.number)
        put_folder(folder / ARTIFACT, CARD, lambda draft: _copy(place / ARTIFACT, draft))
        for source, target in ((place / ARTIFACT / CONFIG, folder / RUN), (place / METRICS, folder / METRICS)):
            with write_atomically(target) as draft:
                shutil.copyfile(source, draft)
        found = Tuning(folder, read_config(folder / RUN), changed(space, best.values), trials, best)
        write_page(folder / REPORT, tuning_page(found, space))
    return found


def _copy(source: Path, draft: Path) -> None:
    shutil.copytree(source, draft, dirs_exist_ok=True)
