"""`prepare`: read every record of some splits, compute encodings in several processes, write them as they come.

`prepare_in_memory` does the same without a store, for what is read once: new data to predict.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from egt.encodings.encoding import Preparation, Sample
from egt.encodings.store.chunks import FORMAT_VERSION, field_names, samples_of, stored_settings
from egt.encodings.store.place import building_folder, cache_folder, discard, publish, sole_builder, store_name
from egt.encodings.store.store_files import Store, StoreWriter, writing_in
from egt.encodings.store.workers import Parts, Workers
from egt.errors import DataError
from egt.sources.source import Progress, Reading, Source

log = logging.getLogger(__name__)

CHUNKS_AT_ONCE = 32
"""How many chunks are in memory at once where no store is written; about two thousand records."""


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
        progress: is told about "preparing SPLIT" after each chunk of records.
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
    """The prepared graphs of several splits, as `prepare` gives each.

    One set of worker processes serves all of them, and goes on with the next split while a thread brings the last one
    to the disk.
    """
    folder = cache_folder(cache_dir)
    paths = {split: folder / store_name(source, split, preparation) for split in splits}
    with ThreadPoolExecutor(1) as disk, Workers(source, preparation, num_workers) as workers:
        finishing: list[Future[None]] = []
        for split, path in paths.items():
            intact = _is_intact(path, preparation)
            written = None if intact else _write(path, source, split, preparation, workers, progress)
            if written is not None:
                finishing.append(disk.submit(written.finish))
        for future in finishing:
            future.result()
    return {split: Store(path, preparation) for split, path in paths.items()}


@dataclass(frozen=True, eq=False)
class Prepared:
    """Some consecutive records of a split, prepared in memory.

    Fields:
        samples: their graphs with encodings, without those that could not be read.
        rows: the row of the source that each sample came from.
        problems: the rows with an error or a warning, without their graphs.
        num_records: how many records there were.
    """

    samples: list[Sample]
    rows: list[int]
    problems: list[Reading]
    num_records: int


def prepare_in_memory(
    source: Source,
    split: str,
    preparation: Preparation,
    *,
    num_workers: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Prepared]:
    """The prepared graphs of a split, about two thousand at a time; no file is written.

    Arguments as in `prepare`; the stage of which `progress` is told is "preparing".
    """
    records = source.records(split)
    num_done = 0
    with Workers(source, preparation, num_workers) as workers, closing(workers.chunks(records)) as chunks:
        while group := list(islice(chunks, CHUNKS_AT_ONCE)):
            num_done += sum(chunk.num_records for chunk in group)
            if progress is not None:
                progress("preparing", num_done, len(records))
            yield Prepared(
                samples=[sample for chunk in group for sample in samples_of(chunk, preparation)],
                rows=[row for chunk in group for row in chunk.rows.tolist()],
                problems=[problem for chunk in group for problem in chunk.problems],
                num_records=sum(chunk.num_records for chunk in group),
            )


def _is_intact(path: Path, preparation: Preparation) -> bool:
    if not path.exists():
        return False
    try:
        Store(path, preparation)
    except DataError as damage:
        log.warning("%s: these graphs are prepared again", damage)
        return False
    return True


@dataclass(frozen=True)
class _Written:
    """A store whose graphs are all written but may not be on the disk yet; nobody else can see it.

    Fields:
        building: the folder it is in.
        path: the folder where it belongs.
        writer: of its files.
        about: what its index says beside the files.
        parts: what was kept for the case that the build is interrupted.
        held: lets go of the lock, the open files, and of `building` if that is still there.
    """

    building: Path
    path: Path
    writer: StoreWriter
    about: dict[str, Any]
    parts: Parts
    held: ExitStack

    def finish(self) -> None:
        """Bring the files to the disk and the folder to its place."""
        with self.held, writing_in(self.path.parent):
            self.writer.finish(self.about)
            publish(self.building, self.path)
            shutil.rmtree(self.parts.folder, ignore_errors=True)


def _write(
    path: Path, source: Source, split: str, preparation: Preparation, workers: Workers, progress: Progress | None
) -> _Written | None:
    """Write the graphs of a split into a new folder; None if another process has made the store meanwhile."""
    with ExitStack() as held:
        with writing_in(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            held.enter_context(sole_builder(path))
        if _is_intact(path, preparation):  # made by another process, while this one waited for the lock
            return None
        with writing_in(path.parent):
            if path.exists():
                discard(path)
            building = building_folder(path)
            held.callback(shutil.rmtree, building, ignore_errors=True)
            writer = held.enter_context(closing(StoreWriter(building, field_names(preparation.encodings))))
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
        return _Written(building, path, writer, about, parts, held.pop_all())
