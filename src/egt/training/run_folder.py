"""The folder of a run: tried before any work, held by one run at a time, and left as it was when a run is refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from egt.config.load import read_config, write_config
from egt.config.run import RunConfig
from egt.errors import ConfigError, EgtError, RunError
from egt.files import check_no_file, drafts_of, exists, lock, write_atomically

CONFIG, METRICS, CHECKPOINTS, ARTIFACT = "config.yaml", "metrics.csv", "checkpoints", "artifact"

MEMBERS = "members.json"
"""Only in the folder of an ensemble: how many runs it has, and how they differ."""

LOCK = ".lock"
"""Held by the run that writes to the folder; it also marks the folder as a run's."""

_PATIENCE_SECONDS = 30.0
"""How long a run waits for one that was killed a moment ago to be gone."""

_LONGEST_NAME = 200

_TRIAL_BYTES = 1 << 20
"""A disk without this little room is full."""


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


def remove_leftovers(folder: Path) -> None:
    """Remove what a run that was killed had not finished writing, in a folder that this process holds."""
    checkpoints = folder / CHECKPOINTS
    for path in (
        *drafts_of(folder / CONFIG),
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
