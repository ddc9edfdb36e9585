"""Descriptors of molecules as targets: what RDKit computes of a molecule, and counts of common fragments.

They need no measurement, so every molecule has hundreds of them: a model that has learned them starts better.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.molecules import parse_or_none, require_rdkit
from egt.data.source import DataCard, Derived, Reading, Source, TargetSchema
from egt.errors import DataError
from egt.graph import Graph

FRAGMENT = "fragment "
"""How the name of a fragment begins; RDKit's number of it follows."""

_SAMPLED = 2_000
_FRAGMENTS = 256
_LARGEST = float(np.finfo(np.float16).max)
_SPREAD = 0.2
"""Of the variance of a descriptor that has to be left when values beyond 6 deviations are cut: otherwise single
molecules make it up."""

LIMIT = 6.0
"""Deviations from the mean at which standardized descriptors end."""


@dataclass(frozen=True)
class Described:
    """Descriptors that vary, with their means and deviations; (T,) each."""

    names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]


def choose_descriptors(smiles: Sequence[str]) -> Described:
    """Return descriptors that say something about such molecules, as a sample of them shows.

    The fragments are those of which it is least certain whether a molecule has them. Constant descriptors are dropped,
    and those that are missing for most molecules, too large for half precision, or decided by single molecules.
    """
    rows = np.random.default_rng(0).permutation(len(smiles))[:_SAMPLED]
    sample = [text for text in (str(smiles[row]) for row in sorted(rows.tolist())) if parse_or_none(text) is not None]
    if not sample:
        raise DataError("none of the molecules can be read: there is nothing to describe")
    names = (*_functions(), *_common_fragments(sample))
    values = np.array([describe(text, names) for text in sample], np.float64)
    known = ~np.isnan(values)
    values[:, known.mean(0) < 0.5] = 0.0
    mean, std = np.nanmean(values, 0), np.nanstd(values, 0)
    cut = np.clip(values, mean - LIMIT * std, mean + LIMIT * std)
    kept = np.flatnonzero((std > 1e-6) & (np.nanvar(cut, 0) > _SPREAD * std**2))
    return Described(tuple(names[k] for k in kept), tuple(mean[kept].tolist()), tuple(std[kept].tolist()))


def _common_fragments(smiles: Sequence[str]) -> list[str]:
    """Return the fragments that closest to half of the molecules have."""
    count = Counter(fragment for text in smiles for fragment in _fragments(parse_or_none(text)))
    share = {fragment: times / len(smiles) for fragment, times in count.items()}
    chosen = sorted(share, key=lambda fragment: (abs(share[fragment] - 0.5), fragment))[:_FRAGMENTS]
    return [f"{FRAGMENT}{fragment}" for fragment in chosen]


def describe(smiles: str, names: Sequence[str]) -> NDArray[np.float16]:
    """(T,) the descriptors of a molecule by their names, NaN where RDKit has no number that fits half precision."""
    from rdkit.Chem import Descriptors

    molecule = parse_or_none(smiles)
    if molecule is None:
        return np.full(len(names), np.nan, np.float16)
    found: dict[str, float] = Descriptors.CalcMolDescriptors(molecule, missingVal=np.nan, silent=True)  # type: ignore[no-untyped-call]
    found |= {f"{FRAGMENT}{number}": times for number, times in _fragments(molecule).items()}
    values = np.array([found.get(name, 0.0) for name in names], np.float64)
    return np.where(np.abs(values) <= _LARGEST, values, np.nan).astype(np.float16)


def check_descriptors(names: Sequence[str]) -> None:
    """Raise a `DataError` where the RDKit that is installed does not have descriptors of these names."""
    missing = [name for name in names if not name.startswith(FRAGMENT) and name not in _functions()]
    if missing:
        from rdkit import __version__

        named = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise DataError(f"RDKit {__version__} has no descriptor {named}; install a newer one (pip install -U rdkit)")


def _functions() -> list[str]:
    require_rdkit()
    from rdkit.Chem import Descriptors

    return [name for name, _ in Descriptors._descList]


def _fragments(molecule: Any) -> dict[int, int]:
    """Return how often each Morgan fragment of up to two bonds occurs, by RDKit's number of it."""
    found: dict[int, int] = _generator().GetSparseCountFingerprint(molecule).GetNonzeroElements()
    return found


@cache
def _generator() -> Any:
    from rdkit.Chem import rdFingerprintGenerator

    return rdFingerprintGenerator.GetMorganGenerator(radius=2)


@dataclass(frozen=True)
class WithDescriptors(Derived):
    """Molecules whose targets are descriptors. They are computed where graphs are read, and kept with them."""

    targets: tuple[str, ...]

    @cached_property
    def card(self) -> DataCard:
        return replace(self.whole.card, target=TargetSchema("graph", "regression", self.targets))

    @cached_property
    def _smiles(self) -> Sequence[Any]:
        return self.whole.smiles() or ()

    def fingerprint(self) -> str:
        return hashlib.sha256(repr((self.whole.fingerprint(), "descriptors", self.targets)).encode()).hexdigest()

    def records(self, split: str) -> Sequence[Any]:
        return self.whole.records(split)

    def read(self, record: Any) -> Reading:
        return self.read_all([record])[0]

    def read_all(self, records: Sequence[Any]) -> list[Reading]:
        return [self._described(reading) for reading in self.whole.read_all(records)]

    def _described(self, reading: Reading) -> Reading:
        if reading.graph is None:
            return reading
        values = describe(str(self._smiles[reading.row]), self.targets)
        values.setflags(write=False)
        return replace(reading, graph=Graph.trusted(**{**vars(reading.graph), "graph_targets": values}))


def with_descriptors(source: Source, names: Sequence[str]) -> Source:
    """Return molecules with these descriptors as their targets."""
    if source.smiles() is None:
        raise DataError("descriptors are those of molecules; other graphs learn what is hidden of them (pretrain)")
    check_descriptors(names)
    return source if isinstance(source, WithDescriptors) else WithDescriptors(source, tuple(names))
