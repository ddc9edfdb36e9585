"""The rows of a table as runs: skip what is done, continue what was stopped, leave alone what other processes are at.

A run that takes longer than there is time is cut: fewer epochs, the schedule scaled with them, and at last fewer
training graphs.
"""

from __future__ import annotations

import datetime
import json
import math
import time
from collections.abc import Callable
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
from egt.files import drafts_of, exists, lock, write_atomically
from egt.graph import Graph
from egt.inference.artifact import find_artifact, versions
from egt.paper.presets import preset, starts_from
from egt.paper.results import RESULT, machine, write_record
from egt.paper.rules import RULES
from egt.paper.tables import PaperRow, choose_rows, find_table
from egt.training.plan import Plan, known_sizes, plan
from egt.training.record import RunRecord, read_run
from egt.training.run_folder import claim_run, is_claimed

MIN_EPOCHS = 10  # a run that sees its training graphs less often than this gets fewer graphs instead
_ROW = "row.json"


def fit_into(config: RunConfig, plan: Plan, minutes: float) -> RunConfig:
    """Return the run unchanged if its plan takes no longer, else cut to about these minutes of training."""
    epochs = minutes * 60 / plan.seconds_per_epoch
    if epochs >= plan.epochs:
        return config
    if config.trainer.max_steps is not None:
        return _cut_steps(config, round(epochs * plan.steps_per_epoch), plan.num_graphs)
    count = max(int(epochs), min(MIN_EPOCHS, int(plan.epochs)))
    share = max(min(1.0, epochs / count), config.data.batch_size / plan.num_graphs)
    return _shorten(config, count / plan.epochs, {"max_epochs": count}, min(share, 1.0))


def with_epochs(config: RunConfig, epochs: int) -> RunConfig:
    """Return the run with this many epochs if it has more; all training graphs stay."""
    limits = config.trainer
    if limits.max_steps is not None:
        num_graphs = known_sizes(config).counts["train"]
        steps = epochs * math.ceil(num_graphs / (config.data.batch_size * limits.accumulate))
        return config if steps >= limits.max_steps else _cut_steps(config, steps, num_graphs)
    assert limits.max_epochs is not None
    ratio = epochs / limits.max_epochs
    return config if ratio >= 1 else _shorten(config, ratio, {"max_epochs": epochs})


def _cut_steps(config: RunConfig, steps: int, num_graphs: int) -> RunConfig:
    """Return a run of steps; graphs that it would never come to are left out, so that they are not prepared."""
    assert config.trainer.max_steps is not None
    steps = max(2, steps)
    seen = steps * config.data.batch_size * config.trainer.accumulate
    return _shorten(config, steps / config.trainer.max_steps, {"max_steps": steps}, min(1.0, seen / num_graphs))


def _shorten(config: RunConfig, ratio: float, limits: dict[str, int], share: float = 1.0) -> RunConfig:
    content: dict[str, Any] = config.model_dump(mode="json")
    content["trainer"] |= limits
    content["schedule"] = config.schedule.scaled(ratio).model_dump(mode="json")
    content["data"]["train_share"] = max(round(share * config.data.train_share, 6), 1e-6)
    return parse_config(content, "a shortened run")


