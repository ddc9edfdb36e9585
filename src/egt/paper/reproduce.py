"""A run cut to the time there is: fewer epochs, the schedule scaled with them, and at last fewer training graphs.

The rows of a table as runs: what was asked for, the configuration of each row, and the folders of its seeds.

A rule of `egt.baselines` on the data of a run, with its splits and metrics.

Do the runs of a table: skip what is done, continue what was stopped, leave alone what others are doing.
"""

from __future__ import annotations

import datetime
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch

from egt import api
from egt.assemble import build_task
from egt.config.load import override, parse_config
from egt.config.run import RunConfig
from egt.config.run_data import open_source, prepare_split
from egt.data.source import Progress, Source
from egt.errors import ArtifactError, ConfigError, DataError, EgtError, RunStopped
from egt.files import lease_holder
from egt.graph import Graph
from egt.inference.artifact import find_artifact, versions
from egt.paper.claims import Claim, claimed
from egt.paper.presets import preset, starts_from
from egt.paper.results import RESULT, machine, write_record
from egt.paper.rules import RULES
from egt.paper.tables import Column, PaperRow, choose_rows, find_table
from egt.training.plan import Plan, known_sizes, plan
from egt.training.record import RunRecord, read_run

MIN_EPOCHS = 10
"""A run that sees its training graphs less often than this gets fewer graphs instead."""


def fit_into(config: RunConfig, plan: Plan, minutes: float) -> RunConfig:
    """Return the run unchanged if it takes no longer, else cut to about these minutes.

    Args:
        config: the whole run.
        plan: its estimate on this machine.
        minutes: for training; preparing the graphs and the test come on top.
    """
    epochs = minutes * 60 / plan.seconds_per_epoch
    if epochs >= plan.epochs:
        return config
    if config.trainer.max_steps is not None:
        return _cut_steps(config, round(epochs * plan.steps_per_epoch), plan.num_graphs)
    count = max(int(epochs), min(MIN_EPOCHS, int(plan.epochs)))
    share = max(min(1.0, epochs / count), config.data.batch_size / plan.num_graphs)
    return _changed(config, count / plan.epochs, {"max_epochs": count}, min(share, 1.0))


def with_epochs(config: RunConfig, epochs: int) -> RunConfig:
    """Return the run with this many epochs if it has more; all training graphs stay."""
    limits = config.trainer
    if limits.max_steps is not None:
        num_graphs = known_sizes(config).counts["train"]
        steps = epochs * math.ceil(num_graphs / (config.data.batch_size * limits.accumulate))
        return config if steps >= limits.max_steps else _cut_steps(config, steps, num_graphs)
    assert limits.max_epochs is not None
    ratio = epochs / limits.max_epochs
    return config if ratio >= 1 else _changed(config, ratio, {"max_epochs": epochs})


def _cut_steps(config: RunConfig, steps: int, num_graphs: int) -> RunConfig:
    """Return a run of steps: graphs that it would never come to are left out, so that nobody prepares them."""
    assert config.trainer.max_steps is not None
    steps = max(2, steps)
    seen = steps * config.data.batch_size * config.trainer.accumulate
    return _changed(config, steps / config.trainer.max_steps, {"max_steps": steps}, min(1.0, seen / num_graphs))


def _changed(config: RunConfig, ratio: float, limits: dict[str, int], share: float = 1.0) -> RunConfig:
    content: dict[str, Any] = config.model_dump(mode="json")
    content["trainer"] |= limits
    content["schedule"] = config.schedule.scaled(ratio).model_dump(mode="json")
    content["data"]["train_share"] = max(round(share * config.data.train_share, 6), 1e-6)
    return parse_config(content, "a shortened run")


_ROW = "row.json"

_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True)
class Order:
    """What is to be reproduced.

    Fields:
        table: of the paper.
        out: the folder that holds, or will hold, the runs; several machines may share it.
        rows: names, patterns (`zinc-*`) or parts of names (`gcn`); empty for all except the baselines.
        seeds: of each row.
        minutes: of training for each run; None for the whole recipe.
        epochs: of each run; None for the whole recipe.
        settings: more settings for all rows, as path=value.
        start: the model that rows of transfer start from; None trains it first.
    """

    table: str
    out: Path
    rows: tuple[str, ...] = ()
    seeds: int = 4
    minutes: float | None = None
    epochs: int | None = None
    settings: tuple[str, ...] = ()
    start: str | None = None

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ConfigError(f"--seeds {self.seeds}: at least one seed is needed")
        if self.minutes is not None and self.epochs is not None:
            raise ConfigError("give either --budget or --epochs")
        if (self.minutes is not None and self.minutes <= 0) or (self.epochs is not None and self.epochs < 1):
            raise ConfigError("--budget is a number of minutes above 0, --epochs a whole number above 0")

    @property
    def asked(self) -> dict[str, Any]:
        """What decides the configuration of a row; all runs of it must agree."""
        return {"budget": self.minutes, "epochs": self.epochs, "set": list(self.settings)}


@dataclass(frozen=True, eq=False)
class RowRun:
    """One seed of a row.

    Fields:
        row: of the table, or the model that rows of transfer start from.
        seed: of the run.
        folder: of the run.
        start: the preset whose trained weights it starts from; "" for random ones.
    """

    row: PaperRow
    seed: int
    folder: Path
    start: str = ""

    def is_done(self) -> bool:
        """Return whether its result is there."""
        return (self.folder / RESULT).is_file()


