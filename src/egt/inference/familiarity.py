"""How familiar a molecule is to a model: what an artifact keeps of its training molecules, and how others compare.

Familiarity is the similarity (Tanimoto's: bits in common / bits of either) of a fingerprint to the nearest one of the
training molecules: 1 has the same fragments as one of them, 0 none in common. A molecule is unlike training if it is
farther from there than all but 2% of the training molecules are from each other, if it is smaller or larger than all
of them, or if it has something that none of them has. Fingerprints are kept, and no structures.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from egt.data.encodings.encoding import Sample
from egt.data.fingerprints import BITS, Bits, Codes, fingerprints, identities
from egt.data.molecules import CHIRALITY, OGB_ATOM_FEATURES, OGB_BOND_FEATURES, without_name
from egt.errors import ArtifactError, counted
from egt.graph import UNKNOWN, Graph, IntArray

MOST_KEPT = 2_048  # fingerprints that are kept, of more molecules those drawn at random: 256 KB
MOST_IDENTITIES = 20_000

FARTHEST = 0.02
"""The share of the training molecules that would count as unlike the others (benchmarks/results/familiarity.md)."""

_AT_ONCE = 256
_ISOTOPE = re.compile(r"\[(\d+[A-Z*][a-z]?|\d+[a-z]{1,2})")
_CHARGE = list(OGB_ATOM_FEATURES).index("formal charge")
_NEUTRAL = OGB_ATOM_FEATURES["formal charge"].index("0")
_STEREO = list(OGB_BOND_FEATURES).index("stereo")
_ATOMS, _BONDS = [*OGB_ATOM_FEATURES.items()], [*OGB_BOND_FEATURES.items()]

Categories = tuple[tuple[int, ...], ...]


class Judgment(NamedTuple):
    """What is said about one molecule: how familiar it is, and why it is unlike training, "" where it is not."""

    familiarity: float
    warning: str


class _Facts(BaseModel):
    """What is known about all training molecules, beside their fingerprints.

    Fields:
        limit: the similarity that all but `FARTHEST` of them have to the nearest other one.
        sizes: heavy atoms of the smallest and of the largest.
        charges: net charges; empty where the features of atoms are not OGB's.
        parts: molecules in one SMILES, at most.
        isotopes: as SMILES writes them.
        atoms, bonds: the categories that occur, for each feature.
    """

    limit: Annotated[float, Field(ge=0, le=1)]
    sizes: tuple[int, int]
    charges: tuple[int, ...]
    parts: int
    isotopes: tuple[str, ...]
    atoms: Categories
    bonds: Categories


@dataclass(frozen=True, eq=False)
class TrainingMolecules:
    """What is kept of the training molecules of a model.

    Fields:
        bits: (n, BITS) fingerprints of different molecules.
        identities: (k,) numbers of different molecules, sorted: see `egt.data.fingerprints.identities`.
    """

    bits: Bits
    identities: Codes
    facts: _Facts

    @classmethod
    def of(cls, samples: Sequence[Sample], smiles: Sequence[str]) -> TrainingMolecules:
        """Return what is kept of some molecules; `smiles` of each, or of none."""
        starts = range(0, len(samples), _AT_ONCE)
        known, facts = [], []
        for start in starts:
            graphs = [sample.graph for sample in samples[start : start + _AT_ONCE]]
            known.append(identities(graphs))
            facts.append(_facts_of(graphs, smiles[start : start + _AT_ONCE]))
        distinct, first = np.unique(np.concatenate(known), return_index=True)
        random = np.random.default_rng(0)
        kept = np.sort(random.permutation(first)[:MOST_KEPT]).tolist()
        parts = [kept[start : start + _AT_ONCE] for start in range(0, len(kept), _AT_ONCE)]
        bits = np.concatenate([fingerprints([samples[k].graph for k in part]) for part in parts])
        found = cls(bits, random.permutation(distinct)[:MOST_IDENTITIES], _join(facts))
        return replace(found, facts=found.facts.model_copy(update={"limit": found._usual_similarity()}))

    @classmethod
    def join(cls, known: Sequence[TrainingMolecules]) -> TrainingMolecules:
        """Return what the models of an ensemble were trained on together."""
        bits = np.unique(np.concatenate([member.bits for member in known]), axis=0)
        kept = np.random.default_rng(0).permutation(bits)[:MOST_KEPT]
        same = np.unique(np.concatenate([member.identities for member in known]))
        return cls(kept, same, _join([member.facts for member in known]))

    def judge(self, graphs: Sequence[Graph], smiles: Sequence[str]) -> list[Judgment]:
        """Return how familiar each molecule is. smiles: of each, or of none."""
        if not graphs:
            return []
        near = self.similarities(fingerprints(graphs)).max(1).tolist()
        odd = zip(self._odd_categories(graphs), self._odd_charges(graphs), strict=True)
        texts = smiles or [""] * len(graphs)
        return [
            Judgment(round(each, 3), self._warning(each, graph.num_nodes, text, [*categories, *charges]))
            for each, graph, text, (categories, charges) in zip(near, graphs, texts, odd, strict=True)
        ]

    def familiarities(self, samples: Sequence[Sample]) -> NDArray[np.float64]:
        """(m,) how familiar each molecule is."""
        starts = range(0, len(samples), _AT_ONCE)
        parts = [[sample.graph for sample in samples[start : start + _AT_ONCE]] for start in starts]
        near = [self.similarities(fingerprints(part)).max(1) for part in parts]
        return np.concatenate(near).astype(np.float64).round(3) if near else np.zeros(0)

    def holds(self, graph: Graph) -> bool:
        """Return whether a molecule was in training; of very many only those that were drawn are known."""
        return bool(np.isin(identities([graph]), self.identities)[0])

    def similarities(self, bits: Bits) -> NDArray[np.float32]:
        """(m, n) Tanimoto's similarity of fingerprints, (m, BITS), to those that are kept."""
        by_bit, counts = self._by_bit
        found = np.empty((len(bits), len(self.bits)), np.float32)
        for row, each in zip(found, bits, strict=True):
            on = np.flatnonzero(each)
            common = by_bit[on].sum(0, dtype=np.uint16)  # the bits of a molecule are few: a product would take longer
            np.divide(common, counts + (len(on) - common.astype(np.float32)), out=row)
        return found

    def _usual_similarity(self) -> float:
        """Return the similarity that all but `FARTHEST` of the molecules have to the nearest other one."""
        nearest = []
        for start in range(0, len(self.bits), _AT_ONCE):
            found = self.similarities(self.bits[start : start + _AT_ONCE])
            np.fill_diagonal(found[:, start:], 0)
            nearest.append(found.max(1))
        return round(float(np.quantile(np.concatenate(nearest), FARTHEST)), 3)

    @cached_property
    def _by_bit(self) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
        """(BITS, n) whether each fingerprint has a bit, and (n,) how many it has."""
        return np.ascontiguousarray(self.bits.T.astype(np.uint16)), self.bits.sum(1).astype(np.float32)

    def _warning(self, near: float, num_atoms: int, smiles: str, odd: list[str]) -> str:
        facts = self.facts
        low, high = facts.sizes
        found = [f"{counted(num_atoms, 'heavy atom')}, there {low} to {high}"] if not low <= num_atoms <= high else []
        if near < facts.limit:
            found.append(
                f"similarity {near:.2f} to the nearest molecule there, and {1 - FARTHEST:.0%} of those have "
                f"{facts.limit:.2f} or more to another"
            )
        if "[" in smiles or "." in smiles:
            odd += [f"isotope {each}" for each in sorted(_isotopes(smiles) - {*facts.isotopes})]
            odd += [f"{parts} molecules in one row"] if (parts := _num_parts(smiles)) > facts.parts else []
        if odd:
            found.append(f"no molecule there has {', '.join(odd)}")
        return f"unlike training: {'; '.join(found)}" if found else ""

    def _odd_categories(self, graphs: Sequence[Graph]) -> list[list[str]]:
        """Return what atoms and bonds of each molecule have that no training molecule has, in words."""
        found: list[dict[str, None]] = [{} for _ in graphs]
        if not self.facts.charges:  # ZINC's types, which have names for all they know
            return [[*each] for each in found]
        for level, features, seen in (("node", _ATOMS, self.facts.atoms), ("edge", _BONDS, self.facts.bonds)):
            rows = [getattr(graph, f"{level}_categories") for graph in graphs]
            owners = np.repeat(np.arange(len(graphs)), [len(each) for each in rows])
            every = np.concatenate(rows)
            for k, (name, values) in enumerate(features):
                if name == "atomic number":  # elements are named when a SMILES is read
                    continue
                unseen = np.ones(len(values), np.bool_)
                unseen[[*seen[k]]] = False
                if not unseen.any():
                    continue
                for row in np.flatnonzero(unseen[every[:, k]]).tolist():
                    found[owners[row]][_in_words(name, values[every[row, k]])] = None
        return [[*each] for each in found]

    def _odd_charges(self, graphs: Sequence[Graph]) -> list[list[str]]:
        if not self.facts.charges:
            return [[] for _ in graphs]
        known = {*self.facts.charges}
        return [[] if charge in known else [f"net charge {charge:+d}"] for charge in _charges(graphs).tolist()]

    def save(self, file: Path) -> None:
        """Write what is kept: arrays and a text, no pickles."""
        arrays: dict[str, NDArray[Any]] = {"bits": np.packbits(self.bits, axis=1), "identities": self.identities}
        save_file(arrays, file, {"facts": self.facts.model_dump_json()})

    @classmethod
    def load(cls, file: Path) -> TrainingMolecules:
        """Read what `save` wrote."""
        try:
            with safe_open(file, framework="numpy") as content:
                packed, known = content.get_tensor("bits"), content.get_tensor("identities")
                facts = _Facts.model_validate_json((content.metadata() or {}).get("facts", ""))
        except (SafetensorError, ValidationError, OSError) as error:
            raise _unreadable(file, " ".join(str(error).split())) from error
        if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] * 8 != BITS or not len(packed):
            raise _unreadable(file, f"fingerprints are rows of {BITS // 8} bytes")
        if known.dtype != np.uint64 or known.ndim != 1:
            raise _unreadable(file, "identities are numbers of 64 bits")
        for seen, features in ((facts.atoms, _ATOMS), (facts.bonds, _BONDS)):
            known_features = zip(seen, features, strict=False)  # components of a row are behind those of an atom
            if any(not 0 <= each < len(values) for column, (_, values) in known_features for each in column):
                raise _unreadable(file, "atoms and bonds have no such categories")
        return cls(np.unpackbits(packed, axis=1).astype(np.bool_), known, facts)


