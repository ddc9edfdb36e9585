"""An artifact: weights, resolved configuration, and a card with metrics, versions and checksums; no pickles.

An ensemble is a folder with the artifacts of its members and one JSON file about all of them. An artifact is found by
its path, by the name of a model that comes with the package, or by the address `hf://OWNER/NAME@REVISION` on a hub.
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
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import safetensors
from pydantic import BaseModel, FiniteFloat, PositiveInt, ValidationError

from egt import __version__
from egt.config.load import read_config, write_config
from egt.config.run import RunConfig
from egt.config.run_data import feature_schema
from egt.errors import ArtifactError, RunError, require_extra
from egt.files import exists, strict_json
from egt.inference.uncertainty import Calibration

if TYPE_CHECKING:
    import torch

    from egt.inference.familiarity import TrainingMolecules
    from egt.inference.learner import Blend
    from egt.nn.model import EGT

FORMAT = 1
WEIGHTS, CONFIG, CARD = "weights.safetensors", "config.yaml", "card.json"
CALIBRATION = "calibration.json"  # only where the model was calibrated
MOLECULES = "molecules.safetensors"  # only where the model was trained on molecules
BLEND = "blend.safetensors"  # only where the answers are averaged with those of a learner without a network
ENSEMBLE = "ensemble.json"  # stands for the card in the artifact of an ensemble
MEMBER = "member"  # how the folders of an ensemble's models begin; a number follows
HUB = "hf://"  # how the address of an artifact on a hub begins
FOLDER = Path(__file__).resolve().parent / "pretrained"
_ADDRESS = re.compile(r"hf://(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
log = logging.getLogger(__name__)
Kind = Literal["seeds", "folds"]


def pretrained_names() -> list[str]:
    """Return the names of all models that come with the package."""
    return sorted(card.parent.name for card in FOLDER.glob(f"*/{CARD}"))


def pretrained_cards() -> dict[str, dict[str, Any]]:
    """Return the cards of all of them, by name: parameters, metrics, data, versions."""
    return {name: json.loads((FOLDER / name / CARD).read_text(encoding="utf-8")) for name in pretrained_names()}


def fetch(address: str, files: Sequence[str]) -> Path:
    """Return the folder of an artifact in the local cache of `huggingface_hub`, downloaded if it is not there.

    A name or branch may mean something else tomorrow: without a commit as the revision there is a warning with the one
    that was found. `files` are the only names or patterns that are fetched: no pickles, no code.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ArtifactError(f"{address}: is not the address of a model, which has the form hf://OWNER/NAME@REVISION")
    with require_extra("hub", "models of a hub need huggingface_hub", ArtifactError):
        import huggingface_hub as hub
    revision = match["revision"]
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


@dataclass(frozen=True, eq=False)
class Artifact:
    """A trained (or imported) model with everything needed to use it.

    Fields:
        metrics: split -> metric -> value, as measured when it was made.
        data: facts about the training data (data card, target statistics); empty when unknown.
        notes: free text, e.g. where imported weights come from.
        calibration: of intervals, sets and probabilities; None where there was no validation.
        molecules: what is kept of the training molecules; None for other graphs.
        checksum: of the card, which has those of the other files; "" where the artifact was not read from a folder.
        blend: what the model's answers are averaged with; None for the model alone.
    """

    kind: ClassVar = "single"
    config: RunConfig
    model: EGT
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    notes: str = ""
    calibration: Calibration | None = None
    molecules: TrainingMolecules | None = None
    checksum: str = ""
    blend: Blend | None = None

    @property
    def members(self) -> tuple[Artifact, ...]:
        """The artifact alone: where one model or several will do, this is one."""
        return (self,)


@dataclass(frozen=True, eq=False)
class EnsembleArtifact:
    """Models of one configuration whose answers are averaged; other fields as for `Artifact`.

    Fields:
        kind: how the members differ: in their seeds, or also in the fold of the data that each leaves out.
        metrics: those of the averaged answers; of folds, the mean of each model on its own test.
        data: facts about all of them, such as `member_metrics` (split -> metric -> mean and deviation) and `coverage`.
    """

    kind: Kind
    members: tuple[Artifact, ...]
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None
    checksum: str = ""

    @cached_property
    def molecules(self) -> TrainingMolecules | None:
        """What is kept of the molecules that any of the members was trained on."""
        known = [member.molecules for member in self.members if member.molecules is not None]
        return known[0].join(known) if len(known) == len(self.members) else None


