"""What atoms and bonds are described by: OGB's nine and three features, or the 28 and 4 types of ZINC."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, pairwise, repeat
from typing import Any, NamedTuple

import numpy as np

from egt.graph import UNKNOWN, FeatureSchema, IntArray

OGB_ATOM_FEATURES: dict[str, tuple[str, ...]] = {
    "atomic number": (*(str(number) for number in range(1, 119)), "misc"),
    "chirality": ("unspecified", "tetrahedral clockwise", "tetrahedral counterclockwise", "other", "misc"),
    "degree with hydrogens": (*(str(k) for k in range(11)), "misc"),
    "formal charge": (*(str(k) for k in range(-5, 6)), "misc"),
    "hydrogens": (*(str(k) for k in range(9)), "misc"),
    "radical electrons": (*(str(k) for k in range(5)), "misc"),
    "hybridization": ("SP", "SP2", "SP3", "SP3D", "SP3D2", "misc"),
    "aromatic": ("no", "yes"),
    "in a ring": ("no", "yes"),
}
OGB_BOND_FEATURES: dict[str, tuple[str, ...]] = {
    "bond type": ("single", "double", "triple", "aromatic", "misc"),
    "stereo": ("none", "Z", "E", "cis", "trans", "any"),
    "conjugated": ("no", "yes"),
}
OGB_ATOM_SIZES = tuple(len(values) for values in OGB_ATOM_FEATURES.values())
"""The true vocabulary sizes of the nine atom features: 119, 5, 12, 12, 10, 6, 6, 2, 2."""
OGB_BOND_SIZES = tuple(len(values) for values in OGB_BOND_FEATURES.values())
"""The true vocabulary sizes of the three bond features: 5, 6, 2."""
OGB_SCHEMA = FeatureSchema(node_categories=(128,) * 9, edge_categories=(8,) * 3)
"""What models read: every atom feature has a table of 128 rows and every bond feature one of 8, as the authors' do."""

# fmt: off
ZINC_ATOMS = (
    "C", "O", "N", "F", "C H1", "S", "Cl", "O -", "N H1 +", "Br", "N H3 +", "N H2 +", "N +", "N -", "S -", "I", "P",
    "O H1 +", "N H1 -", "O +", "S +", "P H1", "P H2", "C H2 -", "P +", "S H1 +", "C H1 -", "P H1 +",
)
# fmt: on
"""The 28 atom types of ZINC: element, hydrogens written in the SMILES bracket, sign of the charge."""
ZINC_BONDS = ("NONE", "SINGLE", "DOUBLE", "TRIPLE")
ZINC_SCHEMA = FeatureSchema(node_categories=(len(ZINC_ATOMS),), edge_categories=(len(ZINC_BONDS),))

_ZINC_ATOM_ID = {symbol: number for number, symbol in enumerate(ZINC_ATOMS)}


class _Codes:
    """Turns raw integers of RDKit into category ids: one table per column, looked up for a whole molecule at once.

    Args:
        *columns: for each column its raw values in the order of their ids; every other value gets the last id, which
            is "misc" where the vocabulary ends with a raw value of None.
    """

    def __init__(self, *columns: Sequence[int | None]) -> None:
        known = [[value for value in column if value is not None] for column in columns]
        self.low = np.array([min(column) - 1 for column in known])
        self.high = np.array([max(column) + 1 for column in known])
        self.offset = np.concatenate([[0], np.cumsum(self.high - self.low + 1)[:-1]]) - self.low
        tables = []
        for column, low, high in zip(columns, self.low, self.high, strict=True):
            table = np.full(high - low + 1, len(column) - 1, dtype=np.int64)
            for number, value in enumerate(column):
                if value is not None:
                    table[value - low] = number
            tables.append(table)
        self.table = np.concatenate(tables)

    def __call__(self, raw: IntArray) -> IntArray:
        """The ids of (rows, columns) raw values."""
        ids: IntArray = self.table[np.minimum(np.maximum(raw, self.low), self.high) + self.offset]
        return np.ascontiguousarray(ids)


