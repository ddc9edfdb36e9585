"""Fragments and descriptors of molecules by RDKit: what learners without a network read, and targets of pre-training.

Fragments are of three kinds, with RDKit's numbers: those of Morgan (1965), each atom with its neighborhood of 0 to 2
bonds; the same where atoms are only donor, acceptor, aromatic, halogen, basic or acidic; and pairs of atoms with their
distance. Learners read them as keys: one of kind k that occurs c times has the keys `k * KIND + number * 32 + j` for
j < c, so that the keys that two molecules share count what they have in common (the smaller of both counts of every
fragment).

As targets, descriptors need no measurement: every molecule has hundreds, and a model that has learned them starts
better.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.molecules import RDKIT_ERRORS, parse_or_none, parse_smiles, require_rdkit
from egt.data.source import DataCard, Derived, Reading, Source, TargetSchema
from egt.errors import DataError
from egt.graph import Graph

Keys = NDArray[np.int64]

_MOST_COUNTS = 32  # of one fragment
_SLOW = re.compile(r"qed|SPS|BertzCT|Ipc|AvgIpc|BalabanJ|BCUT2D_.*|(Max|Min)(Abs)?EStateIndex|Phi")
"""Descriptors that take longer than all others together; without them learners were as good."""

KINDS = ("fragment ", "role fragment ", "atom pair ")
"""How the name of a fragment of each kind begins, as a target; RDKit's number of it follows."""

KIND = 1 << 48  # the keys of each kind begin at a multiple of this
LIMIT = 6.0  # deviations from the mean at which standardized targets end
_SAMPLED = 2_000
_FRAGMENTS = 512  # of each kind, as targets
_LARGEST = float(np.finfo(np.float16).max)
_SPREAD = 0.2
"""Of the variance of a target that has to be left when values beyond 6 deviations are cut: otherwise single molecules
make it up."""


@cache
def _functions() -> dict[str, Callable[[Any], Any]]:
    require_rdkit()
    from rdkit.Chem import Descriptors

    return dict(Descriptors.descList)


def _values(molecule: Any, names: Sequence[str]) -> list[float]:
    """Return descriptors of a molecule; NaN where RDKit has no number."""
    found = []
    for name in names:
        try:
            found.append(float(_functions()[name](molecule)))
        except RDKIT_ERRORS:
            found.append(np.nan)
    return found


def _fragments(molecule: Any, *, chiral: bool) -> list[dict[int, int]]:
    """Return how often each fragment occurs, by kind and number; chiral: mirror images have different ones."""
    return [each.GetSparseCountFingerprint(molecule).GetNonzeroElements() for each in _generators(chiral)]


@cache
def _generators(chiral: bool) -> tuple[Any, ...]:
    from rdkit.Chem.rdFingerprintGenerator import GetAtomPairGenerator, GetMorganFeatureAtomInvGen, GetMorganGenerator

    roles = GetMorganFeatureAtomInvGen()
    return (
        GetMorganGenerator(radius=2, includeChirality=chiral),
        GetMorganGenerator(radius=2, includeChirality=chiral, atomInvariantsGenerator=roles),
        GetAtomPairGenerator(includeChirality=chiral),
    )


def _by_name(fragments: Sequence[Mapping[int, int]]) -> dict[str, int]:
    return {
        f"{kind}{number}": count
        for kind, found in zip(KINDS, fragments, strict=True)
        for number, count in found.items()
    }


def descriptor_names() -> list[str]:
    """Return the names of RDKit's 2D descriptors that are computed quickly."""
    return [name for name in _functions() if not _SLOW.fullmatch(name)]


def missing_descriptors(names: Sequence[str]) -> list[str]:
    """Return those of some descriptors that the installed RDKit does not have; it has any fragment."""
    return [name for name in names if not name.startswith(KINDS) and name not in _functions()]


