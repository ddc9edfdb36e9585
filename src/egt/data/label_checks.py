"""Columns that give the answer away under another name, and rows that are there more than once.

Repeated rows in several splits flatter a score; with different labels, they contradict each other.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from egt.data.columns import Column, Columns, RawGraph, missing_in
from egt.data.molecules import parse_or_none, require_rdkit
from egt.data.source import SPLITS
from egt.data.splits import Codes
from egt.errors import counted

MIN_LABELS = 20
"""So many labels agree by no accident, if there are also so many ..."""

MIN_RARE = 10
"""... labels of other classes than the most common one."""

_FIRST = 1000
"""So many labels tell most columns from a copy: long vectors need not be looked at for a whole graph."""

MOST_COMPARED = 20_000
"""Of more rows the SMILES are compared as they are written: to read them would take minutes."""

MOST_GRAPHS = 100_000
"""More graphs are not compared: it would take many seconds."""

_BITS = np.array([1, 2, 4, 0])
"""The bit of each split; -1, in no split, is the last one."""

_SEVERAL = np.array([False, False, False, True, False, True, True, True])
"""Whether some bits are several splits."""


def label_copies(columns: Columns, targets: Sequence[str], given: Collection[str]) -> dict[str, str]:
    """Return column -> the target that it is one-to-one with, wherever there is a label.

    Args:
        columns: of one level, the targets among them.
        targets: with classes.
        given: columns that the user has decided about; they are left out.
    """
    free = [name for name in columns if name not in targets and name not in given]
    found: dict[str, str] = {}
    for target in targets:
        rows = np.flatnonzero(~missing_in(columns[target]))
        labels = _values(columns[target][rows])
        counts = Counter(labels)
        if counts.total() < max(MIN_LABELS, 2 * len(counts)) or counts.total() - max(counts.values()) < MIN_RARE:
            continue
        for name in free:
            column = columns[name]
            alike = len(column) == len(columns[target]) and _agree(column[rows[:_FIRST]], labels[:_FIRST])
            if name not in found and alike and _agree(column[rows], labels):
                found[name] = target
    return {name: found[name] for name in free if name in found}


def _agree(cells: Column, labels: Sequence[Hashable]) -> bool:
    """Return whether there is a value for every label, another one for each class."""
    if missing_in(cells).any():
        return False
    pairs = {*zip(_values(cells), labels, strict=True)}
    return len(pairs) == len({value for value, _ in pairs}) == len({label for _, label in pairs})


def _values(column: Column) -> list[Hashable]:
    """Return the values of a column; a vector is one value."""
    return [*map(tuple, column.tolist())] if column.ndim == 2 else column.tolist()


def molecule_keys(columns: Sequence[Sequence[str]]) -> list[str]:
    """Return one text for each row of SMILES, the same for the same molecules; "" where there is none."""
    read = [_canonical(column) if len(column) <= MOST_COMPARED else column for column in columns]
    return [" + ".join(filter(None, row)) for row in zip(*read, strict=True)]


def _canonical(smiles: Sequence[str]) -> list[str]:
    chem = require_rdkit()
    with chem.rdBase.BlockLogs():
        molecules = [parse_or_none(text) if text.isascii() else None for text in smiles]
        pairs = zip(smiles, molecules, strict=True)
        return [text if molecule is None else chem.MolToSmiles(molecule) for text, molecule in pairs]


def graph_keys(graphs: Sequence[RawGraph | None], features: Mapping[str, Collection[str]]) -> list[str]:
    """Return a hash of each graph as it is written, nodes in order; "" where there is none, or there are too many.

    Args:
        graphs: of all rows.
        features: the columns of the "node"s and "edge"s that the model is given.
    """
    if len(graphs) > MOST_GRAPHS:
        return [""] * len(graphs)
    return ["" if graph is None else _digest(graph, features) for graph in graphs]


def _digest(graph: RawGraph, features: Mapping[str, Collection[str]]) -> str:
    found = hashlib.sha256(f"{graph.num_nodes} {graph.directed}".encode() + graph.edges.tobytes())
    for level, names in features.items():
        columns = graph.columns(level)
        for name in sorted(names & columns.keys()):
            column = columns[name]
            values = repr(column.tolist()).encode() if column.dtype == object else column.tobytes()
            found.update(f"{level} {name}".encode() + values)
    return found.hexdigest()


def repeats(
    keys: Sequence[str],
    names: Sequence[str],
    targets: NDArray[np.float64] | None,
    codes: Codes | None,
    *,
    classes: bool,
    what: str,
    advice: str,
) -> list[str]:
    """Return warnings about rows that occur more than once; none where all is well.

    Args:
        keys: the same for the same row; "" for a row that is not compared.
        names: of the rows, for messages.
        targets: (R, T) labels of all rows, NaN where one is missing.
        codes: (R,) the split of each row; None where rows are not divided.
        classes: whether labels are classes, which differ, or numbers, which may scatter.
        what: a row is, in words.
        advice: on rows in several splits.
    """
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
        columns = [column[~np.isnan(column)] for column in targets.T]
        spread = np.array([0.0 if classes or not len(column) else column.std() for column in columns])
        low = np.minimum.reduceat(np.where(np.isnan(targets[rows]), np.inf, targets[rows]), starts)
        high = np.maximum.reduceat(np.where(np.isnan(targets[rows]), -np.inf, targets[rows]), starts)
        torn = np.flatnonzero((high - low > spread).any(axis=1))  # -inf where a key has no label
        if len(torn):
            how = "different labels" if classes else "labels that differ by more than the standard deviation of all"
            found.append(f"{counted(len(torn), what)} more than once with {how} (e.g. {names[rows[starts[torn[0]]]]})")
    return found
