"""Molecules as graphs: SMILES -> atoms and bonds with OGB's features or the atom and bond types of ZINC.

Where atoms are is said by the text (CXSMILES), or RDKit places them in space (ETKDG).

Atoms keep the order they have in the SMILES string (explicit hydrogens are removed), and bond k gives the edges 2k
(begin -> end) and 2k + 1 (end -> begin). What a model computes would still depend on that order in two places: chiral
tags refer to the order of the neighbors, and the basis of equal singular values to the order of the atoms. A graph that
is read `canonical` has R and S in place of tags, and RDKit's canonical ranks of its atoms for such bases.

Many molecules are read at once from RDKit's binary form, by `native/csrc/molecules.cpp`: one call of RDKit gives all
about a molecule in this form; asking atom by atom takes five times as long. Numbers of several bytes are from low to
high, and the form is

    20 bytes     mark, 0, and the three parts of the version of the form
    4 + 4 + 1    number of atoms, number of bonds, flags
    1 + atoms    tag; each atom: atomic number, flags, 4 bytes for which fields it has, these fields
    1 + bonds    tag; each bond: begin, end, flags for what it has of type, direction and stereo
    1 + 4 + rings    tag, number of rings; each ring: number of atoms, atoms

Versions 16.2 to 16.4 are read, of molecules of up to 254 atoms, whose numbers take one byte. RDKit raises the version
with every change; the source of 16.2 and what 16.4 writes agree in all that is used here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from egt.errors import DataError, EgtError, require_extra
from egt.graph import UNKNOWN, FeatureSchema, FloatArray, Graph, IntArray, target_array
from egt.native.library import library

PlacedBy = Literal["file", "rdkit"]

MOST_CONFORMERS = 32

_SEED = 42  # conformers are the same in every run
_TRIALS = 20  # RDKit's own limit grows with the molecule, and a peptide would take minutes


class Placement(NamedTuple):
    """Where the positions of atoms come from, and the shape of one: (3,), or (conformers, 3)."""

    by: PlacedBy
    shape: tuple[int, ...]


def positions_of(molecule: Any, placement: Placement) -> tuple[NDArray[np.float32], str]:
    """Return the positions (N, ...) of an RDKit molecule, which loses them, and why they are not known (NaN), or ""."""
    found = _read_coordinates(molecule) if placement.by == "file" else _embed(molecule, *placement.shape[:-1])
    molecule.RemoveAllConformers()
    count = molecule.GetNumAtoms()
    if found is None:
        what = "no coordinates are given" if placement.by == "file" else "RDKit finds no conformer"
        return _freeze(np.full((count, *placement.shape), np.nan, np.float32)), f"{what}: distances count as unknown"
    return _freeze(found.swapaxes(0, 1).reshape(count, *placement.shape).astype(np.float32)), ""


def with_coordinates(molecule: Any) -> str | None:
    """Return the text of an RDKit molecule with its coordinates, hydrogen atoms and all; None if it is flat."""
    if not _has_coordinates(molecule):
        return None
    chem = require_rdkit()
    text: str = chem.MolToCXSmiles(molecule, chem.SmilesWriteParams(), chem.CXSmilesFields.CX_COORDS)
    return text


def _has_coordinates(molecule: Any) -> bool:
    return bool(molecule.GetNumConformers()) and molecule.GetConformer().Is3D()


def _read_coordinates(molecule: Any) -> NDArray[np.float64] | None:
    """(1, N, 3) the coordinates that came with the text."""
    if not _has_coordinates(molecule):
        return None
    places: NDArray[np.float64] = molecule.GetConformer().GetPositions()
    return places[None]


def _embed(molecule: Any, count: int = 1) -> NDArray[np.float64] | None:
    """(C, N, 3) conformers by ETKDG, the same for every spelling of the molecule; None where there is none.

    The random start follows the order of the atoms, so the canonical SMILES is embedded.
    """
    Chem = require_rdkit()
    from rdkit.Chem.rdDistGeom import EmbedMultipleConfs, ETKDGv3

    for atom in molecule.GetAtoms():
        atom.SetIntProp("place", atom.GetIdx())
    bare = Chem.RemoveHs(molecule)
    again = Chem.MolFromSmiles(Chem.MolToSmiles(bare))
    if again is None or again.GetNumAtoms() != bare.GetNumAtoms():
        return None
    order = list(bare.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"])
    heavy = [bare.GetAtomWithIdx(k).GetIntProp("place") for k in order]  # which atom of the molecule each of `again` is
    full = Chem.AddHs(again)
    settings: Any = ETKDGv3()
    settings.randomSeed, settings.maxIterations = _SEED, _TRIALS
    found: list[int] = []
    with Chem.rdBase.BlockLogs(), suppress(RuntimeError):  # of an atom without an element, and the like
        for settings.useRandomCoords in (False, True):
            found = found or list(EmbedMultipleConfs(full, count, settings))
    if not found:
        return None
    conformers = np.stack([full.GetConformer(found[k % len(found)]).GetPositions() for k in range(count)])
    places = np.full((count, molecule.GetNumAtoms(), 3), np.nan)
    places[:, heavy] = conformers[:, : len(heavy)]
    for k, atom in enumerate(heavy):
        own = _hydrogens(molecule.GetAtomWithIdx(atom), heavy)
        there = _hydrogens(full.GetAtomWithIdx(k), range(len(heavy)))
        places[:, own] = conformers[:, there[: len(own)]]
    return places


def _hydrogens(atom: Any, others: Sequence[int]) -> list[int]:
    return [each.GetIdx() for each in atom.GetNeighbors() if each.GetIdx() not in others]


_LONGEST = 520
"""No atom, bond or ring takes more bytes: so many behind the last molecule keep every look inside the array."""


class RawNumbers(NamedTuple):
    """What RDKit says about the atoms and bonds of some molecules, one molecule below another.

    Fields:
        atoms: (sum of num_atoms, 9) atomic number, chiral tag, degree with hydrogens, charge, hydrogens,
            radical electrons, hybridization, aromatic, in a ring.
    """

    readable: NDArray[np.bool_]  # (M,) False where a molecule has something that is not known here; it then has no rows
    num_atoms: IntArray  # (M,) rows of each molecule in `atoms`
    num_bonds: IntArray  # (M,) rows of each molecule in `bonds`
    atoms: IntArray
    bonds: IntArray  # (sum of num_bonds, 5) begin, end, type, stereo, conjugated


def binary_form(molecule: Any) -> bytes:
    """Return the binary form of an RDKit molecule."""
    form: bytes = molecule.ToBinary(0)  # 0: without the properties that users may add
    return form


def raw_numbers(forms: Sequence[bytes]) -> RawNumbers:
    """Return the raw numbers of molecules from their binary forms; without a compiler none is readable."""
    count, native = len(forms), library()
    readable, num_atoms, num_bonds = np.zeros(count, np.bool_), np.zeros(count, np.int64), np.zeros(count, np.int64)
    if native is None:
        return RawNumbers(readable, num_atoms, num_bonds, np.zeros((0, 9), np.int64), np.zeros((0, 5), np.int64))
    ends = np.cumsum([len(form) for form in forms], dtype=np.int64)
    data = b"".join([*forms, bytes(_LONGEST)])
    native.egt_count_molecules(count, data, ends.ctypes.data, num_atoms.ctypes.data, num_bonds.ctypes.data)
    atoms, bonds = np.zeros((num_atoms.sum(), 9), np.int64), np.zeros((num_bonds.sum(), 5), np.int64)
    filled = (readable, num_atoms, num_bonds, atoms, bonds)
    native.egt_read_molecules(count, data, ends.ctypes.data, *(array.ctypes.data for array in filled))
    return RawNumbers(readable, num_atoms, num_bonds, atoms[: num_atoms.sum()], bonds[: num_bonds.sum()])


RDKIT_ERRORS = (RuntimeError, ValueError, ArithmeticError, LookupError, SystemError)
"""What calls of RDKit raise for a molecule that they cannot handle: which kind depends on the call and the version."""

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

OGB_VOCABULARY = {**OGB_ATOM_FEATURES, **OGB_BOND_FEATURES}

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

    A column has its raw values in the order of their ids; every other value gets the last id, which is "misc" where the
    vocabulary ends with a raw value of None.
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
        """Return the ids of (rows, columns) raw values."""
        ids: IntArray = self.table[np.minimum(np.maximum(raw, self.low), self.high) + self.offset]
        return np.ascontiguousarray(ids)


OGB_ATOM_CODES: tuple[tuple[int | None, ...], ...] = (
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

OGB_BOND_CODES: tuple[tuple[int | None, ...], ...] = ((1, 2, 3, 12, None), (0, 2, 3, 4, 5, 1), (0, 1))
"""The raw values of RDKit (chiral tag, hybridization, bond type and stereo are enumerations) in the order of OGB's ids.

