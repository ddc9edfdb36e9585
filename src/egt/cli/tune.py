"""`egt tune`: from a preset, a configuration or your own data to better settings and their artifact."""

from __future__ import annotations

import logging
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from egt.cli.output import Bars, Flag, Settings, Words, print_json, print_table, say, with_epochs, with_smiles
from egt.cli.train import show_schema
from egt.errors import counted

if TYPE_CHECKING:
    from egt.tuning.study import Tried
    from egt.tuning.tune import Tuning


def tune(
    what: str,
    *,
    target: Words = (),
    task: Literal["graph", "node", "edge", "link", "pair"] | None = None,
    smiles: Words = (),
    minutes: float = 20.0,
    trials: int | None = None,
    workers: int = 1,
    epochs: int | None = None,
    settings: Settings = (),
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    json: Flag = False,
) -> None:
    """Search for settings that are better on validation than the default, and keep the best model.

    The first trial is the default. Run the same command again to continue the search.

    Args:
        what: A preset (`egt presets`), a run.yaml, your own data, or the folder of a search to continue.
        target: Column(s) of your own data to predict, or patterns such as `NR-*`.
        task: Level to predict, if it does not follow from the target; `link` predicts missing edges, `pair`
            a matrix over all pairs of nodes.
        smiles: Column(s) of your own data with SMILES, as for `egt train`.
        minutes: The budget; the first trial is always finished.
        trials: End once there are this many, including those of earlier searches in the folder.
        workers: Processes that share the search; others join with `egt tune FOLDER`, also on other machines.
        epochs: Train each trial for this many epochs at most (trainer.max_epochs).
        settings: Settings of all trials, as path=value; they are not varied.
        out: The folder of the search; runs/NAME-tuned by default.
        json: Print one JSON object as the last line.
    """
    from egt.tuning.tune import tune as search

    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    logging.getLogger("egt.training.checks").setLevel(logging.ERROR)  # a trial that learns little says so by its score
    with Bars(shown=not json) as bars:
        found = search(
            what,
            target,
            task=task,
            set=with_epochs(with_smiles(settings, smiles), epochs),
            minutes=minutes,
            trials=trials,
            workers=workers,
            out=out,
            progress=not json,
            watch=bars,
            show=None if json else lambda schema: show_schema(what, schema),
            tell=_tell,
        )
    _report(found, json)


def _tell(trial: Tried) -> None:
    score = "" if trial.score is None else f" {trial.score:.4g}"
    ending = f"failed: {trial.error}" if trial.error else f"{trial.state}{score}"
    name = "default" if trial.number == 0 else "trial"
    cost = f"{counted(trial.epochs, 'epoch')}, {trial.seconds:.0f} s"
    say(f"{name} {trial.number}: {trial.words} -> {ending} ({cost})")


def _report(found: Tuning, json: bool) -> None:
    if json:
        content = {"folder": str(found.folder), "artifact": str(found.path), "measure": found.measure}
        scores = {"default": found.trials[0], "best": found.best}
        print_json({**content, "settings": found.settings, **{name: asdict(each) for name, each in scores.items()}})
        return
    columns, rows = found.table()
    title = f"{found.config.name}: {len(found.trials)} trials, validation {found.measure}"
    narrow = [(row[0], trial.words, *row[-3:]) for trial, row in zip(found.trials, rows, strict=True)]
    print_table(title, (columns[0], "what was tried", *columns[-3:]), narrow)
    say(f"wrote {found.folder}/run.yaml, artifact/ and report.html")
    folder = shlex.quote(str(found.folder))
    say(f"next: egt predict {folder} NEW_DATA -o out.csv   or   egt tune {folder} to continue")
