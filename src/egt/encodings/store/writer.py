"""Chunks -> the files of one store."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from egt.encodings.store.chunk import Chunk, merge_trailing
from egt.encodings.store.files import GrowingArray, write_index
from egt.encodings.store.layout import Array, Shape
from egt.sources.source import Reading


class StoreWriter:
    """Appends chunks to the arrays of a folder; memory does not grow with them.

    Args:
        folder: an empty folder.
        fields: the columns of `offsets`.
    """

    def __init__(self, folder: Path, fields: tuple[str, ...]) -> None:
        self.folder = folder
        self._arrays: dict[str, GrowingArray] = {}
        self._trailing: dict[str, Shape] = {}
        self._problems: list[Reading] = []
        self._end = np.zeros((1, len(fields)), np.int64)
        self._append("num_nodes", np.zeros(0, np.int64))
        self._append("rows", np.zeros(0, np.int64))
        self._append("present", np.zeros(0, np.uint8))
        self._append("offsets", self._end)

    def append(self, chunk: Chunk) -> None:
        """Write the graphs of a chunk behind those that are there."""
        merge_trailing(self._trailing, chunk.trailing)
        offsets = self._end + np.cumsum(chunk.lengths, axis=0)
        self._end = offsets[-1:] if len(offsets) else self._end
        self._append("num_nodes", chunk.num_nodes)
        self._append("rows", chunk.rows)
        self._append("present", chunk.present)
        self._append("offsets", offsets)
        for name, entries in chunk.data.items():
            self._append(name, entries)
        self._problems.extend(chunk.problems)

    def finish(self, about: dict[str, Any]) -> None:
        """Bring everything to the disk and write the index, which makes the folder a store."""
        for array in self._arrays.values():
            array.finish()
        problems = [
            {f.name: getattr(problem, f.name) for f in dataclasses.fields(problem) if f.name != "graph"}
            for problem in self._problems
        ]
        index = {"trailing": self._trailing, "problems": problems}
        write_index(self.folder, {**about, **index})

    def close(self) -> None:
        """Close all files, finished or not."""
        for array in self._arrays.values():
            array.close()

    def _append(self, name: str, rows: Array) -> None:
        if name not in self._arrays:
            self._arrays[name] = GrowingArray(self.folder / f"{name}.npy", rows.dtype, rows.shape[1:])
        self._arrays[name].append(rows)
