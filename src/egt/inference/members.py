"""The artifact of an ensemble: a folder with the artifacts of its members, and one JSON file about all of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from egt.errors import ArtifactError
from egt.inference.artifact import (
    CALIBRATION,
    CARD,
    ENSEMBLE,
    MEMBER,
    Artifact,
    content_sha256,
    file_sha256,
    load_artifact,
    put_folder,
    read_calibration,
    with_nans,
    with_nulls,
    write_calibration,
)

if TYPE_CHECKING:
    from egt.inference.uncertainty import Calibration

FORMAT = 1

Kind = Literal["seeds", "folds"]


@dataclass(frozen=True, eq=False)
class EnsembleArtifact:
    """Models of one configuration whose answers are averaged.

    Fields:
        kind: how the members differ: in their seeds, or also in the fold of the data that each leaves out.
        members: the models.
        metrics: split -> metric -> value, of the averaged answers; of folds, the mean of each model on its own test.
        data: facts about all of them, such as `member_metrics` (split -> metric -> mean and deviation) and `coverage`.
        calibration: of the averaged answers.
        checksum: of the file about all of them, as for `Artifact`.
    """

    kind: Kind
    members: tuple[Artifact, ...]
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None
    checksum: str = ""


def member_name(number: int) -> str:
    """Return the name of the folder of a member."""
    return f"{MEMBER}{number}"


def save_ensemble(ensemble: EnsembleArtifact, members: Sequence[Path], path: Path) -> None:
    """Write the ensemble as a folder, at once; one that is there is replaced.

    Args:
        ensemble: what is known about all members.
        members: their artifacts, which are copied.
        path: the folder.
    """
    put_folder(path, ENSEMBLE, lambda folder: _write(ensemble, members, folder))


def load_ensemble(path: Path, device: torch.device | str = "cpu") -> EnsembleArtifact:
    """Read an ensemble, after checking that it is whole. Arguments as in `load_artifact`."""
    content = read_ensemble(path)
    checksums: Mapping[str, str] = content["sha256"]
    for name, expected in checksums.items():
        if not (path / name).is_file():
            raise ArtifactError(f"{path}: {name} is missing; the ensemble is incomplete, copy it again")
        if file_sha256(path / name) != expected:
            raise ArtifactError(f"{path}: {name} does not match its checksum; the file is damaged or was edited")
    calibration = read_calibration(path / CALIBRATION) if CALIBRATION in checksums else None
    members = tuple(load_artifact(path / member_name(k), device) for k in range(content["members"]))
    metrics, checksum = with_nans(content["metrics"]), content_sha256(content)
    return EnsembleArtifact(content["kind"], members, metrics, content["data"], calibration, checksum)


def read_ensemble(path: Path) -> dict[str, Any]:
    """Read what is written about all members, without the models; it is known to be unchanged."""
    try:
        content = json.loads((path / ENSEMBLE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path}: {ENSEMBLE} cannot be read ({error})") from error
    kinds = {"format": int, "kind": str, "members": int, "metrics": dict, "data": dict, "sha256": dict}
    if not isinstance(content, dict) or not all(isinstance(content.get(key), kind) for key, kind in kinds.items()):
        raise ArtifactError(f"{path}: {ENSEMBLE} does not describe an ensemble")
    if content["format"] != FORMAT:
        raise ArtifactError(f"{path}: has format {content['format']}, this version of egt reads {FORMAT}; update egt")
    if content["sha256"].pop(ENSEMBLE, None) != content_sha256(content):
        raise ArtifactError(f"{path}: {ENSEMBLE} does not match its checksum; the file is damaged or was edited")
    return content


def _write(ensemble: EnsembleArtifact, members: Sequence[Path], folder: Path) -> None:
    names = []
    for number, member in enumerate(members):
        shutil.copytree(member, folder / member_name(number))
        names.append(f"{member_name(number)}/{CARD}")  # which has the checksums of the other files
    if ensemble.calibration is not None:
        write_calibration(ensemble.calibration, ensemble.members[0].config.task.names, folder / CALIBRATION)
        names.append(CALIBRATION)
    content: dict[str, Any] = {
        "format": FORMAT,
        "kind": ensemble.kind,
        "members": len(members),
        "metrics": with_nulls(ensemble.metrics),
        "data": with_nulls(ensemble.data),
        "sha256": {name: file_sha256(folder / name) for name in names},
    }
    content = json.loads(json.dumps(content))  # as it will be read
    content["sha256"][ENSEMBLE] = content_sha256(content)
    (folder / ENSEMBLE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
