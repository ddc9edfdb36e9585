"""OGB's molecules: MolHIV and MolPCBA from OGB's own folders, and MolHIV as one table with its split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from egt.data.benchmark import (
    BENCHMARKS,
    Benchmark,
    MoleculeSource,
    MoleculeTable,
    column,
    numbers,
    read_csv,
    rows_by_split,
)
from egt.data.molecule_features import OGB_SCHEMA, OGB_VOCABULARY
from egt.data.source import DataCard, Source, TargetSchema
from egt.errors import DataError
from egt.graph import IntArray

_OGB = "Hu et al.: Open Graph Benchmark: Datasets for Machine Learning on Graphs. NeurIPS 2020, arXiv:2005.00687"

MOLHIV = DataCard(
    name="molhiv",
    title="MolHIV: molecules that inhibit the replication of HIV",
    schema=OGB_SCHEMA,
    target=TargetSchema("graph", "binary", ("HIV_active",)),
    split_sizes={"train": 32_901, "val": 4_113, "test": 4_113},
    num_nodes=(2, 25.51, 222),
    mean_edges=54.94,
    license="MIT",
    citation=f"{_OGB}; Wu et al.: MoleculeNet. Chemical Science 9(2), 2018",
    target_meaning="1 if the molecule inhibits the replication of HIV",
    metric="ROC-AUC",
    vocabulary=OGB_VOCABULARY,
    urls=("http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip",),
    checksums={"molhiv/molhiv.csv.gz": "sha256:4c6ba6e7e34837d94f8c4c8f062010b6760094e39a62a97a3282acee2f71edc9"},
    notes="Scaffold split. Seven molecules need relaxed sanitization in RDKit 2026.09; they carry a warning.",
)

MOLPCBA = DataCard(
    name="molpcba",
    title="MolPCBA: 128 biological assays",
    schema=OGB_SCHEMA,
    target=TargetSchema("graph", "binary", tuple(f"assay {number}" for number in range(128))),
    split_sizes={"train": 350_343, "val": 43_793, "test": 43_793},
    num_nodes=(1, 26.0, 332),
    mean_edges=56.2,
    license="MIT",
    citation=f"{_OGB}; Wu et al.: MoleculeNet. Chemical Science 9(2), 2018",
    target_meaning="1 if the molecule is active in the assay; missing where it was not tested",
    metric="average precision, mean over the assays",
    vocabulary=OGB_VOCABULARY,
    urls=("http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/pcba.zip",),
    # As TensorFlow Datasets verifies it (tensorflow_datasets/datasets/ogbg_molpcba/checksums.tsv, 39,533,472 bytes).
    checksums={"pcba.zip": "sha256:0bb12da2f3ec8b0bb80564114a6174fad2df6a3a0d3c19470b3a27813a7d4e53"},
    notes="Scaffold split. The target names are those of the columns of mapping/mol.csv.gz.",
)

_SPLIT_FILES = {"train": "train", "val": "valid", "test": "test"}

_NOT_TARGETS = ("smiles", "mol_id")


def molhiv_table(path: Path) -> MoleculeSource:
    """MolHIV from one CSV table with the columns split, smiles and y."""
    return MoleculeSource(MOLHIV, (path,), _load_table)


def ogb_folder(card: DataCard, mapping: Path) -> MoleculeSource:
    """Return a data set in OGB's layout: `mapping/mol.csv.gz` and `split/scaffold/{train,valid,test}.csv.gz`.

    Args:
        card: the card of the data set; its target names become those of the file.
        mapping: the path of `mapping/mol.csv.gz`: one column per target, then smiles and mol_id.
    """
    folder = mapping.parents[1] / "split" / "scaffold"
    splits = tuple(folder / f"{name}.csv.gz" for name in _SPLIT_FILES.values())
    for path in splits:
        if not path.is_file():
            raise DataError(f"{card.name}: {path} is missing; it belongs to OGB's download, beside {mapping}")
    names = tuple(name for name in read_csv(mapping).column_names if name not in _NOT_TARGETS)
    if len(names) != len(card.target.names):
        raise DataError(f"{mapping}: {len(names)} target columns, but {card.name} has {len(card.target.names)}")
    return MoleculeSource(replace(card, target=replace(card.target, names=names)), (mapping, *splits), _load_folder)


@lru_cache(maxsize=2)
def _load_table(path: Path) -> MoleculeTable:
    table = read_csv(path, ["split", "smiles"])
    return MoleculeTable(column(table, "smiles", path), numbers(table, ["y"], path), rows_by_split(table, path))


@lru_cache(maxsize=2)
def _load_folder(mapping: Path, *split_files: Path) -> MoleculeTable:
    table = read_csv(mapping)
    smiles = column(table, "smiles", mapping)
    targets = numbers(table, [name for name in table.column_names if name not in _NOT_TARGETS], mapping)
    splits = {name: _read_rows(path, len(smiles)) for name, path in zip(_SPLIT_FILES, split_files, strict=True)}
    return MoleculeTable(smiles, targets, splits)


def _read_rows(path: Path, num_rows: int) -> IntArray:
    """Return the row numbers in a split file: one a line, without a header."""
    import pyarrow
    from pyarrow import csv

    try:
        table = csv.read_csv(path, read_options=csv.ReadOptions(column_names=["row"]))
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a file of row numbers, one a line ({error})") from error
    rows = numbers(table, ["row"], path)[:, 0]
    if not np.array_equal(rows, rows.astype(np.int64)) or (len(rows) and not 0 <= rows.min() <= rows.max() < num_rows):
        raise DataError(f"{path}: holds a number that is not a row of the table (0..{num_rows - 1})")
    return rows.astype(np.int64)


def _files(card: DataCard, *folders: str) -> dict[str, Callable[[Path], Source]]:
    return {f"{folder}/mapping/mol.csv.gz": lambda found: ogb_folder(card, found) for folder in folders}


BENCHMARKS.register("molhiv")(
    Benchmark(MOLHIV, {**_files(MOLHIV, "ogbg_molhiv", "hiv"), "molhiv/molhiv.csv.gz": molhiv_table})
)

BENCHMARKS.register("molpcba")(Benchmark(MOLPCBA, _files(MOLPCBA, "ogbg_molpcba", "pcba")))
