"""`Store`: the prepared graphs of one split, read from disk as views of memory-mapped files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from egt.encodings.encoding import Preparation, Sample
from egt.encodings.store.chunks import GRAPH_FIELDS, field_names, put_together, stored_settings, with_computed
from egt.encodings.store.store_files import describe, map_array, read_index
from egt.errors import DataError
from egt.sources.source import Reading


class Store(Sequence[Sample]):
    """The samples of a folder written by `prepare`, in the order of the source.

    Arrays of a sample are read-only views of the files; encodings that are not stored are computed on access.
    A pickled store is only its path: it opens the files again where it is unpickled.

    Attributes:
        path: the folder.
        preparation: what was done to each graph.
        sizes: (number of graphs,) number of nodes of each graph.
        rows: (number of graphs,) row of the source that each graph came from.
        problems: the rows with an error (they have no graph here) or a warning (they have one), without their graphs.
    """

    def __init__(self, path: Path, preparation: Preparation) -> None:
        self.path, self.preparation = path, preparation
        self._index = read_index(path)
        self._stored = [encoding for encoding in preparation.encodings if encoding.stored]
        if self._index["preparation"] != stored_settings(preparation):
            raise DataError(
                f"{path}: was prepared with {self._index['preparation']}, not with {stored_settings(preparation)}; "
                "let `prepare` find the folder that fits"
            )
        self.sizes: NDArray[np.int64] = map_array(path / "num_nodes.npy")
        self.rows: NDArray[np.int64] = map_array(path / "rows.npy")
        self._present: NDArray[np.uint8] = map_array(path / "present.npy")
        self._offsets: NDArray[np.int64] = map_array(path / "offsets.npy")
        self._fields: list[tuple[int, str, NDArray[Any]]] = [
            (column, name, map_array(path / f"{name}.npy"))
            for column, name in enumerate(field_names(self._stored))
            if f"{name}.npy" in self._index["files"]
        ]

    @property
    def problems(self) -> list[Reading]:
        """The rows that could not be read or prepared, or only with reservations."""
        return [Reading(**problem) for problem in self._index["problems"]]

    @property
    def fingerprint(self) -> str:
        """A hash of the graphs and their targets; of no encodings, whose last digits differ between machines."""
        files = self._index["files"]
        content = [files.get(f"{name}.npy", {}).get("sha256") for name in ("num_nodes", "rows", *GRAPH_FIELDS)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        """The sample of one graph, or a list of them."""
        if isinstance(index, slice):
            return [self._sample(k) for k in range(*index.indices(len(self)))]
        num_graphs = len(self.sizes)
        if not -num_graphs <= index < num_graphs:
            raise IndexError(f"{self.path} holds {num_graphs} graphs; there is no graph {index}")
        return self._sample(index % num_graphs)

    def _sample(self, k: int) -> Sample:
        starts, ends = self._offsets[k : k + 2].tolist()
        rows = {name: data[starts[column] : ends[column]] for column, name, data in self._fields}
        sample = put_together(int(self.sizes[k]), int(self._present[k]), rows, self._stored)
        return with_computed(sample, self.preparation)

    def verify(self) -> None:
        """Read every file and raise a `DataError` that names those whose content is not what was written."""
        expected = read_index(self.path)["files"]
        damaged = [name for name in expected if describe(self.path / name) != expected[name]]
        if damaged:
            raise DataError(
                f"{self.path}: {', '.join(damaged)} changed after being written (checksum differs); "
                "delete the folder, it will be prepared again"
            )

    def __reduce__(self) -> tuple[type[Store], tuple[Path, Preparation]]:
        return Store, (self.path, self.preparation)
