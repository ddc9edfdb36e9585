"""Columns that give the answer away under another name: each of their values stands for one class of a target.

Labels that a schema does not know: other classes, or texts where numbers are predicted. They count as missing.

Rows that are there more than once: in several splits, which flatters a score, or with different labels.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from egt.data.custom.columns import Column, Columns, RawData, RawGraph, encode_target, missing_in
from egt.data.custom.roles import columns_at
from egt.data.custom.schema import CustomSchema
from egt.data.custom.splits import Codes
from egt.data.molecules import parse_or_none, require_rdkit
from egt.data.source import SPLITS
from egt.errors import counted

MIN_LABELS = 20
"""So many labels agree by no accident, if there are also so many ..."""

MIN_RARE = 10
"""... labels of other classes than the most common one."""

_FIRST = 1000
"""So many labels tell most columns from a copy: long vectors need not be looked at for a whole graph."""


def label_copies(columns: Columns, targets: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Return column -> the target that it is one-to-one with, wherever there is a label.

    Args:
        columns: of one level, the targets among them.
        targets: with classes.
        given: columns that the user has decided about; they are left out.
    """
    labeled = {name: known for name in targets if _tells(known := _Labeled(columns[name]))}
    free = {name: column for name, column in columns.items() if name not in targets and name not in given}
    found = {
        name: [target for target, known in labeled.items() if known.is_copied_by(column)]
        for name, column in free.items()
    }
    return {name: copied[0] for name, copied in found.items() if copied}


class _Labeled:
    """The labels of a target.

    Args:
        column: of the target.
    """

    def __init__(self, column: Column) -> None:
        self.num_rows, self.rows = len(column), np.flatnonzero(~missing_in(column))
        self.labels = _values(column[self.rows])

    def is_copied_by(self, column: Column) -> bool:
        """Return whether a column has a value for every label, another one for each class."""
        return len(column) == self.num_rows and self._agrees(column, _FIRST) and self._agrees(column, None)

    def _agrees(self, column: Column, first: int | None) -> bool:
        """Return the same of the first labels only, or of all."""
        cells = column[self.rows[:first]]
        if missing_in(cells).any():
            return False
        pairs = {*zip(_values(cells), self.labels[:first], strict=True)}
        return len(pairs) == len({value for value, _ in pairs}) == len({label for _, label in pairs})


def _tells(known: _Labeled) -> bool:
    """Return whether there are enough labels to tell a copy from an accident."""
    counts = Counter(known.labels)
    total = counts.total()
    return total >= max(MIN_LABELS, 2 * len(counts)) and total - max(counts.values()) >= MIN_RARE


def _values(column: Column) -> list[Hashable]:
    """Return the values of a column; a vector is one value."""
    return [*map(tuple, column.tolist())] if column.ndim == 2 else column.tolist()


_SHOWN = 5


def unknown_labels(raw: RawData, schema: CustomSchema) -> list[str]:
    """Return a warning for each target with labels that are not understood: how many, which, and which would be."""
    columns = _target_columns(raw, schema)
    counts = {name: Counter(encode_target(column, schema.classes)[1]) for name, column in columns.items()}
    return [_warning(name, count, schema) for name, count in counts.items() if count]


def _target_columns(raw: RawData, schema: CustomSchema) -> dict[str, Column]:
    level = "graph" if raw.is_molecules else schema.level
    there = columns_at(raw, level) if schema.targets else {}
    found = {name: there[name] for name in schema.targets if name in there}
    if not raw.is_molecules or schema.level == "graph":
        return found
    from egt.data.custom.atom_targets import lists_of  # here: most targets are of molecules

    return {name: lists_of(column).values for name, column in found.items()}


def _warning(name: str, count: Counter[str], schema: CustomSchema) -> str:
    values = [f"{value!r} ({times})" for value, times in count.most_common(_SHOWN)]
    more = f", ... {len(count)} in all" if len(count) > _SHOWN else ""
    known = f"one of {', '.join(map(repr, schema.classes[:10]))}" if schema.classes else "a finite number"
    return f"{count.total()} labels of {name!r} are not {known}, and count as missing: {', '.join(values)}{more}"


MOST_COMPARED = 20_000
"""Of more rows the SMILES are compared as they are written: to read them would take minutes."""

MOST_GRAPHS = 100_000
"""More graphs are not compared: it would take many seconds."""

_BITS = np.array([1, 2, 4, 0])
"""The bit of each split; -1, in no split, is the last one."""

_SEVERAL = np.array([False, False, False, True, False, True, True, True])
"""Whether some bits are several splits."""


