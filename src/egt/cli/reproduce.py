"""`egt reproduce`: the tables of the paper, row by row."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from egt.cli.output import Bars, Flag, Settings, Words, print_json, print_table, say
from egt.cli.train import show_log
from egt.errors import counted
from egt.files import exists
from egt.processes import is_first

if TYPE_CHECKING:
    from egt.paper.reproduce import Estimate, Order, RowRun, Summary


def reproduce(
    table: str,
    *,
    rows: Words = (),
    seeds: int = 4,
    budget: float | None = None,
    epochs: int | None = None,
    settings: Settings = (),
    start: Annotated[str | None, Parameter(name="--from")] = None,
    out: Annotated[Path, Parameter(alias="-o")] = Path("runs", "paper"),
    dry_run: Flag = False,
    json: Flag = False,
) -> None:
    """Run the rows of a table of the paper, a few seeds each; what is done is skipped, what was stopped continues.

    Several machines with a common folder (--out) share the runs without doing one twice. `egt report OUT` makes the
    tables.

    Args:
        table: medium, pcqm, transfer, variants or steps; plus is EGT+ beyond the paper, one change at a time;
            foundation makes the pre-trained model `molecules` again.
        rows: Rows by name, pattern (`zinc-*`) or part of the name (`gcn`); all except the baselines by default.
        seeds: How many seeds of each row.
        budget: Minutes of training for each run; epochs, schedule and at last data are cut, and the report says so.
        epochs: Epochs of each run, with the schedule scaled; the report says so.
        settings: Settings to change in all rows, as path=value.
        start: For transfer: the trained model to start from, instead of training it first.
        out: The folder of the runs: OUT/ROW/seed0, seed1, ...
        dry_run: Only show what would run, with parameters, memory and time.
        json: Print one JSON object as the last line.
    """
    if table == "foundation":
        _make_foundation(out / table, epochs, settings, json)
        return
    from egt.paper import reproduce as paper

    order = paper.Order(table, out, rows, seeds, budget, epochs, settings, start)
    if dry_run:
        _show_plan(order, paper.estimate_runs(order), json)
        return
    show_log(is_first())
    with Bars() as bars:
        summary = paper.reproduce(order, announce=_announce, watch=bars)
    _show_summary(order, summary, json)


def _make_foundation(out: Path, epochs: int | None, settings: Settings, json: bool) -> None:
    from egt.paper.foundation import train_foundation

    show_log(is_first())
    with Bars() as bars:
        path = train_foundation(out, epochs=epochs, settings=settings, resume=exists(out / "run"), watch=bars)
    if json:
        print_json({"artifact": str(path)})
    else:
        say(f"wrote {path}\nnext: egt train DATA --target NAME --from {path}")


def _announce(run: RowRun, what: str) -> None:
    say(f"{run.row.name}, seed {run.seed}: {what} in {run.folder}")


def _show_plan(order: Order, found: list[Estimate], json: bool) -> None:
    if json:
        runs = []
        for each in found:
            needs = {} if each.plan is None else asdict(each.plan)
            run = {"row": each.run.row.name, "seed": each.run.seed, "state": each.state, "error": each.error}
            runs.append(run | needs)
        print_json({"table": order.table, "runs": runs})
        return
    rows, total = [], 0.0
    for each in (each for each in found if each.run.seed == 0):
        seeds = [other for other in found if other.run.row.name == each.run.row.name]
        left = sum(1 for other in seeds if other.state != "done")
        shown: tuple[str, ...] = ("-",) * 5
        if (plan := each.plan) is not None:
            hours = left * plan.seconds_per_epoch * plan.epochs / 3600
            total += hours
            shown = (
                f"{plan.parameters:,}",
                f"{plan.peak_memory_bytes / 1e9:.1f} GB",
                f"{plan.epochs:,.0f}",
                f"{plan.seconds_per_epoch:,.0f}",
                f"{hours:,.1f}",
            )
        rows.append((each.run.row.name, f"{left} of {len(seeds)}", *shown))
        if each.error:
            say(f"{each.run.row.name}: {each.error}")
    columns = ("row", "to do", "parameters", "memory", "epochs", "s/epoch", "hours")
    print_table(f"egt reproduce {order.table}: what would run here", columns, rows)
    say(f"{total:,.1f} hours of training on this machine, in {order.out}")


def _show_summary(order: Order, summary: Summary, json: bool) -> None:
    counts = {status: summary.count(status) for status in ("done", "skipped", "claimed", "waiting", "failed")}
    for run, reason in summary.reasons.items():
        say(f"{run.row.name}, seed {run.seed}: {summary.statuses[run]}: {reason}")
    if json:
        print_json({"out": str(order.out), **counts})
    else:
        say(
            f"{counted(counts['done'], 'run')} done, {counts['skipped']} done before, {counts['claimed']} at work in "
            f"other processes, {counts['waiting']} wait for a model to start from, {counts['failed']} failed\n"
            f"next: egt report {order.out}"
        )
    if counts["failed"]:
        sys.exit(1)
