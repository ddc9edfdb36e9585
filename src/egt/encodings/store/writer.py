"""Chunks -> the files of one store."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from egt.encodings.store.chunk import Chunk, check_width
from egt.encodings.store.files import GrowingArray, write_index
from egt.encodings.store.layout import Array
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
        self._without_rows: dict[str, Array] = {}
        self._problems: list[Reading] = []
        self._end = np.zeros((1, len(fields)), np.int64)
        self._create("num_nodes", np.zeros(0, np.int64))
        self._create("rows", np.zeros(0, np.int64))
        self._create("present", np.zeros(0, np.uint8))
        self._create("offsets", self._end)

    def append(self, chunk: Chunk) -> None:
        """Write the graphs of a chunk behind those that are there."""
        offsets = self._end + np.cumsum(chunk.lengths, axis=0)
        self._end = offsets[-1:] if len(offsets) else self._end
        self._arrays["num_nodes"].append(chunk.num_nodes)
        self._arrays["rows"].append(chunk.rows)
        self._arrays["present"].append(chunk.present)
        self._arrays["offsets"].append(offsets)
        for name, rows in chunk.data.items():
            if name in self._arrays and len(rows):
                check_width(name, self._arrays[name].row_shape, rows.shape[1:])
                self._arrays[name].append(rows)
            elif name not in self._arrays and len(rows):
                self._create(name, rows)
            else:
                self._without_rows[name] = rows
        self._problems.extend(chunk.problems)

    def finish(self, about: dict[str, Any]) -> None:
        """Bring everything to the disk and write the index, which makes the folder a store."""
        for name, rows in self._without_rows.items():
            if name not in self._arrays:
                self._create(name, rows)
        for array in self._arrays.values():
            array.finish()
        problems = [
            {f.name: getattr(problem, f.name) for f in dataclasses.fields(problem) if f.name != "graph"}
            for problem in self._problems
        ]
        write_index(self.folder, {**about, "problems": problems})

    def close(self) -> None:
        """Close all files, finished or not."""
        for array in self._arrays.values():
            array.close()

    def _create(self, name: str, rows: Array) -> None:
        self._arrays[name] = GrowingArray(self.folder / f"{name}.npy", rows.dtype, rows.shape[1:])
        self._arrays[name].append(rows)
