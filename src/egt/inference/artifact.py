"""Models that come with the package, found by their names.

Artifacts of a model hub, by the address `hf://OWNER/NAME@REVISION`: fetched once, checked as any other.

An artifact: weights, resolved configuration, and a card with metrics, versions and checksums.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors

from egt import __version__
from egt.config.load import read_config, write_config
from egt.config.run import RunConfig
from egt.errors import ArtifactError, RunError
from egt.files import exists

if TYPE_CHECKING:
    import torch

    from egt.inference.uncertainty import Calibration
    from egt.nn.model import EGT

FOLDER = Path(__file__).resolve().parent / "pretrained"

_CARD = "card.json"


def pretrained_names() -> list[str]:
    """Return the names of all models that come with the package."""
    return sorted(card.parent.name for card in FOLDER.glob(f"*/{_CARD}"))


def find_pretrained(name: str) -> Path | None:
    """Return the artifact of this name in the package; None if there is none."""
    return FOLDER / name if name in pretrained_names() else None


def pretrained_cards() -> dict[str, dict[str, Any]]:
    """Return the cards of all of them, by name: parameters, metrics, data, versions."""
    return {name: json.loads((FOLDER / name / _CARD).read_text(encoding="utf-8")) for name in pretrained_names()}


_ADDRESS = re.compile(r"hf://(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")

_COMMIT = re.compile(r"[0-9a-f]{40}")

log = logging.getLogger(__name__)


def fetch(address: str, files: Sequence[str]) -> Path:
    """Return the folder of an artifact in the local cache of `huggingface_hub`, downloaded if it is not there.

    A name or branch may mean something else tomorrow: without a commit as the revision there is a warning with the one
    that was found.

    Args:
        address: of the artifact.
        files: all that is fetched, names or patterns: no pickles, no code.

    Raises:
        ArtifactError: the address is wrong, there is no such artifact, or the hub cannot be reached.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ArtifactError(f"{address}: is not the address of a model, which has the form hf://OWNER/NAME@REVISION")
    hub, revision = _require_hub(), match["revision"]
    try:
        folder = Path(hub.snapshot_download(match["repository"], revision=revision, allow_patterns=list(files)))
    except Exception as error:  # its errors have no common kind; whichever it is, the model is not here
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ArtifactError(
            f"{address}: cannot be fetched ({reason}); check the name, the revision and the network"
        ) from error
    if revision is None or not _COMMIT.fullmatch(revision):
        pinned = f"hf://{match['repository']}@{folder.name}"
        log.warning("%s may be another model tomorrow; always the same one is %s", address, pinned)
    return folder


def _require_hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise ArtifactError('models of a hub need huggingface_hub: pip install "egt-graph[hub]"') from error
    return huggingface_hub


FORMAT = 1

WEIGHTS, CONFIG, CARD = "weights.safetensors", "config.yaml", "card.json"

CALIBRATION = "calibration.json"
"""Only where the model was calibrated."""

ENSEMBLE = "ensemble.json"
"""Stands for the card in the artifact of an ensemble."""

MEMBER = "member"
"""How the folders of an ensemble's models begin; a number follows."""

HUB = "hf://"
"""How the address of an artifact on a hub begins."""


@dataclass(frozen=True, eq=False)
class Artifact:
    """A trained (or imported) model with everything needed to use it.

    Fields:
        config: the resolved configuration of the run.
        model: the model, in evaluation mode.
        metrics: split -> metric -> value, as measured when it was made.
        data: facts about the training data (data card, target statistics); empty when unknown.
        notes: free text, e.g. where imported weights come from.
        calibration: of intervals, sets and probabilities; None where there was no validation.
        checksum: of the card, which has those of the other files; "" where the artifact was not read from a folder.
    """

    config: RunConfig
    model: EGT
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    notes: str = ""
    calibration: Calibration | None = None
    checksum: str = ""


def save_artifact(artifact: Artifact, path: Path) -> None:
    """Write the artifact as a folder; an existing artifact there is replaced only when the new one is complete."""
    put_folder(path, CARD, lambda folder: _write_files(artifact, folder))