_Metrics = dict[str, dict[str, float | None]]


class _Scale(BaseModel):
    mean: tuple[FiniteFloat, ...]
    std: tuple[FiniteFloat, ...]


class _DataCard(BaseModel):
    title: str = ""
    license: str = ""
    citation: str = ""
    target_meaning: str = ""
    split_sizes: dict[str, int] = {}
    checksums: dict[str, str] = {}


class _TargetCoverage(BaseModel):
    coverage: float
    size: float | None
    num_labels: int


class _Coverage(BaseModel):
    asked: float = 0.0
    kind: str = ""
    transductive: bool = False
    targets: dict[str, _TargetCoverage] = {}
    doubts: list[str] = []


class _Data(BaseModel):
    card: _DataCard = _DataCard()
    fingerprint: str = ""
    scale: _Scale | None = None
    coverage: _Coverage | None = None
    metrics_by_target: dict[str, _Metrics] = {}
    member_metrics: dict[str, _Metrics] = {}


class _About(BaseModel):
    """What the files about artifacts and ensembles must say; whatever else stands there is free."""

    format: int
    metrics: _Metrics
    data: _Data


_File = Literal[
    "weights.safetensors", "config.yaml", "calibration.json", "molecules.safetensors", "blend.safetensors", "card.json"
]


class _Card(_About):
    notes: str
    sha256: dict[_File, str]


class _EnsembleCard(_About):
    kind: Kind
    members: PositiveInt
    sha256: dict[str, str]


def save_artifact(artifact: Artifact, path: Path) -> None:
    """Write the artifact as a folder; an existing artifact there is replaced only when the new one is complete."""
    put_folder(path, CARD, lambda folder: _write_files(artifact, folder))


def save_ensemble(ensemble: EnsembleArtifact, members: Sequence[Path], path: Path) -> None:
    """Write the ensemble as a folder, at once, with copies of its members' artifacts; one that is there is replaced."""

    def write(folder: Path) -> None:
        names = []
        for number, member in enumerate(members):
            shutil.copytree(member, folder / member_name(number))
            names.append(f"{member_name(number)}/{CARD}")  # which has the checksums of the other files
        about = {"format": FORMAT, "kind": ensemble.kind, "members": len(members)}
        _write_card(folder / ENSEMBLE, about, names, ensemble, ensemble.members[0].config.task.names)

    put_folder(path, ENSEMBLE, write)


def member_name(number: int) -> str:
    """Return the name of the folder of a member."""
    return f"{MEMBER}{number}"


def put_folder(path: Path, mark: str, write: Callable[[Path], object]) -> None:
    """Write a folder and put it in its place once it is complete.

    A folder that is there must hold the mark, a file that every folder of its kind has.
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

    `device` is where the model will be used, which decides the backend of its layers; its weights are on the CPU.
    """
    from egt.assemble import build_model, weight_shapes
    from egt.inference.backends import execution

    path = Path(path)
    card = _read_card(path)
    _check_files(path, card["sha256"])
    config = read_config(path / CONFIG)
    scale, count = card["data"].get("scale"), len(config.task.names)
    if scale is not None and (0 in scale["std"] or not len(scale["mean"]) == len(scale["std"]) == count):
        raise ArtifactError(
            f"{path}: data.scale in {CARD} must be a mean and a std for each target ({count}), and no std 0; make the "
            "artifact again"
        )
    try:
        with safetensors.safe_open(path / WEIGHTS, framework="pt") as file:
            names, where = list(file.keys()), str(path / WEIGHTS)
            if config.model.num_layers > len(names):
                raise ArtifactError(f"{where}: does not fit the model, which has {config.model.num_layers} layers")
            found = {name: tuple(file.get_slice(name).get_shape()) for name in names}
            check_shapes(weight_shapes(config), found, where)  # before memory is taken for either
            weights = {name: file.get_tensor(name) for name in names}
    except safetensors.SafetensorError as error:
        raise ArtifactError(f"{path}: {WEIGHTS} is not a safetensors file ({error})") from error
    model = build_model(config, backend=execution(config, device, training=False).backend)
    load_weights(model, weights, where)
    calibration, blend = _read_calibration(path, card, config), _read_blend(path, card, config)
    molecules = None
    if MOLECULES in card["sha256"]:
        from egt.inference.familiarity import TrainingMolecules  # here: few models of graphs have any

        molecules = TrainingMolecules.load(path / MOLECULES)
    metrics, checksum = with_nans(card["metrics"]), content_sha256(card)
    return Artifact(config, model.eval(), metrics, card["data"], card["notes"], calibration, molecules, checksum, blend)