def ordered_runs(order: Order) -> list[RowRun]:
    """All runs in the order in which they are done: models to start from, then the first seed of every row, ..."""
    rows = choose_rows(find_table(order.table), order.rows)
    starts = dict.fromkeys(starts_from(row.preset) for row in rows if not row.rule and not order.start)
    runs = [_run(order, _start_row(name, rows[0].column), 0) for name in starts if name]
    return [*runs, *(_run(order, row, seed) for seed in range(order.seeds) for row in rows)]


def row_config(order: Order, row: PaperRow, *, keep: bool = True) -> RunConfig:
    """Return the configuration that all seeds of a row share, seed 0.

    What `--budget` makes of a recipe depends on the machine and the moment: the first process writes it down, the
    others take it from there.

    Args:
        order: what was asked for.
        row: of the table.
        keep: write it down.
    """
    file = order.out / row.name / _ROW
    if not file.exists():
        config = _shortened(override(preset(row.preset), order.settings), order, row)
        if not keep or _write_new(file, {"asked": order.asked, "config": config.model_dump(mode="json")}):
            return config
    kept = _read(file)
    if kept["asked"] != order.asked:
        raise ConfigError(
            f"{file.parent} holds runs with {_words(kept['asked'])}, not with {_words(order.asked)}; ask for the same, "
            "or choose another folder (--out)"
        )
    return parse_config(kept["config"], str(file))


def _run(order: Order, row: PaperRow, seed: int) -> RowRun:
    start = "" if row.rule else starts_from(row.preset)
    return RowRun(row, seed, order.out / row.name / f"seed{seed}", start)


def _start_row(name: str, column: Column) -> PaperRow:
    return PaperRow(name, f"{name}, to start from", column)


def _shortened(config: RunConfig, order: Order, row: PaperRow) -> RunConfig:
    if row.rule:
        return config
    if order.epochs is not None:
        return with_epochs(config, order.epochs)
    return config if order.minutes is None else fit_into(config, plan(config), order.minutes)


def _write_new(file: Path, content: dict[str, Any]) -> bool:
    """Write a file that nobody else has written; False if someone was faster."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as stream:
            json.dump(content, stream, indent=1)
    except FileExistsError:
        return False
    except OSError as error:
        raise ConfigError(f"{file} cannot be written ({error.strerror}); choose another folder (--out)") from error
    return True


def _read(file: Path) -> dict[str, Any]:
    """Return the file, once whoever writes it is done."""
    for _ in _attempts():
        try:
            content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            return content
        except (OSError, ValueError):
            continue
    raise ConfigError(f"{file}: is not the configuration of a row; remove it, and the row is set up again")


def _attempts() -> Iterator[None]:
    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end:
        yield
        time.sleep(0.2)


def _words(asked: dict[str, Any]) -> str:
    words = [f"--budget {asked['budget']:g}"] if asked["budget"] is not None else []
    words += [f"--epochs {asked['epochs']}"] if asked["epochs"] is not None else []
    words += [f"--set {' '.join(asked['set'])}"] if asked["set"] else []
    return " ".join(words) or "the whole recipe"


def run_rule(rule: str, config: RunConfig, name: str, seed: int) -> RunRecord:
    """Fit a rule to the training split and score it on the others.

    Args:
        rule: one of `RULES`.
        config: the run whose data and task it gets.
        name: of the row.
        seed: of the rule.
    """
    started = time.monotonic()
    source = open_source(config)
    fitted = RULES[rule](_graphs(config, source, "train"), source.card.target, seed)
    metrics = {}
    for split in ("val", "test"):
        graphs = [graph for graph in _graphs(config, source, split) if _is_labeled(graph, config)]
        if not graphs:
            continue
        scores = build_task(config).scores()
        for graph, rows in zip(graphs, fitted.predict(graphs), strict=True):
            target = torch.tensor(getattr(graph, f"{config.model.level}_targets"), dtype=torch.float32)
            scores.update(torch.from_numpy(rows).float(), target.reshape(len(rows), -1))
        metrics[split] = {**scores.compute(), "num_graphs": float(len(graphs))}
    return RunRecord(
        name=name,
        preset=config.name,
        seed=seed,
        config=config.model_dump(mode="json"),
        metrics=metrics,
        seconds=round(time.monotonic() - started, 1),
        split_sizes=dict(source.card.split_sizes),
        data_notes=source.card.notes,
        versions=versions(),
    )


def _graphs(config: RunConfig, source: Source, split: str) -> list[Graph]:
    """Return the graphs of a split, out of the store that the networks of the same row use: tours take minutes."""
    if not source.card.split_sizes.get(split):
        return []
    found = [sample.graph for sample in prepare_split(config, source, split)]
    if not found:
        raise DataError(f"{source.card.title}: no graph of the split {split!r} can be read")
    return found


def _is_labeled(graph: Graph, config: RunConfig) -> bool:
    """Return whether there is anything to score: labels of some benchmarks are hidden."""
    values = getattr(graph, f"{config.model.level}_targets")
    return values is not None and bool((values == values).any())


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
        state = "done" if run.is_done() else f"running on {who}" if (who := lease_holder(run.folder)) else "to do"
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