Every other value has the last id.
"""

OGB_ATOM_METHODS = (
    *("GetAtomicNum", "GetChiralTag", "GetTotalDegree", "GetFormalCharge", "GetTotalNumHs"),
    *("GetNumRadicalElectrons", "GetHybridization", "GetIsAromatic", "IsInRing"),
)

OGB_BOND_METHODS = ("GetBondType", "GetStereo", "GetIsConjugated")
"""The methods of RDKit's atoms and bonds that give these values."""

_ogb_atom_ids, _ogb_bond_ids = _Codes(*OGB_ATOM_CODES), _Codes(*OGB_BOND_CODES)

CHIRALITY = list(OGB_ATOM_FEATURES).index("chirality")  # its column in the features of atoms
_CIP = {"R": 1, "S": 2}
"""The categories of labels: those of the tags "clockwise" and "counterclockwise" in the authors' reading."""


class MoleculeFeatures(NamedTuple):
    """The arrays of a molecule's graph, read-only, and a warning if they do not say all about it."""

    atoms: IntArray  # (N, F) category ids of the atoms
    edge_index: IntArray  # (2, 2 * bonds) both directions of each bond
    bonds: IntArray  # (2 * bonds, F) category ids of the edges
    warning: str = ""


def ogb_features(forms: Sequence[bytes]) -> list[MoleculeFeatures | DataError]:
    """OGB's nine atom and three bond features of molecules in RDKit's binary form; an error where RDKit has none."""
    raw = raw_numbers(forms)
    features: list[MoleculeFeatures | DataError] = [*_encode(raw.num_atoms, raw.num_bonds, raw.atoms, raw.bonds)]
    for k in np.flatnonzero(~raw.readable).tolist():
        try:
            features[k] = features_atom_by_atom(require_rdkit().Mol(forms[k]))
        except RDKIT_ERRORS as error:
            features[k] = DataError(f"the features of the molecule cannot be computed: {reason_of(error)}")
    return features


