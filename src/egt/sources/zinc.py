"""ZINC: 12,000 molecules with stored graphs, and the 249,456 of ZINC-full as SMILES."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from egt.errors import DataError, EgtError
from egt.graph import Graph, IntArray
from egt.sources.cards import ZINC, ZINC_FULL
from egt.sources.data_folder import fingerprint
from egt.sources.molecule_source import MoleculeSource, MoleculeTable, column, numbers, rows_by_split
from egt.sources.source import DataCard, Reading, rows_of


@dataclass(frozen=True)
class ZincGraphs:
    """ZINC-12K from a table of stored graphs, exactly those of the benchmark. A record is a row number.

    The Parquet file has the columns split, atom_type, src, dst, bond_type (lists; each bond once) and y.
    """

    path: Path

    @cached_property
    def card(self) -> DataCard:
        """The description of the data."""
        return replace(ZINC, split_sizes={name: len(rows) for name, rows in _load_graphs(self.path)[1].items()})

    def fingerprint(self) -> str:
        """A hash of the file."""
        return fingerprint([self.path], "zinc graphs")

    def records(self, split: str) -> Sequence[int]:
        """The row numbers of a split."""
        return rows_of(_load_graphs(self.path)[1], split, ZINC.name)

    def read(self, record: int) -> Reading:
        """The stored graph of a row."""
        columns = _load_graphs(self.path)[0]
        atoms, source, target, bonds = (np.array(columns[k][record].as_py(), dtype=np.int64) for k in _LISTS)
        try:
            graph = Graph.undirected(
                num_nodes=len(atoms),
                edge_index=np.stack([source, target]),
                node_categories=atoms,
                edge_categories=bonds,
                graph_targets=[columns["y"][record].as_py()],
                id=str(record),
            )
        except (EgtError, ValueError) as error:
            return Reading(record, str(record), error=str(error))
        return Reading(record, str(record), graph=graph)


_LISTS = ("atom_type", "src", "dst", "bond_type")


def zinc_full(path: Path) -> MoleculeSource:
    """ZINC-full from a Parquet table with the columns split, smiles and y."""
    return MoleculeSource(ZINC_FULL, (path,), _load_smiles, vocabulary="zinc")


@lru_cache(maxsize=2)
def _load_graphs(path: Path) -> tuple[dict[str, Any], dict[str, IntArray]]:
    table = _read_parquet(path)
    return {name: column(table, name, path) for name in (*_LISTS, "y")}, rows_by_split(table, path)


@lru_cache(maxsize=2)
def _load_smiles(path: Path) -> MoleculeTable:
    table = _read_parquet(path)
    return MoleculeTable(column(table, "smiles", path), numbers(table, ["y"], path), rows_by_split(table, path))


def _read_parquet(path: Path) -> Any:
    import pyarrow
    from pyarrow import parquet

    try:
        return parquet.read_table(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a Parquet table ({error})") from error
