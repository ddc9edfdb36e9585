"""The page of a search: what it has found beside the default, the way there, and all trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from egt.charts import line_chart
from egt.pages import Sheet, figure, page
from egt.training.record import RunRecord, read_run
from egt.training.state import higher_is_better
from egt.tuning.space import Knob
from egt.tuning.study import Tried, text, trial_folder, trial_rows

if TYPE_CHECKING:
    from egt.tuning.tune import Tuning

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
    columns, rows = trial_rows(found.trials, best.number)
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
