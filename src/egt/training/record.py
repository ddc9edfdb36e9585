"""What a run has left, read from its folder: settings, metrics, curves, time."""

from __future__ import annotations

import csv
import datetime
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from egt.config.load import read_config
from egt.errors import DataError
from egt.inference.artifact import CARD
from egt.training.run_folder import ARTIFACT, CONFIG, METRICS


@dataclass(frozen=True)
class RunRecord:
    """A finished run.

    Fields:
        name: The row of a table that it belongs to, else the name of the run.
        preset: The preset that it follows; "" for other runs.
        metrics: split -> metric -> value, None where it could not be computed.
        parameters: How many were learned; 0 for a rule.
        history: A row for each epoch, as in metrics.csv.
        seconds: Time of its training steps without pauses and validation.
        epoch: The epoch, from 0, whose weights were selected.
        data_notes: The notes of the card of the data that was used.
        departures: How that data differs from the published files (`DataCard.departures`).
        versions: Versions of the packages that decide a result.
        machine: Where it ran; empty where that was not recorded.
        coverage: How often its intervals or sets held test labels, from the card of its artifact.
        baseline: The name and the metrics of the baseline on the same rows; empty where none was measured.
        by_target: split -> target -> metric -> value, where there are several targets.
        unreadable: split -> how many rows could not be read.
        folder: Where it was read from; "" if unknown.
    """

    name: str
    preset: str
    seed: int
    config: Mapping[str, Any]
    metrics: Mapping[str, Mapping[str, float | None]]
    parameters: int = 0
    history: Sequence[Mapping[str, float]] = ()
    seconds: float = 0.0
    epoch: int = 0
    split_sizes: Mapping[str, int] = field(default_factory=dict)
    data_notes: str = ""
    departures: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""
    coverage: Mapping[str, Any] = field(default_factory=dict)
    baseline: Mapping[str, Any] = field(default_factory=dict)
    by_target: Mapping[str, Mapping[str, Mapping[str, float | None]]] = field(default_factory=dict)
    unreadable: Mapping[str, int] = field(default_factory=dict)
    folder: str = ""

    def to_json(self) -> str:
        """Return what `from_json` reads."""
        return json.dumps(asdict(self), indent=1, default=float) + "\n"

    @classmethod
    def from_json(cls, file: Path) -> RunRecord:
        """Return the record in a file."""
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            content.setdefault("departures", _old_departures(content.get("data_notes", "")))
            return cls(**{**content, "folder": str(file.parent)})
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{file}: is not the result of a run ({error})") from error


def read_run(folder: Path) -> RunRecord:
    """Return the record of a run folder or an artifact, from its card and metrics.csv."""
    place = folder / ARTIFACT if (folder / ARTIFACT / CARD).is_file() else folder
    config = read_config(place / CONFIG)
    try:
        card = json.loads((place / CARD).read_text(encoding="utf-8"))
        ended = datetime.datetime.fromtimestamp((place / CARD).stat().st_mtime, datetime.UTC)
    except (OSError, ValueError) as error:
        raise DataError(f"{place}: has no readable {CARD} ({error}); give the folder that `egt train` wrote") from error
    history, data = _read_history(folder / METRICS), card.get("data", {})
    data_card = data.get("card", {})
    notes = data_card.get("notes", "")
    return RunRecord(
        name=config.name,
        preset="",
        seed=config.seed,
        config=config.model_dump(mode="json"),
        metrics=card["metrics"],
        parameters=card.get("parameters", 0),
        history=history,
        seconds=round(sum(row.get("seconds", 0.0) for row in history), 1),
        epoch=data.get("epoch", 0),
        split_sizes=data_card.get("split_sizes", {}),
        data_notes=notes,
        departures=data_card.get("departures", _old_departures(notes)),
        versions=card.get("versions", {}),
        date=ended.date().isoformat(),
        coverage=data.get("coverage", {}),
        baseline=data.get("baseline", {}),
        by_target=data.get("metrics_by_target", {}),
        unreadable=data.get("unreadable_rows", {}),
        folder=str(folder),
    )


def curves(records: Sequence[RunRecord], metric: str) -> dict[str, Mapping[str, Sequence[float]]]:
    """Return chart -> line -> value by epoch: the losses of the first of some runs, and the metric of all of them."""
    first = records[0].history
    losses = {
        name: [row[key] for row in first]
        for name, key in (("training", "train_loss"), ("validation", "val_loss"))
        if first and key in first[0]
    }
    scores = {
        f"seed {record.seed}": [row[f"val_{metric}"] for row in record.history]
        for record in records
        if record.history and f"val_{metric}" in record.history[0]
    }
    return {name: lines for name, lines in (("loss", losses), (metric, scores)) if lines}


def _read_history(file: Path) -> list[dict[str, float]]:
    if not file.is_file():
        return []
    with file.open(newline="") as stream:
        return [{name: _number(value) for name, value in row.items()} for row in csv.DictReader(stream)]


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan


def _old_departures(notes: str) -> list[str]:
    """Return the departures of a record of 0.1, which has only the notes of the card."""
    known = {
        "Generated with seed": "generated graphs, not the published files",
        "Superpixels made": "superpixels made here, not the published files",
        "JPEG": "images from JPEG files, not the original ones",
    }
    return [departure for words, departure in known.items() if words in notes]