def repeats(
    smiles: Sequence[Sequence[str]], targets: NDArray[np.float64] | None, codes: Codes | None, *, classes: bool
) -> list[str]:
    """Warnings about molecules that occur more than once; none where all is well.

    Args:
        smiles: columns of SMILES, mostly one, with all rows; "" where there is none.
        targets: (R, T) labels of all rows, NaN where one is missing.
        codes: (R,) the split of each row; None where rows are not divided.
        classes: whether labels are classes, which differ, or numbers, which may scatter.
    """
    columns = [_keys(column) for column in smiles]
    keys = [" + ".join(filter(None, row)) for row in zip(*columns, strict=True)]
    advice = "remove repetitions, or divide with --set split=scaffold"
    return _told(keys, keys, targets, codes, classes=classes, what="molecule", advice=advice)


def graph_repeats(
    graphs: Sequence[RawGraph | None],
    features: Mapping[str, Collection[str]],
    names: Sequence[str],
    targets: NDArray[np.float64] | None,
    codes: Codes,
    *,
    classes: bool,
) -> list[str]:
    """Warnings about graphs that occur more than once as they are written, nodes in the same order.

    Args:
        graphs: of all rows, None where there is none.
        features: the columns of the "node"s and "edge"s that the model is given.
        names: of the rows.
        targets: as for `repeats`.
        codes: as for `repeats`.
        classes: as for `repeats`.
    """
    if len(graphs) > MOST_GRAPHS:
        return []
    keys = ["" if graph is None else _digest(graph, features) for graph in graphs]
    return _told(keys, names, targets, codes, classes=classes, what="graph", advice="remove repetitions")


def _digest(graph: RawGraph, features: Mapping[str, Collection[str]]) -> str:
    """Return a hash of what the model is given of a graph."""
    columns = {level: _chosen(graph, level, names) for level, names in features.items()}
    found = hashlib.sha256(f"{graph.num_nodes} {graph.directed}".encode() + graph.edges.tobytes())
    for level, named in columns.items():
        for name, column in named.items():
            values = repr(column.tolist()).encode() if column.dtype == object else column.tobytes()
            found.update(f"{level} {name}".encode() + values)
    return found.hexdigest()


def _chosen(graph: RawGraph, level: str, names: Collection[str]) -> Columns:
    columns = graph.nodes if level == "node" else graph.edge_columns
    return {name: columns[name] for name in sorted(names) if name in columns}


def _told(
    keys: Sequence[str],
    names: Sequence[str],
    targets: NDArray[np.float64] | None,
    codes: Codes | None,
    *,
    classes: bool,
    what: str,
    advice: str,
) -> list[str]:
    """Return the warnings about rows with the same key; "" is none. names: to call the rows by."""
    number_of: dict[str, int] = {}
    numbers = np.array([number_of.setdefault(key, len(number_of)) for key in keys])
    known = np.flatnonzero(numbers != number_of.get("", -1))
    rows = known[np.argsort(numbers[known], kind="stable")]
    if not len(rows):
        return []
    starts = np.flatnonzero(np.diff(numbers[rows], prepend=-1))  # where the rows of the next key begin
    found = []
    if codes is not None:
        splits = np.bitwise_or.reduceat(_BITS[codes[rows]], starts)
        shared = np.flatnonzero(_SEVERAL[splits])
        if len(shared):
            first = names[rows[starts[shared[0]]]]
            where = " and ".join(name for code, name in enumerate(SPLITS) if splits[shared[0]] & _BITS[code])
            several = f"{counted(len(shared), what)} in several splits ({first}: {where})"
            found.append(f"{several}, which flatters the scores; {advice}")
    if targets is not None:
        spread = np.zeros(targets.shape[1]) if classes else _deviations(targets)
        torn = np.flatnonzero((_ranges(targets[rows], starts) > spread).any(axis=1))
        if len(torn):
            how = "different labels" if classes else "labels that differ by more than the standard deviation of all"
            first = names[rows[starts[torn[0]]]]
            found.append(f"{counted(len(torn), what)} more than once with {how} (e.g. {first})")
    return found


def _keys(smiles: Sequence[str]) -> list[str]:
    """Return one text for each molecule, the same for the same molecule."""
    if len(smiles) > MOST_COMPARED:
        return list(smiles)
    chem = require_rdkit()
    with chem.rdBase.BlockLogs():
        molecules = [parse_or_none(text) if text.isascii() else None for text in smiles]
        return [
            text if molecule is None else chem.MolToSmiles(molecule)
            for text, molecule in zip(smiles, molecules, strict=True)
        ]


def _ranges(labels: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """(M, T) largest minus smallest label of each key, 0 where there is none; its rows begin at `starts`."""
    low = np.minimum.reduceat(np.where(np.isnan(labels), np.inf, labels), starts)
    high = np.maximum.reduceat(np.where(np.isnan(labels), -np.inf, labels), starts)
    ranges: NDArray[np.float64] = np.maximum(high - low, 0.0)
    return ranges


def _deviations(labels: NDArray[np.float64]) -> NDArray[np.float64]:
    columns = [column[~np.isnan(column)] for column in labels.T]
    return np.array([column.std() if len(column) else 0.0 for column in columns])
