"""Molecules as graphs: SMILES -> atoms and bonds with OGB's features or the atom and bond types of ZINC.

Atoms keep the order they have in the SMILES string (explicit hydrogens are removed), and bond k gives the edges 2k
(begin -> end) and 2k + 1 (end -> begin).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Literal

import numpy as np

from egt.errors import DataError
from egt.graph import UNKNOWN, FeatureSchema, Graph, IntArray

MoleculeVocabulary = Literal["ogb", "zinc"]

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


def graph_from_smiles(
    smiles: str, *, vocabulary: MoleculeVocabulary = "ogb", id: str = "", **targets: Any
) -> tuple[Graph, str]:
    """The graph of a molecule.

    Args:
        smiles: the SMILES string.
        vocabulary: "ogb" gives nine atom and three bond features, equal to OGB's `smiles2graph`; "zinc" gives the
            28 atom types and 4 bond types of ZINC (kekulized: there is no aromatic bond).
        id: the name of the graph.
        **targets: target fields of the graph, as `graph_targets=[0.5]`.

    Returns:
        The graph, and a warning that is empty unless the molecule was read with reservations: relaxed sanitization
        (a valence that RDKit does not accept), or an atom that the vocabulary does not hold.

    Raises:
        DataError: if RDKit cannot read the SMILES even with relaxed sanitization; the message gives its reason.
    """
    molecule, warning = _parse(smiles)
    if vocabulary == "ogb":
        plain = _is_plain(smiles) is not None
        atoms = _ogb_atoms(molecule, plain)
        edge_index, bonds = _ogb_bonds(molecule, plain)
    else:
        atoms, unknown = _zinc_atoms(molecule)
        edge_index, bonds = _zinc_bonds(molecule)
        if unknown:
            reservation = f"atom type {', '.join(unknown)} is not in the ZINC vocabulary"
            warning = f"{warning}; {reservation}" if warning else reservation
    graph = Graph(
        num_nodes=len(atoms), edge_index=edge_index, node_categories=atoms, edge_categories=bonds, id=id, **targets
    )
    return graph, warning


def require_rdkit() -> Any:
    """The `rdkit.Chem` module.

    Raises:
        DataError: if RDKit is not installed.
    """
    try:
        from rdkit import Chem
    except ImportError as error:
        raise DataError('reading molecules needs RDKit; install it with: pip install "egt-graph[mol]"') from error
    return Chem


def _parse(smiles: str) -> tuple[Any, str]:
    """The RDKit molecule of a SMILES string, and a warning if only relaxed sanitization accepts it."""
    Chem = require_rdkit()
    from rdkit import rdBase

    if not smiles.strip():
        raise DataError("the SMILES string is empty")
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles)
    warning = ""
    if molecule is None:
        molecule, reason = _parse_relaxed(smiles, Chem)
        warning = f"read with relaxed sanitization: {reason}"
    if molecule.GetNumAtoms() == 0:
        raise DataError(f"SMILES {smiles!r} has no atoms")
    return molecule, warning


def _parse_relaxed(smiles: str, Chem: Any) -> tuple[Any, str]:
    """The molecule without the check of valences, and the reason why it needs that."""
    with _rdkit_messages() as messages:
        molecule = Chem.MolFromSmiles(smiles, sanitize=False)
    if molecule is None:
        raise DataError(f"SMILES {smiles!r} cannot be read: {_one_line(messages)}")
    with _rdkit_messages():
        reason = _one_line([problem.Message() for problem in Chem.DetectChemistryProblems(molecule)])
        try:
            molecule.UpdatePropertyCache(strict=False)
            Chem.SanitizeMol(molecule, Chem.SANITIZE_ALL ^ Chem.SANITIZE_PROPERTIES)
            molecule = Chem.RemoveHs(molecule, sanitize=False)
            Chem.AssignStereochemistry(molecule, cleanIt=True, force=True)
        except (ValueError, RuntimeError) as error:
            raise DataError(f"SMILES {smiles!r} cannot be read: {_one_line([str(error)])}") from error
    return molecule, reason


@contextmanager
def _rdkit_messages() -> Iterator[list[str]]:
    """Collect what RDKit would write to the standard error, and write none of it."""
    from rdkit import rdBase

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
    """The first message that says something, without RDKit's clock."""
    lines = (re.sub(r"^\[[0-9:]+\]\s*", "", " ".join(message.split())) for message in messages)
    return next(filter(None, lines), "RDKit gives no reason")


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
        return ids


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