def features_atom_by_atom(molecule: Any) -> MoleculeFeatures:
    """Return OGB's features of any molecule, by a call of RDKit for each atom and feature, which is slow."""
    atoms = [[getattr(atom, method)() for method in OGB_ATOM_METHODS] for atom in molecule.GetAtoms()]
    bonds = [
        [bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), *(getattr(bond, method)() for method in OGB_BOND_METHODS)]
        for bond in molecule.GetBonds()
    ]
    atom_rows, bond_rows = np.array(atoms, np.int64).reshape(-1, 9), np.array(bonds, np.int64).reshape(-1, 5)
    return _encode([len(atoms)], [len(bonds)], atom_rows, bond_rows)[0]


class Canonical(NamedTuple):
    """What is the same for all ways to write a molecule."""

    ranks: IntArray  # (N,) a numbering of the atoms
    chirality: Mapping[int, int]  # the category of each chiral center


def canonical_numbers(molecule: Any, Chem: Any, *, chiral: bool) -> Canonical:
    """Return RDKit's canonical numbering of a molecule, and its `chiral` centers as R, S or relative to each other.

    RDKit's chiral tag follows the order of the bonds of an atom, so another spelling has another tag. R and S do not.
    A center without them, as in cis-1,4-dimethylcyclohexane, takes its tag from the canonical SMILES.
    """
    ranks = np.fromiter(_items(Chem.CanonicalRankAtoms(molecule)), np.int64, molecule.GetNumAtoms())
    chirality: dict[int, int] = {}
    relative = []
    for atom in _items(molecule.GetAtomsMatchingQuery(Chem.rdqueries.HasChiralTagQueryAtom())) if chiral else ():
        if atom.HasProp("_CIPCode"):
            chirality[atom.GetIdx()] = _CIP[atom.GetProp("_CIPCode")]
        elif int(atom.GetChiralTag()) in _CIP.values():
            relative.append(atom.GetIdx())
    if relative:  # the tags of the atoms in the canonical SMILES, whose order numbers the atoms
        again = Chem.MolFromSmiles(Chem.MolToSmiles(molecule), sanitize=False)
        order = np.array(molecule.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"], np.int64)
        ranks[order] = np.arange(len(order))
        chirality |= {k: int(again.GetAtomWithIdx(int(ranks[k])).GetChiralTag()) for k in relative}
    return Canonical(_freeze(ranks), chirality)


def _items(found: Any) -> Iterator[Any]:
    """Yield the items of a sequence of RDKit, whose own iterators take five times as long."""
    return map(found.__getitem__, range(len(found)))


def reason_of(error: Exception) -> str:
    """Return what RDKit says about an error, in one line: its first lines, in front of those for its developers."""
    said = str(error).split("Violation occurred", 1)[0]
    return " ".join(said.split()) or type(error).__name__


def _encode(
    num_atoms: Iterable[int], num_bonds: Iterable[int], atoms: IntArray, bonds: IntArray
) -> list[MoleculeFeatures]:
    """Return the features of some molecules from the numbers that `RawNumbers` explains."""
    num_edges = [2 * int(number) for number in num_bonds]
    parts = zip(
        _split(_ogb_atom_ids(atoms), map(int, num_atoms)),
        _split(_both_directions(bonds).T, num_edges),
        _split(_ogb_bond_ids(bonds[:, 2:]).repeat(2, axis=0), num_edges),
        strict=True,
    )
    return [MoleculeFeatures(of_atoms, _freeze(pairs.T), of_edges) for of_atoms, pairs, of_edges in parts]


def _split(rows: IntArray, counts: Iterable[int]) -> list[IntArray]:
    """Consecutive rows as one read-only array for each molecule."""
    rows.setflags(write=False)
    ends = list(accumulate(counts, initial=0))
    return [rows[start:end] for start, end in pairwise(ends)]


_Number = TypeVar("_Number", np.int64, np.float32)


def _freeze(array: NDArray[_Number]) -> NDArray[_Number]:
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array


def _both_directions(bonds: IntArray) -> IntArray:
    """(2, 2 * bonds): begin -> end and end -> begin of every bond; the ends are columns 0 and 1 of `bonds`."""
    return bonds[:, [[0, 1], [1, 0]]].swapaxes(0, 1).reshape(2, -1)


def zinc_features(molecule: Any) -> MoleculeFeatures:
    """ZINC's types of atoms and bonds of an RDKit molecule; `UNKNOWN` for others, with a warning.

    An atom's type names the hydrogens that a kekulized SMILES writes: those of a charged or chiral atom, which is in
    brackets.
    """
    names = []
    for atom in molecule.GetAtoms():
        name, charge = atom.GetSymbol(), atom.GetFormalCharge()
        if (charge or atom.GetChiralTag()) and (hydrogens := atom.GetTotalNumHs()):
            name += f" H{hydrogens}"
        names.append(f"{name} {'+' if charge > 0 else '-'}" if charge else name)
    atoms = np.array([_ZINC_ATOM_ID.get(name, UNKNOWN) for name in names], np.int64).reshape(-1, 1)
    require_rdkit().Kekulize(molecule, clearAromaticFlags=True)
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), bond.GetBondType()) for bond in molecule.GetBonds()]
    table = np.array(bonds, np.int64).reshape(-1, 3)
    types = np.where((table[:, 2:] > 0) & (table[:, 2:] < len(ZINC_BONDS)), table[:, 2:], UNKNOWN)  # 0 is "no bond"
    unknown = sorted({name for name in names if name not in _ZINC_ATOM_ID})
    strange = [f"atom type {', '.join(unknown)}"] if unknown else []
    strange += ["a type of bond"] if (types == UNKNOWN).any() else []
    warning = f"not in the ZINC vocabulary: {' and '.join(strange)}" if strange else ""
    edge_index, of_edges = _freeze(_both_directions(table)), _freeze(types.repeat(2, axis=0))
    return MoleculeFeatures(_freeze(atoms), edge_index, of_edges, warning)