def put_folder(path: Path, mark: str, write: Callable[[Path], None]) -> None:
    """Write a folder and put it in its place once it is complete; one that is there must hold the mark.

    Args:
        path: the folder.
        mark: a file that every folder of this kind has.
        write: fills an empty folder.
    """
    path = Path(path)
    if exists(path) and not (path / mark).is_file() and (path.is_file() or any(path.iterdir())):
        raise ArtifactError(f"{path}: exists and is not an artifact; choose another place (nothing was changed)")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _unfinished(path, error) from error
        raise ArtifactError(f"{path}: cannot be written ({error.strerror}); choose another place") from error
    try:
        folder = draft / "artifact"  # the draft itself is for this user only, the folder in it for all the umask admits
        folder.mkdir()
        write(folder)
        _put(folder, path, draft.with_name(f"{draft.name}-old"))
    except (OSError, safetensors.SafetensorError) as error:
        raise _unfinished(path, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def load_artifact(path: Path, device: torch.device | str = "cpu") -> Artifact:
    """Read an artifact, after checking that it is whole: every file present, of the written size and checksum.

    Args:
        path: its folder.
        device: that the model will be used on, which decides the backend of its layers; its weights are on the CPU.
    """
    import safetensors.torch

    from egt.assemble import build_model
    from egt.inference.backends import execution

    path = Path(path)
    card = _read_card(path)
    for name in card["sha256"]:
        _check_file(path, name, card)
    config = read_config(path / CONFIG)
    _check_scale(card["data"].get("scale"), len(config.task.names), path)
    model = build_model(config, backend=execution(config, device, training=False).backend)
    try:
        weights = safetensors.torch.load_file(path / WEIGHTS)
    except safetensors.SafetensorError as error:
        raise ArtifactError(f"{path}: {WEIGHTS} is not a safetensors file ({error})") from error
    load_weights(model, weights, str(path / WEIGHTS))
    calibration = read_calibration(path / CALIBRATION) if CALIBRATION in card["sha256"] else None
    metrics, checksum = with_nans(card["metrics"]), content_sha256(card)
    return Artifact(config, model.eval(), metrics, card["data"], card["notes"], calibration, checksum)


def load_config(path: Path) -> RunConfig:
    """Read the configuration of an artifact, after checking that it is unchanged. Needs no torch."""
    _check_file(path, CONFIG, _read_card(path))
    return read_config(path / CONFIG)


def _check_file(path: Path, name: str, card: Mapping[str, Any]) -> None:
    """Check that a file of an artifact is there, with the checksum that the card has."""
    if not (path / name).is_file():
        raise ArtifactError(f"{path}: {name} is missing; the artifact is incomplete, copy it again")
    if file_sha256(path / name) != card["sha256"][name]:
        raise ArtifactError(f"{path}: {name} does not match its checksum; the file is damaged or was edited")


def write_calibration(calibration: Calibration, names: Sequence[str], file: Path) -> None:
    """Write a calibration. names: of the targets."""
    file.write_text(json.dumps(calibration.to_json(names)) + "\n", encoding="utf-8")


def read_calibration(file: Path) -> Calibration:
    """Read what `write_calibration` wrote; its checksum is known to be right."""
    from egt.inference.uncertainty import Calibration

    return Calibration.from_json(json.loads(file.read_text(encoding="utf-8")), str(file))


def find_artifact(path: str | Path) -> Path:
    """Find the folder of an artifact: a hub's, the given one, that in a run folder, or the package's of this name."""
    if not isinstance(path, str | os.PathLike):
        raise ArtifactError(f"a model of type {type(path).__name__} is given; give the folder that `egt train` wrote")
    if str(path).startswith(HUB):
        files = (WEIGHTS, CONFIG, CARD, CALIBRATION)
        return fetch(str(path), (*files, ENSEMBLE, *(f"{MEMBER}*/{name}" for name in files)))
    given = Path(path)
    for place in (given, given / "artifact"):
        if exists(place / CARD) or exists(place / ENSEMBLE):
            return place
    if exists(given) and given.is_dir():
        unfinished = (
            " (the run in it has not finished: continue it with --resume)" if (given / "checkpoints").is_dir() else ""
        )
        raise ArtifactError(f"{given}: holds no artifact{unfinished}; give the folder that `egt train` wrote")
    found = find_pretrained(str(path))
    if found is not None:
        return found
    known = ", ".join(pretrained_names())
    hint = f", or the name of a model of the package ({known})" if known else ""
    raise ArtifactError(f"{given}: no such artifact; give the folder that `egt train` wrote{hint}")


def weights_sha256(path: Path) -> str:
    """Return the checksum of the weights of an artifact, as its card has it."""
    checksum: str = _read_card(path)["sha256"][WEIGHTS]
    return checksum


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


def _unfinished(path: Path, error: Exception) -> RunError:
    reason = " ".join(str(error).split())
    return RunError(
        f"{path}: could not be written ({reason}); nothing was changed there: "
        "make room and continue with --resume (an import: run it again)"
    )


def _put(folder: Path, path: Path, old: Path) -> None:
    """Move a folder to its place; what is there waits at `old`, and comes back if that fails."""
    replaces = path.exists()
    if replaces:
        os.replace(path, old)
    try:
        os.replace(folder, path)
    except OSError:
        if replaces:
            os.replace(old, path)
        raise
    if replaces:
        os.replace(old, folder)  # goes with the draft


def _write_files(artifact: Artifact, folder: Path) -> None:
    import safetensors.torch

    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in artifact.model.state_dict().items()}
    safetensors.torch.save_file(weights, folder / WEIGHTS)
    (folder / CONFIG).write_text(write_config(artifact.config), encoding="utf-8")
    shutil.copymode(folder / CONFIG, folder / WEIGHTS)  # safetensors writes for this user only
    names = [WEIGHTS, CONFIG]
    if artifact.calibration is not None:
        write_calibration(artifact.calibration, artifact.config.task.names, folder / CALIBRATION)
        names.append(CALIBRATION)
    content = {
        "format": FORMAT,
        "name": artifact.config.name,
        "start": artifact.config.model_dump(mode="json")["start"],
        "parameters": artifact.model.num_parameters(),
        "metrics": with_nulls(artifact.metrics),
        "data": with_nulls(artifact.data),
        "notes": artifact.notes,
        "versions": versions(),
        "sha256": {name: file_sha256(folder / name) for name in names},
    }
    card: dict[str, Any] = json.loads(json.dumps(content))  # as it will be read
    card["sha256"][CARD] = content_sha256(card)
    (folder / CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    for name in (*names, CARD):
        with open(folder / name, "rb+") as file:
            os.fsync(file.fileno())


def with_nulls(metrics: Any) -> Any:
    """JSON has no NaN: a metric that cannot be computed is null."""
    if isinstance(metrics, Mapping):
        return {name: with_nulls(value) for name, value in metrics.items()}
    return None if isinstance(metrics, float) and not math.isfinite(metrics) else metrics


def with_nans(metrics: Any) -> Any:
    """Return what `with_nulls` took, where it is used."""
    if isinstance(metrics, Mapping):
        return {name: with_nans(value) for name, value in metrics.items()}
    return math.nan if metrics is None else metrics


def versions() -> dict[str, str]:
    """Return the versions of what decides a result."""
    found = {"egt": __version__}
    for name in ("torch", "numpy", "rdkit"):
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
        if exists(path / ENSEMBLE):
            raise ArtifactError(f"{path}: is an ensemble; name one of its models, as {path / MEMBER}0") from error
        raise ArtifactError(f"{path}: has no {CARD}; this folder is not an artifact") from error
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path}: {CARD} cannot be read ({error})") from error
    kinds = {"format": int, "sha256": dict, "metrics": dict, "data": dict, "notes": str}
    if not isinstance(card, dict) or not all(isinstance(card.get(key), kind) for key, kind in kinds.items()):
        raise ArtifactError(f"{path}: {CARD} is not the card of an artifact")
    if card["format"] != FORMAT:
        raise ArtifactError(f"{path}: has format {card['format']}, this version of egt reads {FORMAT}; update egt")
    if not {WEIGHTS, CONFIG, CARD} <= card["sha256"].keys():
        raise ArtifactError(
            f"{path}: {CARD} lists no checksum for {WEIGHTS}, {CONFIG} and itself; make the artifact again"
        )
    if card["sha256"].pop(CARD) != content_sha256(card):
        raise ArtifactError(f"{path}: {CARD} does not match its checksum; the file is damaged or was edited")
    return card


def _check_scale(scale: Any, num_targets: int, path: Path) -> None:
    """Refuse a scale of the targets that is not a mean and a std for each of them."""
    if scale is None:
        return
    parts: list[Any] = [scale.get(name) if isinstance(scale, dict) else None for name in ("mean", "std")]
    if not all(_are_numbers(part, num_targets) for part in parts) or 0 in parts[1]:
        raise ArtifactError(
            f"{path}: data.scale in {CARD} must be a mean and a std, {num_targets} finite numbers each and no std 0; "
            "make the artifact again"
        )


def _are_numbers(values: Any, count: int) -> bool:
    if not isinstance(values, list) or len(values) != count:
        return False
    return all(type(value) in (int, float) and math.isfinite(value) for value in values)


def content_sha256(card: Mapping[str, Any]) -> str:
    """Return the checksum of a card that does not have it yet, however its JSON is laid out."""
    return hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest()


def file_sha256(file: Path) -> str:
    """Return the checksum of a file."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
