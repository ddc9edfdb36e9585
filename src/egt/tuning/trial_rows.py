"""Trials as rows of a table, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence

from egt.tuning.space import Value
from egt.tuning.study import Tried


def text(value: Value) -> str:
    """Return a value of a knob as people read it."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def described(trial: Tried) -> str:
    """Return what a trial tries."""
    return ", ".join(f"{name} {text(value)}" for name, value in trial.values.items())


def trial_rows(trials: Sequence[Tried], best: int) -> tuple[list[str], list[list[str]]]:
    """Return the columns and the rows of a table with all trials; the validation stands before the last two columns.

    Args:
        trials: at least one, all of the same knobs.
        best: the number of the best one.
    """
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
