"""Molecules as fragments and descriptors: what learners without a network read of them.

Fragments are those of Morgan (1965): each atom with its neighborhood of 0 to 2 bonds, as RDKit numbers them. A fragment
that occurs c times has the keys `number * 32 + j` for j < c, so that the keys that two molecules share count what they
have in common (the smaller of both counts of every fragment).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.molecules import RDKIT_ERRORS, parse_smiles, require_rdkit
from egt.errors import DataError

Keys = NDArray[np.int64]

_RADIUS = 2
_MOST_COUNTS = 32
"""Of one fragment."""

_SLOW = re.compile(r"qed|SPS|BertzCT|Ipc|AvgIpc|BalabanJ|BCUT2D_.*|(Max|Min)(Abs)?EStateIndex|Phi")
"""Descriptors that take longer than all others together; without them learners were as good."""


@dataclass(frozen=True, eq=False)
class Described:
    """Some molecules.

    Fields:
        keys: of each molecule, in ascending order.
        values: (molecules, D) descriptors on the scale sign(x) log(1 + |x|), 0 where RDKit has no number.
    """

    keys: Sequence[Keys]
    values: NDArray[np.float32]

    def counts(self, num_bins: int) -> NDArray[np.float32]:
        """(molecules, bins) how many fragments of a molecule, whose number modulo the bins is that of a bin."""
        found = [np.bincount(each // _MOST_COUNTS % num_bins, minlength=num_bins) for each in self.keys]
        return np.stack(found).astype(np.float32) if found else np.zeros((0, num_bins), np.float32)


def descriptor_names() -> list[str]:
    """Return the names of RDKit's 2D descriptors that are computed quickly."""
    return [name for name in _descriptors() if not _SLOW.fullmatch(name)]


@cache
def _descriptors() -> dict[str, Any]:
    require_rdkit()
    from rdkit.Chem import Descriptors

    return dict(Descriptors.descList)


def missing_descriptors(names: Sequence[str]) -> list[str]:
    """Return those of some descriptors that the installed RDKit does not have."""
    return [name for name in names if name not in _descriptors()]


def describe(smiles: Sequence[str], names: Sequence[str]) -> Described:
    """Return the fragments of some molecules and their descriptors of these names.

    Raises:
        DataError: a text that is no molecule.
    """
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    generator = GetMorganGenerator(radius=_RADIUS, includeChirality=True)
    functions = [_descriptors()[name] for name in names]
    molecules = []
    for molecule, _ in parse_smiles(smiles):
        if isinstance(molecule, DataError):
            raise molecule
        molecules.append(molecule)
    values = np.array([[_number(function, each) for function in functions] for each in molecules], np.float64)
    values = values.reshape(len(molecules), len(names))
    scaled = np.sign(values) * np.log1p(np.abs(values))
    return Described([_keys(generator, each) for each in molecules], scaled.astype(np.float32))


def _keys(generator: Any, molecule: Any) -> Keys:
    found = generator.GetSparseCountFingerprint(molecule).GetNonzeroElements()
    numbers = np.fromiter(found.keys(), np.int64, len(found))
    counts = np.minimum(np.fromiter(found.values(), np.int64, len(found)), _MOST_COUNTS)
    places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(np.repeat(numbers * _MOST_COUNTS, counts) + places)


def _number(function: Any, molecule: Any) -> float:
    try:
        value = float(function(molecule))
    except RDKIT_ERRORS:
        return 0.0
    return value if np.isfinite(value) else 0.0