MoleculeVocabulary = Literal["ogb", "zinc"]
_BRACKET = re.compile(r"\[\d*(\*|[A-Z][a-z]?|se|as|te|[bcnops])?[^\]\n]*\]")

_NO_ELEMENT = re.compile(r"\[\d*#(119|1[2-9]\d|[2-9]\d\d|\d{4,})")
"""An atomic number beyond the last element; RDKit keeps the lowest eight bits and takes [#300] for ruthenium."""

_ONE_LETTER = frozenset("BCNOPSFI*bcnops")
_TWO_LETTERS = ("Br", "Cl")

_PARSED_AT_ONCE = 16
"""Molecules in memory together: of more, some have left the caches when they are freed, which then takes longer."""

is_flat = re.compile(r"(?:[A-Za-z0-9()=#%.:-]|\[(?:[BCNOPSFIbcnops]|Cl|Br)H?\d?[+-]?\d?\])+").fullmatch
"""Whether a SMILES has no stereo mark, no hydrogen atom, no metal and no unusual bond."""


def graph_from_smiles(
    smiles: str,
    *,
    vocabulary: MoleculeVocabulary = "ogb",
    canonical: bool = False,
    hydrogens: bool = False,
    placement: Placement | None = None,
    id: str = "",
    graph_targets: ArrayLike | None = None,
) -> tuple[Graph, str]:
    """Return the graph of a molecule.

    Args:
        smiles: the SMILES string.
        vocabulary: "ogb" gives nine atom and three bond features, equal to OGB's `smiles2graph`; "zinc" gives the
            28 atom types and 4 bond types of ZINC (kekulized: there is no aromatic bond).
        canonical: give every spelling of a molecule the same answers; False equals OGB's reading to the letter.
        hydrogens: make every hydrogen atom a node.
        placement: where the `positions` of the atoms come from; None for none.
        id: the name of the graph.
        graph_targets: (T,) the targets; NaN marks a missing label.

    Returns:
        The graph, and a warning that is empty unless the molecule was read with reservations: relaxed sanitization
        (a valence that RDKit does not accept), or an atom that the vocabulary does not hold.

    Raises:
        DataError: if RDKit cannot read the SMILES even with relaxed sanitization; the message gives its reason.
        GraphError: if the targets are not numbers.
    """
    [result] = graphs_from_smiles(
        [smiles],
        vocabulary=vocabulary,
        canonical=canonical,
        hydrogens=hydrogens,
        placement=placement,
        ids=[id],
        graph_targets=[graph_targets],
    )
    if isinstance(result, EgtError):
        raise result
    return result