@dataclass(frozen=True)
class Order:
    """What is to be reproduced.

    Fields:
        out: The folder of the runs; several machines may share it.
        rows: Names, patterns (`zinc-*`) or parts of names (`gcn`); empty for all except the baselines.
        minutes: Minutes of training for each run; None for the whole recipe.
        epochs: Epochs of each run; None for the whole recipe.
        start: The model that rows of transfer start from; None trains it first.
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
    def request(self) -> dict[str, Any]:
        """What decides the configuration of a row; all runs of it must agree."""
        return {"budget": self.minutes, "epochs": self.epochs, "set": list(self.settings)}


@dataclass(frozen=True, eq=False)
class RowRun:
    """One seed of a row of the table, or of the model that rows of transfer start from.

    `start` is the preset whose trained weights it starts from; "" for random ones.
    """

    row: PaperRow
    seed: int
    folder: Path
    start: str = ""

    def is_done(self) -> bool:
        """Return whether its result is there."""
        return (self.folder / RESULT).is_file()


def list_runs(order: Order) -> list[RowRun]:
    """Return all runs in the order in which they are done: models to start from, the first seed of every row, ..."""
    rows = choose_rows(find_table(order.table), order.rows)

    def run(row: PaperRow, seed: int) -> RowRun:
        start = "" if row.rule else starts_from(row.preset)
        return RowRun(row, seed, order.out / row.name / f"seed{seed}", start)

    starts = dict.fromkeys(starts_from(row.preset) for row in rows if not row.rule and not order.start)
    first = [run(PaperRow(name, f"{name}, to start from", rows[0].column), 0) for name in starts if name]
    return [*first, *(run(row, seed) for seed in range(order.seeds) for row in rows)]


def row_config(order: Order, row: PaperRow, *, keep: bool = True) -> RunConfig:
    """Return the configuration that all seeds of a row share, seed 0.

    What `--budget` makes of a recipe depends on the machine and the moment: the first process writes it down (unless
    `keep` is false), the others take it from there.
    """
    file = order.out / row.name / _ROW
    if not file.exists():
        config = override(preset(row.preset), order.settings)
        if not row.rule and order.epochs is not None:
            config = with_epochs(config, order.epochs)
        elif not row.rule and order.minutes is not None:
            config = fit_into(config, plan(config), order.minutes)
        if not keep or _write_new(file, {"asked": order.request, "config": config.model_dump(mode="json")}):
            return config
    content = _read_row(file)
    if content["asked"] != order.request:
        raise ConfigError(
            f"{file.parent} holds runs with {_as_options(content['asked'])}, not with {_as_options(order.request)}; "
            "give the same options, or choose another folder (--out)"
        )
    return parse_config(content["config"], str(file))


def _write_new(file: Path, content: dict[str, Any]) -> bool:
    """Write a file that does not exist; return False if another process was faster."""
    try:
        with lock(guard := file.with_name(f".{file.stem}.lock")):
            is_new = not exists(file)
            if is_new:
                for left in drafts_of(file):  # by processes that were killed
                    left.unlink(missing_ok=True)
                with write_atomically(file) as draft:
                    draft.write_text(json.dumps(content, indent=1), encoding="utf-8")
            guard.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written ({error.strerror}); choose another folder (--out)") from error
    return is_new


def _read_row(file: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{file}: is not the configuration of a row; remove it, and the row is set up again"
        ) from error
    return content


def _as_options(request: dict[str, Any]) -> str:
    words = [f"--budget {request['budget']:g}"] if request["budget"] is not None else []
    words += [f"--epochs {request['epochs']}"] if request["epochs"] is not None else []
    words += [f"--set {' '.join(request['set'])}"] if request["set"] else []
    return " ".join(words) or "the whole recipe"


def run_rule(rule: str, config: RunConfig, name: str, seed: int) -> RunRecord:
    """Fit one of `RULES` to the training split of a run and score it on the others, as row `name`."""
    started = time.monotonic()
    source = open_source(config)
    graphs, labels, splits = list[Graph](), list[torch.Tensor](), list[str]()
    for split in ("val", "test"):
        for graph in _read_graphs(config, source, split):
            values = getattr(graph, f"{config.model.level}_targets")
            if values is not None and (values == values).any():  # labels of some benchmarks are hidden
                graphs.append(graph)
                labels.append(torch.tensor(values, dtype=torch.float32))
                splits.append(split)
    answers = RULES[rule](_read_graphs(config, source, "train"), source.card.target, seed, graphs)
    metrics = {}
    for split in dict.fromkeys(splits):
        scores = build_task(config).scores()
        for rows, target, of in zip(answers, labels, splits, strict=True):
            if of == split:
                scores.update(torch.from_numpy(rows).float(), target.reshape(len(rows), -1))
        metrics[split] = {**scores.compute(), "num_graphs": float(splits.count(split))}
    return RunRecord(
        name=name,
        preset=config.name,
        seed=seed,
        config=config.model_dump(mode="json"),
        metrics=metrics,
        seconds=round(time.monotonic() - started, 1),
        split_sizes=dict(source.card.split_sizes),
        data_notes=source.card.notes,
        departures=source.card.departures,
        versions=versions(),
    )


def _read_graphs(config: RunConfig, source: Source, split: str) -> list[Graph]:
    """Return the graphs of a split, out of the store that the networks of the same row use: tours take minutes."""
    if not source.card.split_sizes.get(split):
        return []
    found = [sample.graph for sample in prepare_split(config, source, split)]
    if not found:
        raise DataError(f"{source.card.title}: no graph of the split {split!r} can be read")
    return found


Status = Literal["done", "skipped", "claimed", "failed", "waiting"]
"""Done now, skipped as done before, claimed by another process, failed, or waiting for the model to start from."""

Announce = Callable[[RowRun, str], None]


@dataclass
class Summary:
    """The status of each run, and why runs have failed or wait."""

    statuses: dict[RowRun, Status] = field(default_factory=dict)
    reasons: dict[RowRun, str] = field(default_factory=dict)

    def count(self, status: Status) -> int:
        """Return how many runs have this status."""
        return sum(1 for each in self.statuses.values() if each == status)


class _StartMissing(ArtifactError):
    """The model that a run starts from is not there yet."""


def reproduce(
    order: Order, *, announce: Announce | None = None, watch: Progress | None = None, progress: bool = True
) -> Summary:
    """Do all runs of an order that are neither done nor claimed.

    A run that fails does not keep the others from being done; a run that is stopped ends all.
    """
    summary = Summary()
    for run in list_runs(order):
        if run.is_done():
            summary.statuses[run] = "skipped"
            continue
        try:
            with claim_run(run.folder) as is_free:
                if run.is_done():  # by another process, a moment ago
                    summary.statuses[run] = "skipped"
                elif not is_free:
                    summary.statuses[run] = "claimed"
                else:
                    _do(run, order, announce, watch, progress)
                    summary.statuses[run] = "done"
        except RunStopped:
            raise
        except EgtError as error:
            summary.statuses[run] = "waiting" if isinstance(error, _StartMissing) else "failed"
            summary.reasons[run] = str(error)
    return summary


def _do(run: RowRun, order: Order, announce: Announce | None, watch: Progress | None, progress: bool) -> None:
    start = _find_start(run, order)
    if announce is not None:
        announce(run, "continues" if (run.folder / "checkpoints").is_dir() else "starts")
    config = row_config(order, run.row).model_copy(update={"seed": run.seed})
    if run.row.rule:
        record = run_rule(run.row.rule, config, run.row.name, run.seed)
        run.folder.mkdir(parents=True, exist_ok=True)
    else:
        api.train(config, out=run.folder, start=start, resume=True, watch=watch, progress=progress)
        record = replace(read_run(run.folder), name=run.row.name, preset=run.row.preset)
    date = record.date or datetime.datetime.now(datetime.UTC).date().isoformat()
    write_record(replace(record, machine=machine(), date=date), run.folder)


def _find_start(run: RowRun, order: Order) -> Path | None:
    if not run.start:
        return None
    if order.start is not None:
        return find_artifact(order.start)
    try:
        return find_artifact(order.out / run.start / "seed0")
    except ArtifactError as error:
        raise _StartMissing(f"{run.row.name} starts from {run.start}, whose run has not finished: {error}") from error


@dataclass(frozen=True)
class Estimate:
    """What a run would need; `state` is "to do", "running" or "done"."""

    run: RowRun
    plan: Plan | None
    state: str
    error: str = ""


def estimate_runs(order: Order) -> list[Estimate]:
    """Return what the runs of an order would need; each row is measured once, nothing is written."""
    plans: dict[str, Plan | None] = {}
    errors: dict[str, str] = {}
    found = []
    for run in list_runs(order):
        name = run.row.name
        if name not in plans:
            try:
                plans[name] = None if run.row.rule else plan(row_config(order, run.row, keep=False))
            except EgtError as error:
                plans[name], errors[name] = None, str(error)
        state = "done" if run.is_done() else "running" if is_claimed(run.folder) else "to do"
        found.append(Estimate(run, plans[name], state, errors.get(name, "")))
    return found