# A SMILES of these characters has no bracket atom and no stereo mark. Then charge, radicals, chirality and bond stereo
# are 0 and a bond's order tells its type, so the slow calls (RDKit's enumerations) can be left out.
_is_plain = re.compile(r"[A-Za-z0-9()=#%.:-]+").fullmatch


def _ogb_atoms(molecule: Any, plain: bool) -> IntArray:
    """(N, 9) category ids of the atoms."""
    # By number: RDKit's own iterators cost twice as much.
    atoms = map(molecule.GetAtomWithIdx, range(molecule.GetNumAtoms()))
    rows: list[tuple[int, ...]]
    if plain:
        rows = [
            (
                atom.GetAtomicNum(),
                0,
                atom.GetTotalDegree(),
                0,
                atom.GetTotalNumHs(),
                0,
                atom.GetHybridization(),
                atom.GetIsAromatic(),
                atom.IsInRing(),
            )
            for atom in atoms
        ]
    else:
        rows = [
            (
                atom.GetAtomicNum(),
                atom.GetChiralTag(),
                atom.GetTotalDegree(),
                atom.GetFormalCharge(),
                atom.GetTotalNumHs(),
                atom.GetNumRadicalElectrons(),
                atom.GetHybridization(),
                atom.GetIsAromatic(),
                atom.IsInRing(),
            )
            for atom in atoms
        ]
    return _OGB_ATOM_CODES(_table(rows, 9))


def _ogb_bonds(molecule: Any, plain: bool) -> tuple[IntArray, IntArray]:
    """(2, 2 * bonds) edges and their (2 * bonds, 3) category ids."""
    bonds = map(molecule.GetBondWithIdx, range(molecule.GetNumBonds()))
    rows: list[tuple[int, ...]]
    if plain:
        rows = [
            (
                bond.GetBeginAtomIdx(),
                bond.GetEndAtomIdx(),
                _TYPE_OF_ORDER[bond.GetBondTypeAsDouble()],
                0,
                bond.GetIsConjugated(),
            )
            for bond in bonds
        ]
    else:
        rows = [
            (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), bond.GetBondType(), bond.GetStereo(), bond.GetIsConjugated())
            for bond in bonds
        ]
    table = _table(rows, 5)
    return _both_directions(table), _OGB_BOND_CODES(table[:, 2:]).repeat(2, axis=0)


def _table(rows: Sequence[tuple[int, ...]], width: int) -> IntArray:
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=len(rows) * width).reshape(-1, width)


def _both_directions(bonds: IntArray) -> IntArray:
    """(2, 2 * bonds): begin -> end and end -> begin of every bond; the ends are columns 0 and 1 of `bonds`."""
    return bonds[:, [0, 1, 1, 0]].reshape(-1, 2).T


def _zinc_atoms(molecule: Any) -> tuple[IntArray, list[str]]:
    """(N, 1) atom types, and the names of those that ZINC does not have.

    A type names the hydrogens that a kekulized SMILES writes: those of a charged or chiral atom, which is in brackets.
    """
    names = []
    for atom in molecule.GetAtoms():
        name, charge = atom.GetSymbol(), atom.GetFormalCharge()
        if (charge or atom.GetChiralTag()) and (hydrogens := atom.GetTotalNumHs()):
            name += f" H{hydrogens}"
        names.append(f"{name} {'+' if charge > 0 else '-'}" if charge else name)
    ids = np.array([_ZINC_ATOM_ID.get(name, UNKNOWN) for name in names], dtype=np.int64)
    return ids.reshape(-1, 1), sorted({name for name in names if name not in _ZINC_ATOM_ID})


def _zinc_bonds(molecule: Any) -> tuple[IntArray, IntArray]:
    """(2, 2 * bonds) edges and (2 * bonds, 1) types of the kekulized molecule; `UNKNOWN` for a bond of another kind."""
    require_rdkit().Kekulize(molecule, clearAromaticFlags=True)
    rows = [
        (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), bond.GetBondType())
        for bond in map(molecule.GetBondWithIdx, range(molecule.GetNumBonds()))
    ]
    table = _table(rows, 3)
    types = np.where(table[:, 2:] < len(ZINC_BONDS), table[:, 2:], UNKNOWN)
    return _both_directions(table), types.repeat(2, axis=0)
