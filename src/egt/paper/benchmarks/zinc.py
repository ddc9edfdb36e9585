"""ZINC: 12,000 molecules with stored graphs, and the 249,456 of ZINC-full as SMILES."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from egt.data.benchmark import (
    AUTHORS_URL,
    BENCHMARKING_GNNS,
    BENCHMARKS,
    Benchmark,
    MoleculeSource,
    MoleculeTable,
    column,
    hdf5_files,
    numbers,
    rows_by_split,
)
from egt.data.download import fingerprint
from egt.data.molecule_features import ZINC_ATOMS, ZINC_BONDS, ZINC_SCHEMA
from egt.data.source import DataCard, Reading, Source, TargetSchema, rows_of
from egt.errors import DataError, EgtError
from egt.graph import Graph, IntArray

_ZINC = (
    "Irwin et al.: ZINC: A Free Tool to Discover Chemistry for Biology. J. Chem. Inf. Model. 52(7), 2012; "
    f"{BENCHMARKING_GNNS}"
)

_ZINC_LICENSE = "ZINC: free to use, redistribution of major portions needs permission; benchmark code: MIT"

_ZINC_VOCABULARY = {"atom": ZINC_ATOMS, "bond": ZINC_BONDS}

_ZINC_TARGET = TargetSchema("graph", "regression", ("y",))

_ZINC_MEANING = (
    "penalized logP: logP - synthetic accessibility - number of cycles longer than six, each part standardized with "
    "the 220,011 training molecules of ZINC-full"
)

ZINC = DataCard(
    name="zinc",
    title="ZINC-12K: constrained solubility of drug-like molecules",
    schema=ZINC_SCHEMA,
    target=_ZINC_TARGET,
    split_sizes={"train": 10_000, "val": 1_000, "test": 1_000},
    num_nodes=(9, 23.1553, 37),
    mean_edges=49.8308,
    license=_ZINC_LICENSE,
    citation=_ZINC,
    target_meaning=_ZINC_MEANING,
    metric="MAE",
    vocabulary=_ZINC_VOCABULARY,
    urls=(AUTHORS_URL,),
    checksums={"zinc/zinc12k.parquet": "sha256:c0af8ca3c16661f2e530155b5363a78d807e78d34de8772158135d7e5c3253a1"},
    notes="The Parquet file has the benchmark's graphs; its targets agree with published ones to 1.2e-4.",
)

ZINC_FULL = DataCard(
    name="zinc-full",
    title="ZINC-full: constrained solubility of 249,456 drug-like molecules",
    schema=ZINC_SCHEMA,
    target=_ZINC_TARGET,
    split_sizes={"train": 220_011, "val": 24_445, "test": 5_000},
    num_nodes=(6, 23.15, 38),
    mean_edges=49.8,
    license=_ZINC_LICENSE,
    citation=_ZINC,
    target_meaning=_ZINC_MEANING,
    metric="MAE",
    vocabulary=_ZINC_VOCABULARY,
    urls=(AUTHORS_URL,),
    checksums={
        "zinc/zinc_full_250k_smiles_y.parquet": "sha256:"
        "a123b9b9aee3609e4d13df29d6f4fee534f019c6413eca0b4fa90645d8519e41"
    },
    notes="Graphs are made from SMILES; atoms are in the order of the SMILES.",
)


@dataclass(frozen=True)
class ZincGraphs(Source):
    """ZINC-12K from a table of stored graphs, exactly those of the benchmark. A record is a row number.

    The Parquet file has the columns split, atom_type, src, dst, bond_type (lists; each bond once) and y.
    """

    path: Path

    @cached_property
    def card(self) -> DataCard:
        """The description of the data."""
        return replace(ZINC, split_sizes={name: len(rows) for name, rows in _load_graphs(self.path)[1].items()})

    def fingerprint(self) -> str:
        """Return a hash of the file."""
        return fingerprint([self.path], "zinc graphs")

    def records(self, split: str) -> Sequence[int]:
        """Return the row numbers of a split."""
        return rows_of(_load_graphs(self.path)[1], split, ZINC.name)

    def read(self, record: int) -> Reading:
        """Return the stored graph of a row."""
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


BENCHMARKS.register("zinc")(Benchmark(ZINC, {**hdf5_files(ZINC), "zinc/zinc12k.parquet": ZincGraphs}))

BENCHMARKS.register("zinc-full")(
    Benchmark(ZINC_FULL, {**hdf5_files(ZINC_FULL), "zinc/zinc_full_250k_smiles_y.parquet": zinc_full})
)
