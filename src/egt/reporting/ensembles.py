"""Ensembles in a report: the averaged answers of several models beside the mean and deviation of each alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egt.artifact.artifact import CONFIG, ENSEMBLE
from egt.artifact.ensemble import member_name, read_ensemble
from egt.config.load import read_config
from egt.reporting.sheet import Sheet

TITLE = "Ensembles"
_OF_FOLDS = "of folds, 'together' is the mean over the folds, each tested by the model that has not seen it"


@dataclass(frozen=True)
class EnsembleRecord:
    """What an ensemble has left for a report.

    Fields:
        name: of its runs.
        kind: how its models differ: "seeds" or "folds".
        count: how many there are.
        metrics: split -> metric -> value, of the averaged answers; None where it could not be computed.
        member_metrics: split -> metric -> mean and std over the models, each alone.
        coverage: how often its intervals or sets held test labels; empty where nobody could tell.
        folder: of its artifact.
    """

    name: str
    kind: str
    count: int
    metrics: Mapping[str, Mapping[str, float | None]]
    member_metrics: Mapping[str, Mapping[str, Mapping[str, float | None]]]
    coverage: Mapping[str, Any]
    folder: str

    @property
    def title(self) -> str:
        """What it is called in a table."""
        return f"{self.name}, {self.count} {self.kind}"


def read_ensembles(paths: Iterable[Path]) -> list[EnsembleRecord]:
    """Return the ensembles below some paths: artifacts, run folders, or folders of them."""
    files = dict.fromkeys(file for path in paths if path.is_dir() for file in sorted(path.rglob(ENSEMBLE)))
    return [_read(file.parent) for file in files]


def _read(folder: Path) -> EnsembleRecord:
    content = read_ensemble(folder)
    data = content["data"]
    return EnsembleRecord(
        name=read_config(folder / member_name(0) / CONFIG).name,
        kind=content["kind"],
        count=content["members"],
        metrics=content["metrics"],
        member_metrics=data.get("member_metrics", {}),
        coverage=data.get("coverage") or {},
        folder=str(folder),
    )


def ensemble_sheets(records: Sequence[EnsembleRecord]) -> list[Sheet]:
    """Return the metrics of all ensembles, and how often their intervals or sets held the truth."""
    if not records:
        return []
    rows = [(record.title, *row) for record in records for row in _metric_rows(record)]
    notes = (_OF_FOLDS,) if any(record.kind == "folds" for record in records) else ()
    metrics = Sheet(TITLE, ("ensemble", "split", "metric", "together", "each alone"), rows, notes)
    return [metrics, *(_coverage_of(record) for record in records if record.coverage)]


def coverage_sheet(coverage: Mapping[str, Any], title: str = "") -> Sheet:
    """Return how often intervals or sets have held the test labels."""
    columns = ("target", f"inside {coverage['kind']}s of {coverage['asked']:.0%}", "mean size", "labels")
    rows = [
        (name, f"{found['coverage']:.1%}", _size(found["size"]), str(found["num_labels"]))
        for name, found in coverage["targets"].items()
    ]
    where = ["of nodes or edges of the training graph (transductive)"] if coverage["transductive"] else []
    return Sheet(title, columns, rows, [*where, *coverage.get("doubts", ())])


def _coverage_of(record: EnsembleRecord) -> Sheet:
    return coverage_sheet(record.coverage, f"{record.title}: how often the truth was inside")


def _metric_rows(record: EnsembleRecord) -> list[tuple[str, str, str, str]]:
    splits = dict.fromkeys([*record.metrics, *record.member_metrics])
    found = []
    for split in splits:
        joint, alone = record.metrics.get(split, {}), record.member_metrics.get(split, {})
        names = dict.fromkeys(name for name in (*joint, *alone) if not name.startswith("num_"))
        found += [(split, name, _number(joint.get(name)), _spread(alone.get(name))) for name in names]
    return found


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"


def _spread(value: Mapping[str, float | None] | None) -> str:
    if value is None or value["mean"] is None or value["std"] is None:
        return "-"
    return f"{value['mean']:.5g} ± {value['std']:.2g}"


def _size(size: float | None) -> str:
    return "infinite" if size is None else f"{size:.4g}"