def graphs_from_smiles(
    smiles: Sequence[str],
    *,
    vocabulary: MoleculeVocabulary = "ogb",
    canonical: bool = False,
    hydrogens: bool = False,
    placement: Placement | None = None,
    ids: Sequence[str],
    graph_targets: Sequence[ArrayLike | None],
) -> list[tuple[Graph, str] | EgtError]:
    """`graph_from_smiles` of many molecules, with what it would raise in the place of those that cannot be read.

    Parsing is done for some, then features for all, then graphs: RDKit is large, and the processor's caches hold one
    step, and the molecules of some.
    """
    Chem = require_rdkit()
    read: list[_Extract] = []
    for start in range(0, len(smiles), _PARSED_AT_ONCE):
        texts = smiles[start : start + _PARSED_AT_ONCE]
        for text, (each, warning) in zip(texts, parse_smiles(texts, hydrogens=hydrogens), strict=True):
            if isinstance(each, EgtError):
                read.append(_Extract(each))
            else:
                read.append(_extract(each, Chem, text, vocabulary, canonical, placement, warning))
    good = [each.form for each in read if not isinstance(each.form, EgtError)]
    features = iter(ogb_features(good) if vocabulary == "ogb" else good)
    results: list[tuple[Graph, str] | EgtError] = []
    for extract, name, targets in zip(read, ids, graph_targets, strict=True):
        found = extract.form if isinstance(extract.form, EgtError) else next(features)
        try:
            if isinstance(found, EgtError):
                raise found
            graph = _graph(found, extract.common, extract.positions, targets, name)
            results.append((graph, "; ".join(filter(None, (extract.warning, found.warning)))))
        except EgtError as error:
            results.append(error)
    return results


class _Extract(NamedTuple):
    """What is kept of an RDKit molecule: its binary form, from which many are read at once, or its features."""

    form: Any  # bytes, MoleculeFeatures or an error
    common: Canonical | None = None  # what is the same for all its spellings, if it is to be read so
    positions: FloatArray | None = None
    warning: str = ""