def _facts_of(graphs: Sequence[Graph], smiles: Sequence[str]) -> _Facts:
    """Return what is known about some molecules, but for `limit`."""
    sizes = [graph.num_nodes for graph in graphs]
    return _Facts(
        limit=1,
        sizes=(min(sizes), max(sizes)),
        charges=tuple(sorted(set(_charges(graphs).tolist()))),
        parts=max(map(_num_parts, smiles), default=1),
        isotopes=tuple(sorted(set[str]().union(*map(_isotopes, smiles)))),
        atoms=_seen([graph.node_categories for graph in graphs], CHIRALITY),
        bonds=_seen([graph.edge_categories for graph in graphs], _STEREO),
    )


def _join(facts: Sequence[_Facts]) -> _Facts:
    """Return what is known about several sets of molecules together."""
    return _Facts(
        limit=min(each.limit for each in facts),
        sizes=(min(each.sizes[0] for each in facts), max(each.sizes[1] for each in facts)),
        charges=tuple(sorted({charge for each in facts for charge in each.charges})),
        parts=max(each.parts for each in facts),
        isotopes=tuple(sorted({isotope for each in facts for isotope in each.isotopes})),
        atoms=_union([each.atoms for each in facts]),
        bonds=_union([each.bonds for each in facts]),
    )


