"""`prepare`: read every record of some splits, compute encodings in several processes, write them as they come.

A store is a folder named after its content, found again by anyone who asks for the same content.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from egt.data.encodings.encoding import Preparation
from egt.data.source import Progress, Source
from egt.data.store.chunks import FORMAT_VERSION, field_names, stored_settings
from egt.data.store.store_files import Store, StoreWriter, verify_if_changed, writing_in
from egt.data.store.workers import Parts, Workers
from egt.errors import DataError
from egt.files import lock, sync_folder, user_folder

log = logging.getLogger(__name__)


def prepare(
    source: Source,
    split: str,
    preparation: Preparation,
    *,
    cache_dir: Path | str | None = None,
    num_workers: int | None = None,
    progress: Progress | None = None,
) -> Store:
    """Return the prepared graphs of a split: opened if they are on disk, else built and kept there.

    The folder is keyed by the content of the source, the schema and the settings of the stored encodings. It appears
    at once when complete, so it may be built by several processes at a time and a builder may be killed at any moment;
    what took it long (tours, superpixels) is then not computed again.

    Stores are in `cache_dir`; default `EGT_CACHE_DIR`, else `~/.cache/egt`. There is one process per processor, or
    `num_workers`; 0 or 1 start none besides this one. The files are the same, bit for bit.
    """
    splits = prepare_splits(
        source, [split], preparation, cache_dir=cache_dir, num_workers=num_workers, progress=progress
    )
    return splits[split]


def prepare_splits(
    source: Source,
    splits: Sequence[str],
    preparation: Preparation,
    *,
    cache_dir: Path | str | None = None,
    num_workers: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Store]:
    """Return the prepared graphs of several splits, as `prepare` gives each.

    One set of worker processes serves all of them.
    """
    folder = cache_folder(cache_dir)
    paths = {split: folder / store_name(source, split, preparation) for split in splits}
    with Workers(source, preparation, num_workers) as workers:
        for split, path in paths.items():
            if _missing(path, preparation) is not None:
                _write(path, source, split, preparation, workers, progress)
    return {split: Store(path, preparation) for split, path in paths.items()}


def _missing(path: Path, preparation: Preparation) -> str | None:
    """Return what an intact store lacks: None for nothing, "" if there is none, else how it is damaged."""
    if not path.exists():
        return ""
    try:
        verify_if_changed(path)
        Store(path, preparation)
    except DataError as damage:
        return str(damage)
    return None


def _write(
    path: Path, source: Source, split: str, preparation: Preparation, workers: Workers, progress: Progress | None
) -> None:
    """Write the graphs of a split, unless another process has made the store meanwhile."""
    with ExitStack() as held:
        with writing_in(path.parent):
            held.enter_context(sole_builder(path))
        missing = _missing(path, preparation)
        if missing is None:  # made by another process, while this one waited for the lock
            return
        if missing:
            log.warning("%s: these graphs are prepared again", missing)
        with writing_in(path.parent):
            if path.exists():
                discard(path)
            building = building_folder(path)
            held.callback(shutil.rmtree, building, ignore_errors=True)
            writer = held.enter_context(closing(StoreWriter(building, field_names(preparation))))
        parts = Parts(path.with_name(f".{path.name}.parts"))
        records = source.records(split)
        num_done = 0
        with closing(workers.chunks(records, parts)) as chunks:
            for chunk in chunks:
                with writing_in(path.parent):
                    writer.append(chunk)
                num_done += chunk.num_records
                if progress is not None:
                    progress(f"preparing {split}", num_done, len(records))
        about = {
            "format": FORMAT_VERSION,
            "source": source.card.name,
            "split": split,
            "preparation": stored_settings(preparation),
            "num_records": len(records),
        }
        with writing_in(path.parent):
            writer.finish(about)
            publish(building, path)
            shutil.rmtree(parts.folder, ignore_errors=True)


def cache_folder(given: Path | str | None) -> Path:
    """Return the folder of all stores: the given one, else `EGT_CACHE_DIR`, else `~/.cache/egt`."""
    return Path(given).expanduser() if given else user_folder("EGT_CACHE_DIR", ".cache", "egt")


def store_name(source: Source, split: str, preparation: Preparation) -> str:
    """Return the folder name of a store: readable words, and a hash of everything that decides its content."""
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
    """Hold the lock of one store, which only saves double work: stores stay valid where there are no locks."""

    def say_so() -> None:
        log.info("%s: another process is preparing these graphs, waiting for it", path)

    with lock(path.with_name(f".{path.name}.lock"), on_wait=say_so) as is_alone:
        if is_alone:
            for leftover in path.parent.glob(f".{path.name}.*.building"):
                shutil.rmtree(leftover)
        yield


def building_folder(path: Path) -> Path:
    """Return a new folder beside the final one, so that moving it there is one step."""
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