def _extract(
    molecule: Any,
    Chem: Any,
    smiles: str,
    vocabulary: MoleculeVocabulary,
    is_canonical: bool,
    placement: Placement | None,
    warning: str,
) -> _Extract:
    try:
        positions, why = (None, "") if placement is None else positions_of(molecule, placement)
        common = canonical_numbers(molecule, Chem, chiral="@" in smiles) if is_canonical else None
        form = zinc_features(molecule) if vocabulary == "zinc" else binary_form(molecule)
        return _Extract(form, common, positions, "; ".join(filter(None, (warning, why))))
    except RDKIT_ERRORS as error:
        return _Extract(_unreadable(smiles, reason_of(error)))


def _graph(
    features: MoleculeFeatures,
    common: Canonical | None,
    positions: FloatArray | None,
    graph_targets: ArrayLike | None,
    id: str,
) -> Graph:
    """Build the graph of a molecule. RDKit has no parallel bonds, so only the targets are checked."""
    atoms = features.atoms
    if common is not None and common.chirality and atoms.shape[1] > CHIRALITY:
        atoms = atoms.copy()
        atoms[list(common.chirality), CHIRALITY] = list(common.chirality.values())
        atoms = _freeze(atoms)
    targets = target_array(graph_targets, None, f"graph {id!r}: graph_targets")
    if targets is not None:
        targets = targets.view()
        targets.setflags(write=False)
    return Graph.trusted(
        num_nodes=len(atoms),
        edge_index=features.edge_index,
        node_categories=atoms,
        node_values=np.empty((len(atoms), 0), np.float32),
        edge_categories=features.bonds,
        edge_values=np.empty((len(features.bonds), 0), np.float32),
        graph_values=np.empty(0, np.float32),
        positions=positions,
        edge_weight=None,
        graph_targets=targets,
        node_targets=None,
        edge_targets=None,
        query_index=None,
        ranks=None if common is None else common.ranks,
        id=id,
    )


def require_rdkit() -> Any:
    """Return the `rdkit.Chem` module, or raise a `DataError` where RDKit is not installed."""
    with require_extra("mol", "reading molecules needs RDKit", DataError):
        import rdkit.Chem.rdqueries
    return rdkit.Chem


def parse_smiles(smiles: Sequence[str], *, hydrogens: bool = False) -> list[tuple[Any, str]]:
    """Return the RDKit molecule of each SMILES string, or a `DataError`; and a warning if it was read relaxed.

    With `hydrogens` all of them are atoms, behind those that the text writes; otherwise none is that can be left out.
    """
    Chem = require_rdkit()
    flat = [not hydrogens and is_flat(text) is not None for text in smiles]
    with Chem.rdBase.BlockLogs():
        strict = [_parse_strict(text, Chem, flat=f, hydrogens=hydrogens) for text, f in zip(smiles, flat, strict=True)]
    results: list[tuple[Any, str]] = []
    for text, is_plain, molecule in zip(smiles, flat, strict, strict=True):
        warning = ""
        try:
            if not text.strip():
                raise DataError("the SMILES string is empty")
            if not is_plain and (found := _NO_ELEMENT.search(without_name(text))):
                raise _unreadable(text, f"no element has the atomic number {found[1]}")
            if molecule is None:
                molecule, reason = _parse_relaxed(text, Chem, hydrogens=hydrogens)
                warning = f"read with relaxed sanitization: {reason}"
            if molecule.GetNumAtoms() == 0:
                raise DataError(f"SMILES {text!r} has no atoms")
            if hydrogens:
                molecule = Chem.AddHs(molecule, addCoords=molecule.GetNumConformers() > 0)
        except DataError as error:
            results.append((error, ""))
        except RDKIT_ERRORS as error:
            results.append((_unreadable(text, reason_of(error)), ""))
        else:
            results.append((molecule, warning))
    return results


