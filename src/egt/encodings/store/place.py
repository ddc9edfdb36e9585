"""Where a store lives: a folder named after its content, found again by anyone who asks for the same content."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from egt.encodings.encoding import Preparation
from egt.encodings.store.chunks import FORMAT_VERSION, stored_settings
from egt.encodings.store.store_files import sync_folder
from egt.sources.source import Source

log = logging.getLogger(__name__)


def cache_folder(given: Path | str | None) -> Path:
    """The folder of all stores: the given one, else `EGT_CACHE_DIR`, else `~/.cache/egt`."""
    return Path(given or os.environ.get("EGT_CACHE_DIR") or "~/.cache/egt").expanduser()


def store_name(source: Source, split: str, preparation: Preparation) -> str:
    """The folder name of a store: readable words, and a hash of everything that decides its content."""
    content = {
        "format": FORMAT_VERSION,
        "source": source.fingerprint(),
        "split": split,
        "preparation": stored_settings(preparation),
    }
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    words = re.sub(r"[^A-Za-z0-9_.]+", "-", f"{source.card.name}-{split}").strip("-.")
    return f"{words[:80]}-{key[:32]}"


@contextmanager
def sole_builder(path: Path) -> Iterator[None]:
    """Hold the lock of one store, which only saves double work: stores stay valid where there are no locks.

    The operating system releases the lock of a builder that is killed.
    """
    with open(path.with_name(f".{path.name}.lock"), "w") as file:
        locked = _lock(file.fileno(), path)
        try:
            if locked:
                for leftover in path.parent.glob(f".{path.name}.*.building"):
                    shutil.rmtree(leftover)
            yield
        finally:
            if locked:
                _unlock(file.fileno())


def _lock(handle: int, path: Path) -> bool:
    """True once the lock is ours, False where the system or the file system has no such locks."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        log.info("%s: another process is preparing these graphs, waiting for it", path)
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as error:
        log.info("%s: cannot be locked (%s), going on without", path, error.strerror)
        return False
    return True


def _unlock(handle: int) -> None:
    """Release the lock at once: closing the file would not while worker processes, which inherit it, live on."""
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_UN)


def building_folder(path: Path) -> Path:
    """A new folder beside the final one, so that moving it there is one step."""
    folder = path.with_name(f".{path.name}.{uuid.uuid4().hex}.building")
    folder.mkdir()
    return folder


def publish(built: Path, path: Path) -> None:
    """Move a finished folder into place at once; if another builder was first, keep theirs."""
    try:
        built.rename(path)
    except OSError:
        if not path.is_dir():
            raise
        shutil.rmtree(built)
    sync_folder(path.parent)


def discard(path: Path) -> None:
    """Remove a damaged store; it stops being visible at once."""
    away = path.with_name(f".{path.name}.{uuid.uuid4().hex}.building")
    path.rename(away)
    shutil.rmtree(away)
