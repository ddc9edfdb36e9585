"""Dividing n things into train (0), val (1), test (2) or none of them (-1). Each function is pure and seeded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from egt.errors import DataError
from egt.sources.custom.raw import Column, text_of
from egt.sources.molecules import require_rdkit

SPLITS = ("train", "val", "test")
SPLIT_WORDS = {
    "train": 0, "training": 0,
    "val": 1, "valid": 1, "validation": 1, "dev": 1,
    "test": 2, "testing": 2,
}  # fmt: skip
"""How a split column may call the splits; upper and lower case are the same."""

Codes = NDArray[np.int8]
Fractions = tuple[float, float, float]


def random_split(count: int, fractions: Fractions, seed: int) -> Codes:
    """(count,) codes: a shuffled list cut at the fractions."""
    return _cut(np.random.default_rng(seed).permutation(count), fractions)


def stratified_split(labels: NDArray[np.float64], fractions: Fractions, seed: int, *, continuous: bool) -> Codes:
    """(n,) codes with each class (or tenth of a continuous range) in every split at the same share.

    Args:
        labels: (n,) class ids or numbers; missing labels (NaN) are a group of their own.
        fractions: shares of train, val and test.
        seed: of the shuffles.
        continuous: labels are numbers to be grouped by their deciles.
    """
    groups = labels
    if continuous:
        present = labels[~np.isnan(labels)]
        edges = np.quantile(present, np.linspace(0.1, 0.9, 9)) if len(present) else np.zeros(0)
        groups = np.where(np.isnan(labels), np.nan, np.searchsorted(edges, labels))
    codes = np.full(len(labels), -1, dtype=np.int8)
    generator = np.random.default_rng(seed)
    for group in np.unique(groups):
        members = np.flatnonzero(np.isnan(groups) if np.isnan(group) else groups == group)
        codes[members] = _cut(generator.permutation(len(members)), fractions)
    return codes


def scaffold_split(smiles: Sequence[str | None], fractions: Fractions) -> Codes:
    """(n,) codes such that molecules with one Bemis-Murcko scaffold stay together.

    The largest scaffolds come first (of equal ones the later first), and each goes to train while it fits, else to
    val, else to test. Nothing here is random. Rows that RDKit cannot read go to train one by one.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for row, scaffold in enumerate(_scaffolds(smiles)):
        groups[f"row {row}" if scaffold is None else scaffold].append(row)
    train_limit, val_limit = fractions[0] * len(smiles), (fractions[0] + fractions[1]) * len(smiles)
    codes = np.full(len(smiles), 2, dtype=np.int8)
    num_train = num_val = 0
    for members in sorted(groups.values(), key=lambda rows: (len(rows), rows[0]), reverse=True):
        if num_train + len(members) <= train_limit:
            codes[members] = 0
            num_train += len(members)
        elif num_train + num_val + len(members) <= val_limit:
            codes[members] = 1
            num_val += len(members)
    return codes


def column_split(column: Column, where: str) -> Codes:
    """(n,) codes of a split column; an empty cell is in no split.

    Raises:
        DataError: for a word that is no split.
    """
    codes = np.full(len(column), -1, dtype=np.int8)
    for row, value in enumerate(column):
        if value is None or value != value:
            continue
        word = text_of(value).strip().lower()
        if word not in SPLIT_WORDS:
            raise DataError(f"{where}: {word!r} in row {row + 1} is no split; allowed are {', '.join(SPLIT_WORDS)}")
        codes[row] = SPLIT_WORDS[word]
    return codes


def is_split_column(column: Column) -> bool:
    """Whether a column holds names of splits and nothing else."""
    if column.dtype != object:
        return False
    words = {str(value).strip().lower() for value in column if value is not None}
    return bool(words) and words <= SPLIT_WORDS.keys()


def _cut(order: NDArray[np.int64], fractions: Fractions) -> Codes:
    ends = np.rint(np.cumsum(fractions) * len(order)).astype(np.int64)
    codes = np.full(len(order), 2, dtype=np.int8)
    codes[order[: ends[0]]] = 0
    codes[order[ends[0] : ends[1]]] = 1
    return codes


def _scaffolds(smiles: Sequence[str | None]) -> list[str | None]:
    chem = require_rdkit()
    from rdkit import rdBase
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    scaffolds: list[str | None] = []
    with rdBase.BlockLogs():
        for text in smiles:
            molecule = None if text is None else chem.MolFromSmiles(text)
            scaffolds.append(None if molecule is None else MurckoScaffoldSmiles(mol=molecule))  # type: ignore[no-untyped-call]
    return scaffolds