# The raw values of RDKit's enumerations (chiral tag, hybridization, bond type, stereo) in the order of OGB's ids.
_OGB_ATOM_CODES = _Codes(
    (*range(1, 119), None),
    (0, 1, 2, 3, None),
    (*range(11), None),
    (*range(-5, 6), None),
    (*range(9), None),
    (*range(5), None),
    (2, 3, 4, 6, 7, None),
    (0, 1),
    (0, 1),
)
_TYPE_OF_ORDER = {1.0: 1, 2.0: 2, 3.0: 3, 1.5: 12}
_OGB_BOND_CODES = _Codes((1, 2, 3, 12, None), (0, 2, 3, 4, 5, 1), (0, 1))


# Such a SMILES has no stereo mark, no hydrogen atom, no metal and no unusual bond: then chirality and bond stereo are 0
# and a bond's order tells its type, so RDKit's enumerations, which are slow, need not be asked.
is_flat = re.compile(r"(?:[A-Za-z0-9()=#%.:-]|\[(?:[BCNOPSFIbcnops]|Cl|Br)H?\d?[+-]?\d?\])+").fullmatch


_TOGETHER = 8
"""Molecules per table: one alone pays numpy's price for each call, and many do not fit into the processor's cache."""


class Molecule(NamedTuple):
    """A molecule as RDKit holds it, and what its SMILES tells beforehand.

    Fields:
        rdkit: the molecule.
        flat: whether its SMILES `is_flat`.
        brackets: whether its SMILES has brackets; without them there is no charge and no radical.
    """

    rdkit: Any
    flat: bool
    brackets: bool


class MoleculeFeatures(NamedTuple):
    """The arrays of a molecule's graph, read-only, and a warning if they do not say all about it.

    Fields:
        atoms: (N, F) category ids of the atoms.
        edge_index: (2, 2 * bonds) both directions of each bond.
        bonds: (2 * bonds, F) category ids of the edges.
    """

    atoms: IntArray
    edge_index: IntArray
    bonds: IntArray
    warning: str = ""


def ogb_features(molecules: Sequence[Molecule]) -> list[MoleculeFeatures]:
    """OGB's nine atom and three bond features."""
    features = []
    for start in range(0, len(molecules), _TOGETHER):
        some = molecules[start : start + _TOGETHER]
        found = zip(_ogb_atoms(some), _ogb_bonds(some), strict=True)
        features += [MoleculeFeatures(atoms, *edges) for atoms, edges in found]
    return features


# In the next two functions: unbound methods mapped over a list cost half of what `atom.GetAtomicNum()` does, and
# RDKit's iterators twice.
def _ogb_atoms(molecules: Sequence[Molecule]) -> list[IntArray]:
    """(N, 9) category ids of the atoms of each molecule."""
    from rdkit.Chem import Atom

    groups = [list(map(rdkit.GetAtomWithIdx, range(rdkit.GetNumAtoms()))) for rdkit, _, _ in molecules]
    atoms = list(chain.from_iterable(groups))
    stereo, brackets = [not molecule.flat for molecule in molecules], [molecule.brackets for molecule in molecules]
    columns = (
        map(Atom.GetAtomicNum, atoms),
        _asked(Atom.GetChiralTag, groups, stereo),
        map(Atom.GetTotalDegree, atoms),
        _asked(Atom.GetFormalCharge, groups, brackets),
        map(Atom.GetTotalNumHs, atoms),
        _asked(Atom.GetNumRadicalElectrons, groups, brackets),
        map(Atom.GetHybridization, atoms),
        map(Atom.GetIsAromatic, atoms),
        map(Atom.IsInRing, atoms),
    )
    return _split(_OGB_ATOM_CODES(_table(columns, len(atoms))), map(len, groups))


def _ogb_bonds(molecules: Sequence[Molecule]) -> list[tuple[IntArray, IntArray]]:
    """(2, 2 * bonds) edges and their (2 * bonds, 3) category ids, for each molecule."""
    from rdkit.Chem import Bond

    groups = [_bonds(molecule.rdkit) for molecule in molecules]
    bonds = list(chain.from_iterable(groups))
    stereo = [not molecule.flat for molecule in molecules]
    types = [
        map(Bond.GetBondType, group) if asked else map(_TYPE_OF_ORDER.__getitem__, map(Bond.GetBondTypeAsDouble, group))
        for group, asked in zip(groups, stereo, strict=True)
    ]
    table = _table(
        (
            map(Bond.GetBeginAtomIdx, bonds),
            map(Bond.GetEndAtomIdx, bonds),
            chain.from_iterable(types),
            _asked(Bond.GetStereo, groups, stereo),
            map(Bond.GetIsConjugated, bonds),
        ),
        len(bonds),
    )
    num_edges = [2 * len(group) for group in groups]
    ends = _split(_both_directions(table).T, num_edges)
    ids = _split(_OGB_BOND_CODES(table[:, 2:]).repeat(2, axis=0), num_edges)
    return [(_frozen(pairs.T), bonds) for pairs, bonds in zip(ends, ids, strict=True)]


