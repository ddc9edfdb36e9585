"""The folder of a run: tried before any work, and left as it was when the run is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from egt.config.load import write_config
from egt.config.run import RunConfig
from egt.errors import ConfigError, EgtError, RunError

CONFIG, CHECKPOINTS, ARTIFACT = "config.yaml", "checkpoints", "artifact"
_TRIAL_BYTES = 1 << 20
"""A disk without this little room is full."""


def try_folder(folder: Path) -> None:
    """Raise a `ConfigError` if the folder cannot be made or is read-only or full, before hours of work depend on it."""
    made = not folder.exists()
    trial = folder / f".trial-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with trial.open("wb") as file:
            file.write(bytes(_TRIAL_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise cannot_write(folder, error) from error
    finally:
        with suppress(OSError):
            trial.unlink(missing_ok=True)
            if made:
                folder.rmdir()


def cannot_write(folder: Path, error: OSError) -> ConfigError:
    """What to tell about a folder that cannot be written."""
    return ConfigError(
        f"{folder} cannot be written ({error.strerror}); make room there, or choose another folder (--out)"
    )


def keep_config(config: RunConfig, folder: Path) -> None:
    """Write the configuration of the run, at once: another process may be reading it."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{CONFIG}.{os.getpid()}"
    draft.write_text(write_config(config), encoding="utf-8")
    draft.replace(folder / CONFIG)


@contextmanager
def unchanged_if_refused(folder: Path) -> Iterator[None]:
    """When what happens inside is refused as wrong input, the configuration that was there comes back."""
    path = folder / CONFIG
    before = path.read_bytes() if path.is_file() else None
    try:
        yield
    except EgtError as error:
        if before is not None and not isinstance(error, RunError):
            path.write_bytes(before)
        elif not isinstance(error, RunError):
            path.unlink(missing_ok=True)
            for empty in (folder / CHECKPOINTS, folder):
                with suppress(OSError):  # there is something in it
                    empty.rmdir()
        raise
