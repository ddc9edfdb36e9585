"""A table of SMILES and targets as a source of graphs; each benchmark of molecules is such a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.download import fingerprint
from egt.data.molecules import MoleculeVocabulary, graphs_from_smiles, require_rdkit
from egt.data.source import DataCard, Reading, rows_of
from egt.errors import DataError, EgtError
from egt.graph import IntArray, TargetArray


@dataclass(frozen=True)
class MoleculeTable:
    """The rows of a data set of molecules.

    Fields:
        smiles: R strings, as an Arrow array (a row costs no Python object).
        targets: (R, T), NaN where a label is missing.
        splits: the row numbers of each split.
    """

    smiles: Any
    targets: TargetArray
    splits: Mapping[str, IntArray]


@dataclass(frozen=True)
class MoleculeSource:
    """Graphs of a table of SMILES. A record is a row number, counted from 0 in the file.

    Fields:
        base_card: the card as published; `card` has the split sizes of the table at hand.
        files: what the table is read from.
        load: gives the table; called in every process that reads, so it should keep its result.
        vocabulary: the atom and bond features.
    """

    base_card: DataCard
    files: tuple[Path, ...]
    load: Callable[..., MoleculeTable]
    vocabulary: MoleculeVocabulary = "ogb"

    def __post_init__(self) -> None:
        require_rdkit()

    @cached_property
    def card(self) -> DataCard:
        """The description of the data, with the split sizes of this table."""
        sizes = {name: len(rows) for name, rows in self.load(*self.files).splits.items()}
        return replace(self.base_card, split_sizes=sizes)

    def fingerprint(self) -> str:
        """Return a hash of the files, the vocabulary and the version of RDKit."""
        from rdkit import rdBase

        return fingerprint(self.files, self.base_card.name, self.vocabulary, rdBase.rdkitVersion)

    def records(self, split: str) -> Sequence[int]:
        """Return the row numbers of a split."""
        return rows_of(self.load(*self.files).splits, split, self.base_card.name)

    def read(self, record: int) -> Reading:
        """Return the molecule of a row."""
        return self.read_all([record])[0]

    def read_all(self, records: Sequence[int]) -> list[Reading]:
        """Return the molecules of some rows."""
        table = self.load(*self.files)
        names = [str(record) for record in records]
        results = graphs_from_smiles(
            [table.smiles[record].as_py() or "" for record in records],
            vocabulary=self.vocabulary,
            ids=names,
            graph_targets=[table.targets[record] for record in records],
        )
        return [
            Reading(record, name, error=str(result))
            if isinstance(result, EgtError)
            else Reading(record, name, graph=result[0], warning=result[1])
            for record, name, result in zip(records, names, results, strict=True)
        ]


def read_csv(path: Path, text_columns: Sequence[str] = ("smiles",)) -> Any:
    """Return a CSV file (plain or .gz) as an Arrow table; the named columns are text, whatever they look like.

    Raises:
        DataError: if the file is not a CSV table.
    """
    import pyarrow
    from pyarrow import csv

    options = csv.ConvertOptions(column_types={name: pyarrow.string() for name in text_columns})
    try:
        return csv.read_csv(path, convert_options=options)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a CSV table ({error})") from error


def column(table: Any, name: str, path: Path) -> Any:
    """Return one column of an Arrow table, in one piece.

    Raises:
        DataError: if the table does not have it.
    """
    if name not in table.column_names:
        raise DataError(f"{path}: there is no column {name!r}; the columns are {', '.join(table.column_names)}")
    return table.column(name).combine_chunks()


def numbers(table: Any, names: Sequence[str], path: Path) -> NDArray[np.float64]:
    """(R, len(names)) columns as numbers, NaN where a cell is empty.

    Raises:
        DataError: if a column is missing or is not numeric.
    """
    import pyarrow

    columns = []
    for name in names:
        values = column(table, name, path)
        try:
            columns.append(_to_numpy(values))
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
            raise DataError(f"{path}: column {name!r} is not numeric ({error})") from error
    return np.stack(columns, axis=1).astype(np.float64)


def _to_numpy(values: Any) -> NDArray[Any]:
    """Return an Arrow array of numbers, NaN where one is missing."""
    import pyarrow

    plain = pyarrow.types.is_integer(values.type) or pyarrow.types.is_floating(values.type)
    if plain and len(values) and not values.null_count:  # Arrow's own way loads pandas: a quarter of a second
        buffer = np.frombuffer(values.buffers()[1], values.type.to_pandas_dtype())
        return buffer[values.offset : values.offset + len(values)]
    converted: NDArray[Any] = values.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
    return converted


def rows_by_split(table: Any, path: Path) -> dict[str, IntArray]:
    """Return the rows of each split from the column `split`; "valid" is called "val" as everywhere in this package."""
    labels = np.array(column(table, "split", path).to_pylist())
    names = {"train": "train", "valid": "val", "val": "val", "test": "test"}
    unknown = sorted(set(labels.tolist()) - set(names))
    if unknown:
        raise DataError(f"{path}: column 'split' holds {unknown[0]!r}; allowed are train, valid, val and test")
    return {
        name: np.flatnonzero(np.isin(labels, [k for k in names if names[k] == name]))
        for name in dict.fromkeys(names.values())
    }
