"""The folder of a run and its checkpoints.

The folder is tried before any work, held by one run at a time, and left as it was when a run is refused.

A checkpoint is a safetensors file, written atomically, whose header carries the run's state as JSON and a sha256 of
everything. The last two generations are kept, so a full disk or a kill in the middle of writing never costs the run.
Weights that may be selected in the end (`best-*.safetensors`) are files of their own, named by the checkpoints that
refer to them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from egt.config.load import read_config, write_config
from egt.config.run import RunConfig
from egt.errors import ArtifactError, ConfigError, EgtError, RunError
from egt.files import check_no_file, drafts_of, exists, lock, write_atomically

CONFIG, METRICS, CHECKPOINTS, ARTIFACT = "config.yaml", "metrics.csv", "checkpoints", "artifact"
MEMBERS = "members.json"  # only in the folder of an ensemble: how many runs it has, and how they differ
LOCK = ".lock"  # held by the run that writes to the folder; it also marks the folder as a run's
_CLAIM = ".claim"
_PATIENCE_SECONDS = 30.0  # how long a run waits for one that was killed a moment ago to be gone
_LONGEST_NAME = 200
_TRIAL_BYTES = 1 << 20  # a disk without this little room is full


def run_folder(name: str) -> Path:
    """Return where a run goes by default, `runs/NAME`; a `ConfigError` for a path, which would lead somewhere else."""
    is_path = name in ("", ".", "..") or bool({"/", "\\", "\0"} & {*name})
    if is_path or len(name.encode(errors="replace")) > _LONGEST_NAME:
        raise ConfigError(
            f"name {name[:80]!r}: the run would go to runs/NAME, so this must be the plain name of a folder, without "
            f"/ or \\ and of at most {_LONGEST_NAME} bytes; change it (--set name=...), or name the folder with --out"
        )
    return Path("runs", name)


def check_not_foreign(folder: Path, resume: bool) -> None:
    """Raise a `ConfigError` if a run, or the one that is resumed, would write over files that are not a run's."""
    if exists(folder / LOCK) or exists(folder / CHECKPOINTS / LOCK):
        return
    if resume and exists(folder / CONFIG):
        read_config(folder / CONFIG)
        return
    found = [
        name
        for name in (CONFIG, METRICS, CHECKPOINTS, ARTIFACT)
        # Of several processes one may make an empty folder before the first.
        if os.path.lexists(path := folder / name) and not (path.is_dir() and not any(path.iterdir()))
    ]
    if found:
        raise ConfigError(
            f"{folder} contains {', '.join(found)} of something other than a run in progress, which a new run would "
            "overwrite; choose another folder (--out), or move them away"
        )


def check_unused(folder: Path) -> None:
    """Raise a `ConfigError` if the folder holds a run, which a new one would overwrite."""
    if any((folder / CHECKPOINTS).glob("step-*")) or exists(folder / MEMBERS):
        raise ConfigError(f"{folder} already holds a run; continue it with --resume, or choose another folder (--out)")


@contextmanager
def hold_folder(folder: Path, *, patience: float = _PATIENCE_SECONDS) -> Iterator[None]:
    """Keep other runs out of the folder while this one writes there; ends with the process, however it ends."""
    with ExitStack() as stack:
        try:
            stack.enter_context(lock(folder / LOCK, patience=patience))
        except TimeoutError as error:
            raise ConfigError(
                f"another run is writing to {folder}; wait for it or stop it, or choose another --out"
            ) from error
        except OSError as error:
            raise _unwritable(folder, error) from error
        yield


@contextmanager
def claim_run(folder: Path) -> Iterator[bool]:
    """Yield whether this process may do a run that several share; it keeps the others away while the context lasts.

    The claim is a locked file beside the folder, which is free again once its process is gone.
    """
    place = folder.with_name(f"{folder.name}{_CLAIM}")
    with ExitStack() as stack:
        try:
            stack.enter_context(lock(place, patience=0))
        except TimeoutError:
            yield False
            return
        except OSError as error:
            raise _unwritable(folder.parent, error) from error
        stack.callback(place.unlink, missing_ok=True)
        yield True


def is_claimed(folder: Path) -> bool:
    """Return whether a process is at a run that several share."""
    if not exists(folder.with_name(f"{folder.name}{_CLAIM}")):
        return False
    with claim_run(folder) as is_free:
        return not is_free