def _asked(getter: Callable[[Any], int], groups: Sequence[Sequence[Any]], asked: Sequence[bool]) -> Iterable[int]:
    """One number for each atom or bond of all molecules: RDKit's where the molecule is asked, else 0."""
    return chain.from_iterable(
        map(getter, group) if ask else repeat(0, len(group)) for group, ask in zip(groups, asked, strict=True)
    )


def _bonds(rdkit: Any) -> list[Any]:
    return list(map(rdkit.GetBondWithIdx, range(rdkit.GetNumBonds())))


def _split(rows: IntArray, counts: Iterable[int]) -> list[IntArray]:
    """Consecutive rows as one read-only array for each molecule."""
    rows.setflags(write=False)
    ends = list(accumulate(counts, initial=0))
    return [rows[start:end] for start, end in pairwise(ends)]


def _frozen(array: IntArray) -> IntArray:
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array


def _table(columns: Sequence[Iterable[int]], num_rows: int) -> IntArray:
    """(num_rows, columns) from one iterable per column."""
    flat = np.fromiter(chain.from_iterable(columns), dtype=np.int64, count=len(columns) * num_rows)
    return flat.reshape(len(columns), num_rows).T


def _both_directions(bonds: IntArray) -> IntArray:
    """(2, 2 * bonds): begin -> end and end -> begin of every bond; the ends are columns 0 and 1 of `bonds`."""
    return bonds[:, [[0, 1], [1, 0]]].swapaxes(0, 1).reshape(2, -1)


def zinc_features(molecules: Sequence[Molecule]) -> list[MoleculeFeatures]:
    """ZINC's types of atoms and bonds; `UNKNOWN` for others, with a warning."""
    features = []
    for molecule in molecules:
        atoms, unknown = _zinc_atoms(molecule.rdkit)
        edge_index, bonds = _zinc_bonds(molecule.rdkit)
        strange = [f"atom type {', '.join(unknown)}"] if unknown else []
        strange += ["a type of bond"] if (bonds == UNKNOWN).any() else []
        warning = f"not in the ZINC vocabulary: {' and '.join(strange)}" if strange else ""
        features.append(MoleculeFeatures(_frozen(atoms), edge_index, bonds, warning))
    return features


def _zinc_atoms(rdkit: Any) -> tuple[IntArray, list[str]]:
    """(N, 1) atom types, and the names of those that ZINC does not have.

    A type names the hydrogens that a kekulized SMILES writes: those of a charged or chiral atom, which is in brackets.
    """
    names = []
    for atom in rdkit.GetAtoms():
        name, charge = atom.GetSymbol(), atom.GetFormalCharge()
        if (charge or atom.GetChiralTag()) and (hydrogens := atom.GetTotalNumHs()):
            name += f" H{hydrogens}"
        names.append(f"{name} {'+' if charge > 0 else '-'}" if charge else name)
    ids = np.array([_ZINC_ATOM_ID.get(name, UNKNOWN) for name in names], dtype=np.int64)
    return ids.reshape(-1, 1), sorted({name for name in names if name not in _ZINC_ATOM_ID})


def _zinc_bonds(rdkit: Any) -> tuple[IntArray, IntArray]:
    """(2, 2 * bonds) edges and (2 * bonds, 1) types of the kekulized molecule; `UNKNOWN` for a bond of another kind."""
    from rdkit.Chem import Bond, Kekulize

    Kekulize(rdkit, clearAromaticFlags=True)
    bonds = _bonds(rdkit)
    columns = map(Bond.GetBeginAtomIdx, bonds), map(Bond.GetEndAtomIdx, bonds), map(Bond.GetBondType, bonds)
    table = _table(columns, len(bonds))
    types = np.where((table[:, 2:] > 0) & (table[:, 2:] < len(ZINC_BONDS)), table[:, 2:], UNKNOWN)  # 0 is "no bond"
    return _frozen(_both_directions(table)), _frozen(types.repeat(2, axis=0))