def _union(several: Sequence[Categories]) -> Categories:
    return tuple(tuple(sorted(set[int]().union(*columns))) for columns in zip(*several, strict=True))


def _seen(rows: Sequence[IntArray], stereo: int) -> Categories:
    """Return the categories in each column; of stereo, which has two names for one thing, all if there is any."""
    columns = [np.unique(column) for column in np.concatenate(rows).T]
    seen = [{category for category in column.tolist() if category != UNKNOWN} for column in columns]
    if len(seen) > stereo and seen[stereo] - {0}:
        seen[stereo] |= {*range(len((_ATOMS if stereo == CHIRALITY else _BONDS)[stereo][1]))}
    return tuple(tuple(sorted(each)) for each in seen)


def _charges(graphs: Sequence[Graph]) -> IntArray:
    """(graphs,) net charges of molecules with OGB's features; (0,) of others."""
    rows = [graph.node_categories for graph in graphs]
    if rows[0].shape[1] < len(_ATOMS):
        return np.zeros(0, np.int64)
    starts = np.cumsum([0, *(len(each) for each in rows[:-1])])
    return np.add.reduceat(np.concatenate(rows)[:, _CHARGE] - _NEUTRAL, starts)


def _isotopes(smiles: str) -> set[str]:
    return {*_ISOTOPE.findall(smiles)} if "[" in smiles else set()


def _num_parts(smiles: str) -> int:
    return 1 + without_name(smiles).count(".") if "." in smiles else 1


def _in_words(feature: str, value: str) -> str:
    """Return what an atom or a bond has, as a chemist says it."""
    known = {"chirality": "a stereo center", "stereo": "a double bond with stereo"}
    return known.get(feature, f"an unusual {feature}" if value == "misc" else f"{feature} {value}")


def _unreadable(file: Path, reason: str) -> ArtifactError:
    return ArtifactError(f"{file}: is not what an artifact keeps of training molecules ({reason}); make it again")
