"""The rows of a table as runs: what was asked for, the configuration of each row, and the folders of its seeds."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egt.config.load import override, parse_config
from egt.config.presets import preset, starts_from
from egt.config.run import RunConfig
from egt.errors import ConfigError
from egt.reporting.paper import Column, PaperRow, choose_rows, find_table
from egt.reporting.record import RESULT
from egt.reproduce.budget import fit_into, with_epochs
from egt.training.plan import plan

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