def _parse_strict(smiles: str, Chem: Any, *, flat: bool, hydrogens: bool = False) -> Any:
    """Return the molecule that RDKit accepts as it is, or None.

    For a flat SMILES this is `MolFromSmiles` without its steps for hydrogen atoms and stereo marks.
    """
    try:
        if hydrogens:
            settings = Chem.SmilesParserParams()
            settings.removeHs = False
            return Chem.MolFromSmiles(smiles, settings)
        molecule = Chem.MolFromSmiles(smiles, sanitize=not flat)
        if not flat or molecule is None:
            return molecule
        return molecule if Chem.SanitizeMol(molecule, catchErrors=True) == Chem.SANITIZE_NONE else None
    except RDKIT_ERRORS:
        return None


def parse_or_none(smiles: str) -> Any:
    """Return the RDKit molecule of a SMILES string that RDKit accepts as it is; None for any other text."""
    return _parse_strict(smiles, require_rdkit(), flat=False)


def canonical_smiles(texts: Iterable[str]) -> list[str]:
    """Return RDKit's spelling of each molecule; "" where RDKit does not accept a text as it is."""
    chem = require_rdkit()
    with chem.rdBase.BlockLogs():
        molecules = [parse_or_none(text) if text and text.isascii() else None for text in texts]
        return ["" if molecule is None else chem.MolToSmiles(molecule) for molecule in molecules]


def _parse_relaxed(smiles: str, Chem: Any, *, hydrogens: bool) -> tuple[Any, str]:
    """Return the molecule without the check of valences, and the reason why it needs that."""
    with _rdkit_messages() as messages:
        try:
            molecule = Chem.MolFromSmiles(smiles, sanitize=False)
            if molecule is None:
                raise _unreadable(smiles, _one_line(messages))
            reason = _one_line([problem.Message() for problem in Chem.DetectChemistryProblems(molecule)])
            molecule.UpdatePropertyCache(strict=False)
            if not hydrogens:
                molecule = Chem.RemoveHs(molecule, sanitize=False)
                molecule.UpdatePropertyCache(strict=False)  # the hydrogens that went are now implicit ones
            Chem.SanitizeMol(molecule, Chem.SANITIZE_ALL ^ Chem.SANITIZE_PROPERTIES)
            Chem.AssignStereochemistry(molecule, cleanIt=True, force=True)
        except SystemError as error:  # RDKit cut its message inside of a character
            raise _unreadable(smiles, "it holds characters that no SMILES has") from error
        except RDKIT_ERRORS as error:
            raise _unreadable(smiles, _one_line([reason_of(error)])) from error
    return molecule, reason


def _unreadable(smiles: str, reason: str) -> DataError:
    return DataError(f"SMILES {smiles.partition(' |')[0]!r} cannot be read: {reason}")


@contextmanager
def _rdkit_messages() -> Iterator[list[str]]:
    """Collect what RDKit would write to the standard error, and write none of it."""
    rdBase = require_rdkit().rdBase
    collected: list[str] = []
    logger = logging.getLogger("rdkit")
    handler = logging.Handler()
    handler.emit = lambda record: collected.append(record.getMessage())  # type: ignore[method-assign]
    handlers, propagate = logger.handlers[:], logger.propagate
    logger.handlers, logger.propagate = [handler], False
    rdBase.LogToPythonLogger()
    try:
        yield collected
    finally:
        rdBase.LogToCppStreams()
        logger.handlers, logger.propagate = handlers, propagate


def _one_line(messages: list[str]) -> str:
    """Return the first message that says something, without RDKit's clock."""
    lines = (re.sub(r"^\[[0-9:]+\]\s*", "", " ".join(message.split())) for message in messages)
    return next(filter(None, lines), "RDKit gives no reason")


def without_name(smiles: str) -> str:
    """Return the molecule of a text that may have a name or other remarks behind it: `CCO ethanol`."""
    return next(iter(smiles.split(maxsplit=1)), "")


def elements_of(smiles: Iterable[str]) -> set[str]:
    """Return the symbols of all atoms of some molecules, `*` for any atom, except hydrogen.

    The text is not read as a molecule: half a million rows take a second.
    """
    text = "\n".join(map(without_name, smiles))
    found = {symbol.capitalize() for symbol in set(_BRACKET.findall(text))} if "[" in text else set()
    plain = _BRACKET.sub("", text) if "[" in text else text
    for symbol in _TWO_LETTERS:
        if symbol in plain:
            found.add(symbol)
            plain = plain.replace(symbol, "")
    found |= {letter.upper() for letter in _ONE_LETTER & set(plain)}
    return found - {"H", ""}
