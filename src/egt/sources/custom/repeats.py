"""Molecules that are there more than once: in several splits, which flatters a score, or with different labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from egt.sources.custom.division import Codes
from egt.sources.molecules import require_rdkit
from egt.sources.source import SPLITS

MOST_COMPARED = 20_000
"""Of more rows the SMILES are compared as they are written: to read them would take minutes."""


def repeats(
    smiles: Sequence[str], targets: NDArray[np.float64] | None, codes: Codes | None, *, classes: bool
) -> list[str]:
    """Warnings about molecules that occur more than once; none where all is well.

    Args:
        smiles: of all rows, "" where there is none.
        targets: (R, T) labels of all rows, NaN where one is missing.
        codes: (R,) the split of each row; None where rows are not divided.
        classes: whether labels are classes, which differ, or numbers, which may scatter.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(_keys(smiles)):
        if key:
            groups[key].append(row)
    repeated = {key: rows for key, rows in groups.items() if len(rows) > 1}
    found = []
    if codes is not None:
        shared = {key: sorted({int(codes[row]) for row in rows} - {-1}) for key, rows in repeated.items()}
        shared = {key: splits for key, splits in shared.items() if len(splits) > 1}
        if shared:
            key, splits = next(iter(shared.items()))
            where = " and ".join(SPLITS[code] for code in splits)
            found.append(
                f"{len(shared)} molecules are in several splits ({key}: {where}), which flatters the scores; remove "
                "repetitions, or divide with --set split=scaffold"
            )
    if targets is not None:
        spread = np.zeros(targets.shape[1]) if classes else _deviations(targets)
        torn = [key for key, rows in repeated.items() if (_ranges(targets[rows]) > spread).any()]
        if torn:
            how = "different labels" if classes else "labels that differ by more than the standard deviation of all"
            found.append(f"{len(torn)} molecules occur more than once with {how} (as {torn[0]})")
    return found


def _keys(smiles: Sequence[str]) -> list[str]:
    """One text for each molecule, the same for the same molecule."""
    if len(smiles) > MOST_COMPARED:
        return list(smiles)
    chem = require_rdkit()
    with chem.rdBase.BlockLogs():
        molecules = [chem.MolFromSmiles(text) if text.isascii() else None for text in smiles]
        return [
            text if molecule is None else chem.MolToSmiles(molecule)
            for text, molecule in zip(smiles, molecules, strict=True)
        ]


def _ranges(labels: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T,) largest minus smallest of some rows (n, T), 0 where there is no label."""
    low = np.where(np.isnan(labels), np.inf, labels).min(axis=0)
    high = np.where(np.isnan(labels), -np.inf, labels).max(axis=0)
    ranges: NDArray[np.float64] = np.maximum(high - low, 0.0)
    return ranges


def _deviations(labels: NDArray[np.float64]) -> NDArray[np.float64]:
    columns = [column[~np.isnan(column)] for column in labels.T]
    return np.array([column.std() if len(column) else 0.0 for column in columns])
