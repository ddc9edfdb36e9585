"""Rows that are there more than once: in several splits, which flatters a score, or with different labels."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from egt.errors import counted
from egt.sources.custom.division import Codes
from egt.sources.custom.raw import Columns, RawGraph
from egt.sources.molecules import parse_or_none, require_rdkit
from egt.sources.source import SPLITS

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
