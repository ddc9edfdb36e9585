"""What a run has left for a report: settings, metrics, curves, time. One JSON file, or read from a run folder."""

from __future__ import annotations

import csv
import datetime
import json
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from egt.config.load import parse_config, read_config
from egt.config.run import RunConfig
from egt.errors import ConfigError, DataError
from egt.files import exists, write_atomically
from egt.paper.presets import preset
from egt.processors import num_processors

RESULT = "result.json"

_CONFIG, _ARTIFACT, _CARD, _METRICS = "config.yaml", "artifact", "card.json", "metrics.csv"

_MEMBERS = "members.json"


@dataclass(frozen=True)
class RunRecord:
    """A finished run.

    Fields:
        name: of its row, else of the run.
        preset: that it follows; "" for other runs.
        seed: of the run.
        config: its settings, as JSON.
        metrics: split -> metric -> value, None where it could not be computed.
        parameters: that were learned; 0 for a rule.
        history: a row for each epoch.
        seconds: of its training steps, over all sittings, without pauses; validation is not in it.
        epoch: whose weights were selected, from 0.
        split_sizes: graphs of each split.
        data_notes: what the card says about the data that was really used.
        versions: of what decides a result.
        machine: where it ran; empty where nobody wrote it down.
        date: when it ended.
        coverage: how often its intervals or sets held test labels, as the card of its artifact says.
        folder: where it was read from; "" if unknown.
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
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""
    coverage: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""

    def to_json(self) -> str:
        """Return what `from_json` reads."""
        return json.dumps(asdict(self), indent=1, default=float) + "\n"

    @classmethod
    def from_json(cls, file: Path) -> RunRecord:
        """Return the record in a file."""
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            return cls(**{**content, "folder": str(file.parent)})
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{file}: is not the result of a run ({error})") from error


def machine() -> dict[str, Any]:
    """Return what is told about this machine."""
    return {"processors": num_processors(), "system": platform.platform(terse=True), "processor": _processor()}


def read_records(paths: Iterable[Path]) -> tuple[list[RunRecord], list[Path]]:
    """Return the finished runs below some paths, and the folders of those that have not finished.

    Args:
        paths: run folders, folders of run folders, or result files.
    """
    records, unfinished = [], []
    for path in paths:
        if not exists(path):
            raise DataError(f"{path}: there is no such file or folder; give the folder of a run, or of several")
        found = _results(path)
        records += [_read(place) for place in found]
        runs = [file.parent for file in sorted(path.rglob(_CONFIG)) if (file.parent / "checkpoints").is_dir()]
        unfinished += [run for run in runs if not (run / _ARTIFACT).is_dir() and not (run / RESULT).is_file()]
    return sorted(records, key=lambda record: (record.name, record.seed)), unfinished


def read_run(folder: Path) -> RunRecord:
    """Return the record of a run folder, from its artifact and metrics.csv."""
    place = folder / _ARTIFACT if (folder / _ARTIFACT / _CARD).is_file() else folder
    config = read_config(place / _CONFIG)
    try:
        card = json.loads((place / _CARD).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{place}: has no readable {_CARD} ({error}); give the folder that `egt train` wrote"
        ) from error
    history, data = _history(folder / _METRICS), card.get("data", {})
    return RunRecord(
        name=config.name,
        preset=config.name if _is_preset(config.name) else "",
        seed=config.seed,
        config=config.model_dump(mode="json"),
        metrics=card["metrics"],
        parameters=card.get("parameters", 0),
        history=history,
        seconds=round(sum(row.get("seconds", 0.0) for row in history), 1),
        epoch=data.get("epoch", 0),
        split_sizes=data.get("card", {}).get("split_sizes", {}),
        data_notes=data.get("card", {}).get("notes", ""),
        versions=card.get("versions", {}),
        date=datetime.datetime.fromtimestamp((place / _CARD).stat().st_mtime, datetime.UTC).date().isoformat(),
        coverage=data.get("coverage", {}),
        folder=str(folder),
    )


def write_record(record: RunRecord, folder: Path) -> None:
    """Write the result of a run, at once."""
    with write_atomically(folder / RESULT) as draft:
        draft.write_text(replace(record, folder="").to_json(), encoding="utf-8")


def keep_record(record: RunRecord, folder: Path) -> Path:
    """Write a result where results are kept, FOLDER/ROW/seedK/result.json; one that is there is never replaced.

    Raises:
        DataError: there is another result of the same row and seed.
    """
    place = folder / record.name / f"seed{record.seed}"
    signed = replace(record, machine=record.machine or machine(), folder="")
    if (place / RESULT).exists():
        if RunRecord.from_json(place / RESULT).metrics != record.metrics:
            raise DataError(f"{place}: holds another result; keep this one in another folder, results are not replaced")
        return place
    place.mkdir(parents=True, exist_ok=True)
    write_record(signed, place)
    return place


def config_of(record: RunRecord) -> RunConfig:
    """Return the settings of a record."""
    return parse_config(record.config, record.name)


def _results(path: Path) -> list[Path]:
    """List result files, and run folders that have none."""
    if path.is_file():
        return [path]
    results = sorted(path.rglob(RESULT))
    known = {file.parent for file in results}
    cards = [file.parent for file in sorted(path.rglob(_CARD)) if not _is_copy(file.parent, path)]
    runs = [card.parent if card.name == _ARTIFACT else card for card in cards]
    return [*results, *(run for run in dict.fromkeys(runs) if run not in known)]


def _is_copy(artifact: Path, path: Path) -> bool:
    """Return whether an artifact is that of a run below the path as well, copied into the one of its ensemble."""
    ensemble = artifact.parent.parent
    return ensemble.is_relative_to(path) and (ensemble / _MEMBERS).is_file() and artifact.parent.name == _ARTIFACT


def _read(place: Path) -> RunRecord:
    return RunRecord.from_json(place) if place.is_file() else read_run(place)


def _history(file: Path) -> list[dict[str, float]]:
    if not file.is_file():
        return []
    with file.open(newline="") as stream:
        return [{name: _number(value) for name, value in row.items()} for row in csv.DictReader(stream)]


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan


def _is_preset(name: str) -> bool:
    try:
        preset(name)
    except ConfigError:
        return False
    return True


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