@dataclass(frozen=True, eq=False)
class Described:
    """The fragments and descriptors of some molecules."""

    keys: Sequence[Keys]  # of each molecule, in ascending order
    values: NDArray[np.float32]  # (molecules, D) on the scale sign(x) log(1 + |x|), 0 where RDKit has no number

    def __getitem__(self, rows: slice) -> Described:
        return Described(self.keys[rows], self.values[rows])

    def counts(self, num_bins: int) -> NDArray[np.float32]:
        """(molecules, kinds * bins) how many fragments of each kind, whose number modulo the bins is that of a bin."""
        width = len(KINDS) * num_bins
        places = (each // KIND * num_bins + each % KIND // _MOST_COUNTS % num_bins for each in self.keys)
        found = [np.bincount(each, minlength=width) for each in places]
        return np.stack(found).astype(np.float32) if found else np.zeros((0, width), np.float32)


def describe(smiles: Sequence[str], names: Sequence[str]) -> Described:
    """Return the fragments of some molecules and their descriptors of these names; a `DataError` for other texts."""
    keys, rows = [], []
    for molecule, _ in parse_smiles(smiles):
        if isinstance(molecule, DataError):
            raise molecule
        keys.append(_keys(molecule))
        rows.append(_values(molecule, names))
    values = np.array(rows, np.float64).reshape(len(rows), len(names))
    values = np.where(np.isfinite(values), values, 0.0)
    return Described(keys, (np.sign(values) * np.log1p(np.abs(values))).astype(np.float32))


def _keys(molecule: Any) -> Keys:
    keys = []
    for kind, found in enumerate(_fragments(molecule, chiral=True)):
        numbers = np.fromiter(found.keys(), np.int64, len(found))
        counts = np.minimum(np.fromiter(found.values(), np.int64, len(found)), _MOST_COUNTS)
        places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        keys.append(np.sort(np.repeat(kind * KIND + numbers * _MOST_COUNTS, counts) + places))
    return np.concatenate(keys)


@dataclass(frozen=True)
class Targets:
    """Descriptors and fragments that vary, with their means and deviations; (T,) each."""

    names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]


def choose_targets(smiles: Sequence[str]) -> Targets:
    """Return descriptors that say something about such molecules, as a sample of them shows.

    The fragments are those of which it is least certain whether a molecule has them. Constant descriptors are dropped,
    and those that are missing for most molecules, too large for half precision, or decided by single molecules.
    """
    rows = np.random.default_rng(0).permutation(len(smiles))[:_SAMPLED]
    sample = [text for text in (str(smiles[row]) for row in sorted(rows.tolist())) if parse_or_none(text) is not None]
    if not sample:
        raise DataError("none of the molecules can be read: there is nothing to describe")
    names = (*_functions(), *_common_fragments(sample))
    values = np.array([compute_targets(text, names) for text in sample], np.float64)
    known = ~np.isnan(values)
    values[:, known.mean(0) < 0.5] = 0.0
    mean, std = np.nanmean(values, 0), np.nanstd(values, 0)
    cut = np.clip(values, mean - LIMIT * std, mean + LIMIT * std)
    kept = np.flatnonzero((std > 1e-6) & (np.nanvar(cut, 0) > _SPREAD * std**2))
    return Targets(tuple(names[k] for k in kept), tuple(mean[kept].tolist()), tuple(std[kept].tolist()))


def _common_fragments(smiles: Sequence[str]) -> list[str]:
    """Return the fragments of each kind that closest to half of the molecules have."""
    count = Counter(name for text in smiles for name in _by_name(_fragments(parse_or_none(text), chiral=False)))
    ranked = sorted(count, key=lambda name: (abs(count[name] / len(smiles) - 0.5), name))
    return [name for kind in KINDS for name in [each for each in ranked if each.startswith(kind)][:_FRAGMENTS]]


def compute_targets(smiles: str, names: Sequence[str]) -> NDArray[np.float16]:
    """(T,) descriptors and fragments of a molecule by their names, NaN where there is no number in half precision."""
    molecule = parse_or_none(smiles)
    if molecule is None:
        return np.full(len(names), np.nan, np.float16)
    computed = [name for name in names if not name.startswith(KINDS)]
    found = _by_name(_fragments(molecule, chiral=False)) | dict(zip(computed, _values(molecule, computed), strict=True))
    values = np.array([found.get(name, 0.0) for name in names], np.float64)
    return np.where(np.abs(values) <= _LARGEST, values, np.nan).astype(np.float16)


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
        return [self._describe(reading) for reading in self.whole.read_all(records)]

    def _describe(self, reading: Reading) -> Reading:
        if reading.graph is None:
            return reading
        values = compute_targets(str(self._smiles[reading.row]), self.targets)
        values.setflags(write=False)
        return replace(reading, graph=Graph.trusted(**{**vars(reading.graph), "graph_targets": values}))


def with_descriptors(source: Source, names: Sequence[str]) -> Source:
    """Return molecules with these descriptors as their targets."""
    if source.smiles() is None:
        raise DataError("descriptors are those of molecules; other graphs learn what is hidden of them (pretrain)")
    if missing := missing_descriptors(names):
        version = require_rdkit().rdBase.rdkitVersion
        named = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise DataError(f"RDKit {version} has no descriptor {named}; install a newer one (pip install -U rdkit)")
    return source if isinstance(source, WithDescriptors) else WithDescriptors(source, tuple(names))
