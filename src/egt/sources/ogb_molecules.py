"""OGB's molecules: MolHIV and MolPCBA from OGB's own folders, and MolHIV as one table with its split."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from egt.errors import DataError
from egt.graph import IntArray
from egt.sources.cards import MOLHIV
from egt.sources.molecule_source import MoleculeSource, MoleculeTable, column, numbers, read_csv, rows_by_split
from egt.sources.source import DataCard

_SPLIT_FILES = {"train": "train", "val": "valid", "test": "test"}
_NOT_TARGETS = ("smiles", "mol_id")


def molhiv_table(path: Path) -> MoleculeSource:
    """MolHIV from one CSV table with the columns split, smiles and y."""
    return MoleculeSource(MOLHIV, (path,), _load_table)


def ogb_folder(card: DataCard, mapping: Path) -> MoleculeSource:
    """A data set in OGB's layout: `mapping/mol.csv.gz` and `split/scaffold/{train,valid,test}.csv.gz`.

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
    """The row numbers in a split file: one a line, without a header."""
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