def load_ensemble(path: Path, device: torch.device | str = "cpu") -> EnsembleArtifact:
    """Read an ensemble, after checking that it is whole. Arguments as in `load_artifact`."""
    content = read_ensemble(path)
    _check_files(path, content["sha256"])
    members = tuple(load_artifact(path / member_name(k), device) for k in range(content["members"]))
    calibration = _read_calibration(path, content, members[0].config)
    metrics, checksum = with_nans(content["metrics"]), content_sha256(content)
    return EnsembleArtifact(content["kind"], members, metrics, content["data"], calibration, checksum)


def read_ensemble(path: Path) -> dict[str, Any]:
    """Read what is written about all members, without the models; it is known to be unchanged."""
    content = _read_checked(path, ENSEMBLE, _EnsembleCard)
    count, named = content["members"], content["sha256"].keys() - {CALIBRATION}
    if count != len(named) or named != {f"{member_name(number)}/{CARD}" for number in range(count)}:
        raise ArtifactError(f"{path}: {ENSEMBLE} lists other files than the cards of {count} models")
    return content


def _read_card(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise ArtifactError(
            f"{path}: no such artifact; give the folder that `egt train` or `egt import-official` wrote"
        )
    if not exists(path / CARD) and exists(path / ENSEMBLE):
        raise ArtifactError(f"{path}: is an ensemble; name one of its models, as {path / MEMBER}0")
    card = _read_checked(path, CARD, _Card)
    if not {WEIGHTS, CONFIG} <= card["sha256"].keys():
        raise ArtifactError(f"{path}: {CARD} lists no checksum for {WEIGHTS} and {CONFIG}; make the artifact again")
    return card


def _read_checked(path: Path, name: str, form: type[BaseModel]) -> dict[str, Any]:
    """Read the JSON file that describes an artifact, without its own checksum, which is right."""
    if not (path / name).is_file():  # a pipe would be waited for
        raise ArtifactError(f"{path}: has no {name}; this folder is not an artifact")
    try:
        text = (path / name).read_bytes()
        form.model_validate_json(text, strict=True)
        content: dict[str, Any] = json.loads(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ArtifactError(
            f"{path}: {name} does not describe an artifact ({where + ': ' if where else ''}{first['msg']})"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: {name} cannot be read ({error})") from error
    if content["format"] != FORMAT:
        raise ArtifactError(f"{path}: has format {content['format']}, this version of egt reads {FORMAT}; update egt")
    if content["sha256"].pop(name, None) != content_sha256(content):
        raise ArtifactError(f"{path}: {name} does not match its checksum; the file is damaged or was edited")
    return content


def _check_files(path: Path, checksums: Mapping[str, str]) -> None:
    """Check that the files of an artifact are there, with the checksums that its card has."""
    for name, expected in checksums.items():
        if not (path / name).is_file():
            raise ArtifactError(f"{path}: {name} is missing; the artifact is incomplete, copy it again")
        if file_sha256(path / name) != expected:
            raise ArtifactError(f"{path}: {name} does not match its checksum; the file is damaged or was edited")


def _read_calibration(path: Path, card: Mapping[str, Any], config: RunConfig) -> Calibration | None:
    if CALIBRATION not in card["sha256"]:
        return None
    where = str(path / CALIBRATION)
    calibration = Calibration.from_json((path / CALIBRATION).read_bytes(), where)
    calibration.check_fits(config.task, where)
    return calibration


def _read_blend(path: Path, card: Mapping[str, Any], config: RunConfig) -> Blend | None:
    if BLEND not in card["sha256"]:
        return None
    from egt.inference.learner import Blend  # here: few models have one

    return Blend.load(path / BLEND, len(config.task.names), feature_schema(config.model).num_graph_values)


def find_artifact(path: str | Path) -> Path:
    """Find the folder of an artifact: a hub's, the given one, that in a run folder, or the package's of this name."""
    if not isinstance(path, str | os.PathLike):
        raise ArtifactError(f"a model of type {type(path).__name__} is given; give the folder that `egt train` wrote")
    if str(path).startswith(HUB):
        files = (WEIGHTS, CONFIG, CARD, CALIBRATION, MOLECULES, BLEND)
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
    if str(path) in pretrained_names():
        return FOLDER / str(path)
    raise ArtifactError(
        f"{given}: no such artifact; give the folder that `egt train` wrote, or the name of a model of the package "
        f"({', '.join(pretrained_names())})"
    )


def weights_sha256(path: Path) -> str:
    """Return the checksum of the weights of an artifact, as its card has it."""
    return str(_read_card(path)["sha256"][WEIGHTS])


def load_weights(model: EGT, weights: Mapping[str, torch.Tensor], where: str) -> None:
    """Copy weights into a model; every tensor must be there with the right shape, and no other."""
    check_shapes(shapes_of(model.state_dict()), shapes_of(weights), where)
    model.load_state_dict(dict(weights))


def shapes_of(weights: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of weights, by their names."""
    return {name: tuple(tensor.shape) for name, tensor in weights.items()}


def check_shapes(expected: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]], where: str) -> None:
    """Raise an `ArtifactError` where the weights that were found are not those of a model."""
    problems = [f"{name} is missing" for name in expected if name not in found]
    problems += [f"{name} is not part of this model" for name in found if name not in expected]
    problems += [
        f"{name} has shape {found[name]}, the model needs {shape}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    if problems:
        more = f" (and {len(problems) - 8} more)" if len(problems) > 8 else ""
        raise ArtifactError(f"{where}: does not fit the model: {'; '.join(problems[:8])}{more}")


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
    names = [WEIGHTS, CONFIG]
    for name, part in ((MOLECULES, artifact.molecules), (BLEND, artifact.blend)):
        if part is not None:
            part.save(folder / name)
            names.append(name)
    for name in names:
        shutil.copymode(folder / CONFIG, folder / name)  # safetensors writes for this user only
    about = {
        "format": FORMAT,
        "name": artifact.config.name,
        "start": artifact.config.model_dump(mode="json")["start"],
        "parameters": artifact.model.num_parameters(),
        "notes": artifact.notes,
        "versions": versions(),
    }
    _write_card(folder / CARD, about, names, artifact, artifact.config.task.names)
    for file in folder.iterdir():
        with open(file, "rb+") as stream:
            os.fsync(stream.fileno())


def _write_card(
    file: Path,
    about: Mapping[str, Any],
    names: Sequence[str],
    artifact: Artifact | EnsembleArtifact,
    targets: Sequence[str],
) -> None:
    """Write what is known about an artifact, with the checksums of the named files, and its calibration."""
    if artifact.calibration is not None:
        text = json.dumps(artifact.calibration.to_json(targets)) + "\n"
        file.with_name(CALIBRATION).write_text(text, encoding="utf-8")
        names = [*names, CALIBRATION]
    content = {
        **about,
        "metrics": strict_json(artifact.metrics),
        "data": strict_json(artifact.data),
        "sha256": {name: file_sha256(file.parent / name) for name in names},
    }
    content = json.loads(json.dumps(content))  # as it will be read
    content["sha256"][file.name] = content_sha256(content)
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def with_nans(metrics: Any) -> Any:
    """Return metrics as they were before they became strict JSON."""
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


def content_sha256(card: Mapping[str, Any]) -> str:
    """Return the checksum of a card that does not have it yet, however its JSON is laid out."""
    return hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest()


def file_sha256(file: Path) -> str:
    """Return the checksum of a file."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
