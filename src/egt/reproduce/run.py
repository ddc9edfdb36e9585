"""Do the runs of a table: skip what is done, continue what was stopped, leave alone what others are doing."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from egt import api
from egt.artifact.artifact import find_artifact
from egt.errors import ArtifactError, EgtError, RunStopped
from egt.reporting.record import RunRecord, machine, read_run, write_record
from egt.reproduce.claims import Claim, claimed, holder
from egt.reproduce.rows import Order, RowRun, ordered_runs, row_config
from egt.reproduce.rule_baselines import run_rule
from egt.sources.source import Progress
from egt.training.plan import Plan, plan

Status = Literal["done", "skipped", "claimed", "failed", "waiting"]
Tell = Callable[[RowRun, str], None]


@dataclass
class Summary:
    """What became of the runs.

    Fields:
        statuses: of each run: done now, skipped as done before, claimed by another process, failed, or waiting for the
            model that it starts from.
        reasons: why runs have failed or wait.
    """

    statuses: dict[RowRun, Status] = field(default_factory=dict)
    reasons: dict[RowRun, str] = field(default_factory=dict)

    def count(self, status: Status) -> int:
        """Return how many runs have this status."""
        return sum(1 for each in self.statuses.values() if each == status)


def reproduce(
    order: Order, *, tell: Tell | None = None, watch: Progress | None = None, progress: bool = True
) -> Summary:
    """Do all runs of an order that nobody has done or is doing.

    A run that fails does not keep the others from being done; a run that is stopped ends all.

    Args:
        order: what is to be reproduced.
        tell: receives each run that begins.
        watch: receives the progress of the preparation of graphs.
        progress: show a bar while training.
    """
    summary = Summary()
    for run in ordered_runs(order):
        try:
            summary.statuses[run] = _attend(run, order, tell, watch, progress)
        except RunStopped:
            raise
        except EgtError as error:
            waits = isinstance(error, _StartMissing)
            summary.statuses[run] = "waiting" if waits else "failed"
            summary.reasons[run] = str(error)
    return summary


@dataclass(frozen=True)
class Estimate:
    """What a run would need; `state` says whether it is to be done, done, or in whose hands."""

    run: RowRun
    plan: Plan | None
    state: str
    error: str = ""


def estimates(order: Order) -> list[Estimate]:
    """Return what the runs of an order would need; each row is measured once, nothing is written."""
    plans: dict[str, Plan | None] = {}
    errors: dict[str, str] = {}
    found = []
    for run in ordered_runs(order):
        name = run.row.name
        if name not in plans:
            try:
                plans[name] = None if run.row.rule else plan(row_config(order, run.row, keep=False))
            except EgtError as error:
                plans[name], errors[name] = None, str(error)
        state = "done" if run.is_done() else f"running on {who}" if (who := holder(run.folder)) else "to do"
        found.append(Estimate(run, plans[name], state, errors.get(name, "")))
    return found


class _StartMissing(ArtifactError):
    """The model that a run starts from is not there yet."""


def _attend(run: RowRun, order: Order, tell: Tell | None, watch: Progress | None, progress: bool) -> Status:
    if run.is_done():
        return "skipped"
    with claimed(run.folder) as claim:
        if claim is None:
            return "claimed"
        if run.is_done():  # by another process, a moment ago
            return "skipped"
        start = _start(run, order)
        if tell is not None:
            tell(run, "continues" if (run.folder / "checkpoints").is_dir() else "starts")
        _do(run, order, claim, start, watch, progress)
    return "done"


def _do(run: RowRun, order: Order, claim: Claim, start: Path | None, watch: Progress | None, progress: bool) -> None:
    config = row_config(order, run.row).model_copy(update={"seed": run.seed})
    if run.row.rule:
        record = run_rule(run.row.rule, config, run.row.name, run.seed)
        run.folder.mkdir(parents=True, exist_ok=True)
    else:
        api.train(config, out=run.folder, start=start, resume=True, callbacks=[claim], watch=watch, progress=progress)
        record = replace(read_run(run.folder), name=run.row.name, preset=run.row.preset)
    write_record(_signed(record), run.folder)


def _signed(record: RunRecord) -> RunRecord:
    date = record.date or datetime.datetime.now(datetime.UTC).date().isoformat()
    return replace(record, machine=machine(), date=date)


def _start(run: RowRun, order: Order) -> Path | None:
    """Return the model that a run starts from."""
    if not run.start:
        return None
    if order.start is not None:
        return find_artifact(order.start)
    folder = order.out / run.start / "seed0"
    try:
        return find_artifact(folder)
    except ArtifactError as error:
        raise _StartMissing(f"{run.row.name} starts from {run.start}, whose run has not finished: {error}") from error