def remove_leftovers(folder: Path) -> None:
    """Remove what a run that was killed had not finished writing, in a folder that this process holds."""
    checkpoints = folder / CHECKPOINTS
    for path in (
        *drafts_of(folder / CONFIG),
        *drafts_of(folder / MEMBERS),
        *folder.glob(".trial-*"),
        *folder.glob(f".{ARTIFACT}-*"),
        *drafts_of(checkpoints / "*.safetensors"),
        *checkpoints.glob(".tmp*"),  # of safetensors
        *checkpoints.glob("*.tmp"),  # of 0.1
    ):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def try_folder(folder: Path) -> None:
    """Raise a `ConfigError` if the folder cannot be made or is read-only or full, before hours of work depend on it."""
    check_no_file(folder, "--out")
    is_new = not exists(folder)
    trial = folder / f".trial-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with trial.open("wb") as file:
            file.write(bytes(_TRIAL_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        with suppress(OSError):
            trial.unlink(missing_ok=True)
            if is_new:
                folder.rmdir()


def _unwritable(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"{folder} cannot be written ({error.strerror}); make room there, or choose another folder (--out)"
    )


def write_run_config(config: RunConfig, folder: Path) -> None:
    """Write the configuration of the run, at once: another process may be reading it."""
    folder.mkdir(parents=True, exist_ok=True)
    with write_atomically(folder / CONFIG) as draft:
        draft.write_text(write_config(config), encoding="utf-8")


@contextmanager
def restore_if_refused(folder: Path) -> Iterator[None]:
    """When the work inside is refused as wrong input, put back the configuration that was in the folder before.

    This process holds the folder. Nothing of a run that was to be the first one there stays.
    """
    path = folder / CONFIG
    before = path.read_bytes() if path.is_file() else None
    try:
        yield
    except EgtError as error:
        if isinstance(error, RunError):
            raise
        if before is not None:
            path.write_bytes(before)
            raise
        path.unlink(missing_ok=True)
        (folder / MEMBERS).unlink(missing_ok=True)
        for place in (folder / CHECKPOINTS, folder):
            with suppress(OSError):
                if {path.name for path in place.iterdir()} <= {LOCK}:
                    (place / LOCK).unlink(missing_ok=True)
                    place.rmdir()
        raise


class StepSums(NamedTuple):
    """What an optimizer step adds up over its graphs, of all processes."""

    loss: float
    labels: float
    auxiliary_loss: float
    graphs: float


@dataclass
class Best:
    """The best validation so far: its loss, its epoch, and the file that holds the weights."""

    loss: float
    epoch: int
    file: str


@dataclass
class RunProgress:
    """Counters and results of a run; plain data, so that JSON keeps it.

    Fields:
        epoch: the epoch that is being trained, from 0.
        step: optimizer steps of the whole run that are done.
        sums: of the running epoch, as in `StepSums`.
        seconds: of the steps of the running epoch, as measured; without pauses, over all sittings.
    """

    epoch: int = 0
    position: int = 0
    step: int = 0
    sums: list[float] = field(default_factory=lambda: [0.0] * 4)
    seconds: float = 0.0
    best: Best | None = None
    history: list[dict[str, float]] = field(default_factory=list)

    @property
    def best_row(self) -> dict[str, float]:
        """The row of the best epoch so far."""
        return next(row for row in self.history if self.best is not None and row["epoch"] == self.best.epoch)

    @property
    def epochs_since_best(self) -> int:
        """How many epochs were finished after the best one."""
        return 0 if self.best is None else len(self.history) - 1 - self.best.epoch

    def as_json(self) -> dict[str, Any]:
        """Return what `from_json` takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> RunProgress:
        """Return the progress in a checkpoint."""
        best = state["best"]
        return cls(**{**state, "best": None if best is None else Best(**best)})


FORMAT = "egt-checkpoint-1"
_NEEDED = ("config", "data", "scale", "progress", "schedule", "precision", "trained")
"""What the state of a run holds; `State.checkpoint_content` gives it."""

_GENERATIONS = 2
Kept = tuple[dict[str, Any], dict[str, Tensor]]  # the state of a run as JSON, and its tensors by name


class Checkpoints:
    """The checkpoints of one run in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._weights: list[str | None] = []  # files that the kept generations refer to

    def generations(self) -> list[Path]:
        """Return the checkpoints, oldest first."""
        return sorted(self.folder.glob("step-*.safetensors"))

    def latest(self) -> Kept | None:
        """State and tensors of the newest checkpoint, None if there is none."""
        generations = self.generations()
        if not generations:
            return None
        try:
            state, tensors = read_tensors(generations[-1])
            if missing := _missing_settings(state):
                raise ArtifactError(f"{generations[-1]} is no checkpoint of a run: it lacks {', '.join(missing)}")
        except ArtifactError as error:
            rest = f"continue from {generations[-2].name}" if len(generations) > 1 else "start again"
            raise ArtifactError(f"{error}; delete it to {rest}") from error
        return state, tensors

    def check_best(self, config: RunConfig, state: Mapping[str, Any]) -> None:
        """Raise an `ArtifactError` if the weights that a run with this state may select in the end are damaged."""
        best = state["progress"]["best"]
        if config.trainer.select != "best" or best is None:
            return
        try:
            read_tensors(self.folder / best["file"])
        except ArtifactError as error:
            raise ArtifactError(
                f"{error}; it holds the best weights so far, which the run may leave in the end: put it back, "
                "or start a new run in another folder (--out)"
            ) from error

    def keep_weights(self, file: str) -> None:
        """Keep the weight file that the newest generation refers to, when more are written behind it."""
        self._weights = [file]

    def write(
        self, step: int, state: Mapping[str, Any], tensors: Mapping[str, Tensor], weights: str | None = None
    ) -> None:
        """Write the checkpoint of a step, which may refer to a weight file, then drop older generations."""
        write_tensors(self.folder / f"step-{step:012d}.safetensors", state, tensors)
        self._weights = [*self._weights, weights][-_GENERATIONS:]
        for path in self.generations()[:-_GENERATIONS]:
            path.unlink()
        for path in self.folder.glob("best-*.safetensors"):
            if path.name not in self._weights:
                path.unlink()


def checkpoints_of(folder: Path) -> Checkpoints:
    """Return the checkpoints of the run in this folder."""
    return Checkpoints(folder / CHECKPOINTS)


def tensors_of(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """Return the tensors of a part ("model", "optimizer" or "average"), without its name in front."""
    return {name.removeprefix(f"{part}."): tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}


def write_tensors(path: Path, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a file at once or not at all."""
    text = json.dumps(state)
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {"format": FORMAT, "state": text, "sha256": _digest(text, on_cpu)}
    try:
        with write_atomically(path) as draft:
            save_file(on_cpu, draft, metadata=header)
    except (OSError, SafetensorError) as error:
        raise RunError(
            f"could not write {path}: {error}; earlier checkpoints are intact: make room and continue with --resume"
        ) from error


def read_tensors(path: Path) -> Kept:
    """State and tensors of a file that `write_tensors` made; anything else is an `ArtifactError`."""
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ArtifactError(f"{path} is no checkpoint, or only part of one: {error}") from error
    if header.get("format") != FORMAT:
        raise ArtifactError(f"{path} was not written by this version of egt (format {header.get('format')!r})")
    if _digest(header.get("state", ""), tensors) != header.get("sha256"):
        raise ArtifactError(f"{path} is damaged: its content does not match its checksum")
    try:
        state = json.loads(header.get("state", ""))
    except ValueError as error:
        raise ArtifactError(f"{path} is no checkpoint: its state is not JSON ({error})") from error
    if not isinstance(state, dict):
        raise ArtifactError(f"{path} is no checkpoint: its state is not a mapping")
    return state, tensors


def _missing_settings(state: Any) -> list[str]:
    """Return what a state lacks to be that of a run."""

    def missing(content: Any, names: Iterable[str], where: str = "") -> list[str]:
        return [f"{where}{name}" for name in names if not isinstance(content, dict) or name not in content]

    progress = state.get("progress")
    found = missing(state, _NEEDED)
    found += missing(progress, [each.name for each in fields(RunProgress)], "progress.")
    if not found and progress["best"] is not None:
        found = missing(progress["best"], [each.name for each in fields(Best)], "progress.best.")
    return found


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
