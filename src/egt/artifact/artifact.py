"""An artifact: weights, resolved configuration, and a card with metrics, versions and checksums."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from egt import __version__
from egt.assemble import build_model
from egt.config.load import read_config, write_config
from egt.config.run import RunConfig
from egt.errors import ArtifactError
from egt.model import EGT

FORMAT = 1
WEIGHTS, CONFIG, CARD = "weights.safetensors", "config.yaml", "card.json"


@dataclass(frozen=True, eq=False)
class Artifact:
    """A trained (or imported) model with everything needed to use it.

    Fields:
        config: the resolved configuration of the run.
        model: the model, in evaluation mode.
        metrics: split -> metric -> value, as measured when it was made.
        data: facts about the training data (data card, target statistics); empty when unknown.
        notes: free text, e.g. where imported weights come from.
    """

    config: RunConfig
    model: EGT
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    notes: str = ""


def save_artifact(artifact: Artifact, path: Path) -> None:
    """Write the artifact as a folder; an existing artifact there is replaced only when the new one is complete."""
    path = Path(path)
    if path.exists() and not (path / CARD).is_file() and (path.is_file() or any(path.iterdir())):
        raise ArtifactError(f"{path}: exists and is not an artifact; choose another place (nothing was changed)")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written ({error.strerror})") from error
    try:
        _write_files(artifact, draft)
        if path.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}-old-", dir=path.parent))
            os.replace(path, old / "artifact")
            os.replace(draft, path)
            shutil.rmtree(old)
        else:
            os.replace(draft, path)
    except OSError as error:
        raise ArtifactError(f"{path}: could not be written completely ({error.strerror})") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def load_artifact(path: Path) -> Artifact:
    """Read an artifact, after checking that it is whole: every file present, of the written size and checksum."""
    path = Path(path)
    card = _read_card(path)
    for name, expected in card["sha256"].items():
        file = path / name
        if not file.is_file():
            raise ArtifactError(f"{path}: {name} is missing; the artifact is incomplete, copy it again")
        if _sha256(file) != expected:
            raise ArtifactError(f"{path}: {name} does not match its checksum; the file is damaged or was edited")
    config = read_config(path / CONFIG)
    model = build_model(config)
    try:
        weights = safetensors.torch.load_file(path / WEIGHTS)
    except safetensors.SafetensorError as error:
        raise ArtifactError(f"{path}: {WEIGHTS} is not a safetensors file ({error})") from error
    load_weights(model, weights, str(path / WEIGHTS))
    return Artifact(config, model.eval(), card["metrics"], card["data"], card["notes"])


def load_weights(model: EGT, weights: Mapping[str, torch.Tensor], where: str) -> None:
    """Copy weights into a model; every tensor must be there with the right shape, and no other."""
    expected = model.state_dict()
    problems = [f"{name} is missing" for name in expected if name not in weights]
    problems += [f"{name} is not part of this model" for name in weights if name not in expected]
    problems += [
        f"{name} has shape {tuple(weights[name].shape)}, the model needs {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if name in weights and weights[name].shape != tensor.shape
    ]
    if problems:
        more = f" (and {len(problems) - 8} more)" if len(problems) > 8 else ""
        raise ArtifactError(f"{where}: does not fit the model: {'; '.join(problems[:8])}{more}")
    model.load_state_dict(dict(weights))


def _write_files(artifact: Artifact, folder: Path) -> None:
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in artifact.model.state_dict().items()}
    safetensors.torch.save_file(weights, folder / WEIGHTS)
    (folder / CONFIG).write_text(write_config(artifact.config), encoding="utf-8")
    card = {
        "format": FORMAT,
        "name": artifact.config.name,
        "parameters": artifact.model.num_parameters(),
        "metrics": artifact.metrics,
        "data": artifact.data,
        "notes": artifact.notes,
        "versions": versions(),
        "sha256": {name: _sha256(folder / name) for name in (WEIGHTS, CONFIG)},
    }
    (folder / CARD).write_text(json.dumps(card, indent=1, allow_nan=True) + "\n", encoding="utf-8")
    for name in (WEIGHTS, CONFIG, CARD):
        with open(folder / name, "rb+") as file:
            os.fsync(file.fileno())


def versions() -> dict[str, str]:
    """The versions of what decides a result."""
    found = {"egt": __version__}
    for name in ("torch", "numpy", "lightning", "rdkit"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _read_card(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise ArtifactError(
            f"{path}: no such artifact; give the folder that `egt train` or `egt import-official` wrote"
        )
    try:
        card = json.loads((path / CARD).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ArtifactError(f"{path}: has no {CARD}; this folder is not an artifact") from error
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path}: {CARD} cannot be read ({error})") from error
    needed = {"format", "sha256", "metrics", "data", "notes"}
    if not isinstance(card, dict) or not needed <= card.keys() or not isinstance(card["sha256"], dict):
        raise ArtifactError(f"{path}: {CARD} is not the card of an artifact")
    if card["format"] != FORMAT:
        raise ArtifactError(f"{path}: has format {card['format']}, this version of egt reads {FORMAT}; update egt")
    if not {WEIGHTS, CONFIG} <= card["sha256"].keys():
        raise ArtifactError(f"{path}: {CARD} lists no checksum for {WEIGHTS} and {CONFIG}")
    return card


def _sha256(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
