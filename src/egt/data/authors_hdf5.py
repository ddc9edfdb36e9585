"""The HDF5 files that the authors of EGT published for the medium-scale benchmarks.

One group per graph, `/<NAME>/{training,validation,test}/<number>`, with

    data (attribute num_nodes)
    data/edges                   (E, 2) source and target of each edge
    data/features/nodes/feat     (N,) categories or (N, F) values
    data/features/edges/feat     (E,) categories or (E, F) values, if the set has edge features
    targets/<key>                value (1,), label (), node_labels (N,) or edge_labels (E,)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from egt.data.download import fingerprint
from egt.data.source import DataCard, Reading, check_split
from egt.errors import DataError, EgtError
from egt.graph import Graph

_SPLITS = {"train": "training", "val": "validation", "test": "test"}

GROUP_NAMES = {
    "zinc": "ZINC",
    "zinc-full": "ZINC_full",
    "pattern": "SBM_PATTERN",
    "cluster": "SBM_CLUSTER",
    "tsp": "TSP",
    "mnist": "MNIST",
    "cifar10": "CIFAR10",
}
"""The name of each benchmark inside its file, which is also the name of the file and of its folder."""


def hdf5_candidates(name: str) -> tuple[str, str]:
    """Where the file of a benchmark may be in the data folder: unpacked in it, or in the folder of the archive."""
    group = GROUP_NAMES[name]
    return f"{group}/{group}.h5", f"datasets/{group}/{group}.h5"


@dataclass(frozen=True)
class AuthorsHdf5:
    """The graphs of one of these files. A record is the path of a group in the file."""

    base_card: DataCard
    path: Path

    def __post_init__(self) -> None:
        group = GROUP_NAMES[self.base_card.name]
        file = self._file()
        missing = [name for name in _SPLITS.values() if f"{group}/{name}" not in file]
        if missing:
            raise DataError(f"{self.path}: there is no group /{group}/{missing[0]}; is this the file of another set?")

    @cached_property
    def card(self) -> DataCard:
        """The description of the data, with the split sizes of the file."""
        group = self._file()[GROUP_NAMES[self.base_card.name]]
        sizes = {split: len(group[name]) for split, name in _SPLITS.items()}
        return replace(self.base_card, split_sizes=sizes, notes="The authors' files.")

    def fingerprint(self) -> str:
        """Return a hash of the file."""
        return fingerprint([self.path], "authors hdf5", self.base_card.name)

    def records(self, split: str) -> Sequence[str]:
        """Return the groups of a split, by name."""
        check_split(split, _SPLITS, self.base_card.name)
        parent = f"{GROUP_NAMES[self.base_card.name]}/{_SPLITS[split]}"
        return [f"{parent}/{name}" for name in sorted(self._file()[parent])]

    def read(self, record: str) -> Reading:
        """Return the graph of one group."""
        *_, split, name = record.split("/")
        row = int(name) if name.isdigit() else 0
        label = f"{split}/{name}"
        try:
            return Reading(row, label, graph=self._graph(self._file()[record], label))
        except (EgtError, KeyError, ValueError, OSError) as error:  # OSError: a damaged block of the file
            return Reading(row, label, error=f"{self.path}: group {record}: {error}")

    def _graph(self, group: Any, label: str) -> Graph:
        data, targets, target = group["data"], group["targets"], self.base_card.target
        schema = self.base_card.schema
        fields: dict[str, Any] = {}
        nodes = data["features/nodes/feat"][()]
        fields["node_categories" if schema.node_categories else "node_values"] = nodes
        if schema.edge_categories or schema.num_edge_values:
            fields["edge_categories" if schema.edge_categories else "edge_values"] = data["features/edges/feat"][()]
        if target.level == "graph":
            key = "value" if target.kind == "regression" else "label"
            fields["graph_targets"] = np.reshape(targets[key][()], -1)
        else:
            fields[f"{target.level}_targets"] = targets[f"{target.level}_labels"][()]
        graph = Graph(num_nodes=int(data.attrs["num_nodes"]), edge_index=data["edges"][()].T, id=label, **fields)
        schema.check(graph)
        return graph

    def _file(self) -> Any:
        return _open(self.path, os.getpid())


@lru_cache(maxsize=8)
def _open(path: Path, process: int) -> Any:
    """Return the open file; each process has its own, since HDF5 files do not survive a fork."""
    try:
        import h5py
    except ImportError as error:
        raise DataError('reading HDF5 files needs h5py; install it with: pip install "egt-graph[graph]"') from error
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise DataError(f"{path}: not an HDF5 file ({error})") from error
