"""`prepare`: read every record of a split, compute its encodings in several processes, write them as they come."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

from egt.encodings.encoding import Preparation
from egt.encodings.store.files import writing_in
from egt.encodings.store.layout import FORMAT_VERSION, field_names, stored_settings
from egt.encodings.store.parts import Parts
from egt.encodings.store.place import building_folder, cache_folder, discard, publish, sole_builder, store_name
from egt.encodings.store.reader import Store
from egt.encodings.store.workers import chunks
from egt.encodings.store.writer import StoreWriter
from egt.errors import DataError
from egt.sources.source import Source

log = logging.getLogger(__name__)
Progress = Callable[[int, int], None]
"""Called with the number of records done and of all records."""


def prepare(
    source: Source,
    split: str,
    preparation: Preparation,
    *,
    cache_dir: Path | str | None = None,
    num_workers: int | None = None,
    progress: Progress | None = None,
) -> Store:
    """The prepared graphs of a split: opened if they are on disk, else built and kept there.

    The folder is keyed by the content of the source, the schema and the settings of the stored encodings. It appears
    at once when complete, so it may be built by several processes at a time and a builder may be killed at any moment;
    what took it long (tours, superpixels) is then not computed again.

    Args:
        source: where the records come from.
        split: which of its splits.
        preparation: the schema to check and the encodings to compute.
        cache_dir: the folder of all stores; default `EGT_CACHE_DIR`, else `~/.cache/egt`.
        num_workers: number of processes; default one per processor, 0 or 1 for none besides this one. The files are
            the same, bit for bit.
        progress: called after each chunk of records.
    """
    folder = cache_folder(cache_dir)
    path = folder / store_name(source, split, preparation)
    store = _intact(path, preparation)
    if store is not None:
        return store
    with ExitStack() as lock:
        with writing_in(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock.enter_context(sole_builder(path))
        store = _intact(path, preparation)  # by another process, while this one waited for the lock
        if store is not None:
            return store
        with writing_in(folder):
            if path.exists():
                discard(path)
            building = building_folder(path)
        parts = Parts(path.with_name(f".{path.name}.parts"))
        try:
            _build(building, source, split, preparation, num_workers, progress, parts)
            with writing_in(folder):
                publish(building, path)
                shutil.rmtree(parts.folder, ignore_errors=True)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return Store(path, preparation)


def _intact(path: Path, preparation: Preparation) -> Store | None:
    if not path.exists():
        return None
    try:
        return Store(path, preparation)
    except DataError as damage:
        log.warning("%s: these graphs are prepared again", damage)
        return None


def _build(
    folder: Path,
    source: Source,
    split: str,
    preparation: Preparation,
    num_workers: int | None,
    progress: Progress | None,
    parts: Parts,
) -> None:
    """Write a complete store into an empty folder."""
    records = source.records(split)
    num_done = 0
    with ExitStack() as stack:
        with writing_in(folder.parent):
            writer = stack.enter_context(closing(StoreWriter(folder, field_names(preparation.encodings))))
        for chunk in stack.enter_context(closing(chunks(source, preparation, records, num_workers, parts))):
            with writing_in(folder.parent):
                writer.append(chunk)
            num_done += chunk.num_records
            if progress is not None:
                progress(num_done, len(records))
        with writing_in(folder.parent):
            writer.finish(
                {
                    "format": FORMAT_VERSION,
                    "source": source.card.name,
                    "split": split,
                    "preparation": stored_settings(preparation),
                    "num_records": len(records),
                }
            )
