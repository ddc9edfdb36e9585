"""Chunks that took long to make are kept until the store is complete: a killed build goes on where it was."""

from __future__ import annotations

import json
import os
import time
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from egt.encodings.encoding import Preparation
from egt.encodings.store.chunk import Chunk, make_chunk
from egt.encodings.store.files import writing_in
from egt.sources.source import Reading, Source

_WORTH_KEEPING = 1.0
"""Seconds; chunks that are made faster are not worth a file."""


@dataclass(frozen=True)
class Parts:
    """The chunks of an unfinished store, each a file that is there completely or not at all.

    Args:
        folder: of the files; made when the first one is written.
    """

    folder: Path

    def chunk(self, number: int, source: Source, preparation: Preparation, records: Sequence[Any]) -> Chunk:
        """Chunk `number` of a split, from its file or made anew."""
        file = self.folder / f"{number:08d}.npz"
        kept = _read(file)
        if kept is not None and kept.num_records == len(records):
            return kept
        start = time.monotonic()
        chunk = make_chunk(source, preparation, records)
        if time.monotonic() - start > _WORTH_KEEPING:
            with writing_in(self.folder.parent):
                _write(file, chunk)
        return chunk


def _write(file: Path, chunk: Chunk) -> None:
    problems = [{key: value for key, value in asdict(p).items() if key != "graph"} for p in chunk.problems]
    text = json.dumps({"num_records": chunk.num_records, "problems": problems}).encode()
    file.parent.mkdir(exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    arrays: dict[str, Any] = {
        "about": np.frombuffer(text, np.uint8),
        "num_nodes": chunk.num_nodes,
        "rows": chunk.rows,
        "present": chunk.present,
        "lengths": chunk.lengths,
        **{f"data.{name}": array for name, array in chunk.data.items()},
    }
    try:
        with open(draft, "wb") as stream:
            np.savez(stream, **arrays)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def _read(file: Path) -> Chunk | None:
    try:
        with np.load(file, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        about = json.loads(arrays["about"].tobytes())
        return Chunk(
            num_records=about["num_records"],
            num_nodes=arrays["num_nodes"],
            rows=arrays["rows"],
            present=arrays["present"],
            lengths=arrays["lengths"],
            data={name.removeprefix("data."): array for name, array in arrays.items() if name.startswith("data.")},
            problems=[Reading(**problem) for problem in about["problems"]],
        )
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None  # none there, or damaged: it is made again
