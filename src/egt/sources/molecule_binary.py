"""RDKit's binary form of molecules -> their raw numbers, many at once. Compiled by numba when imported.

One call of RDKit gives all about a molecule in this form; asking atom by atom takes five times as long.
The form, with numbers of several bytes from low to high:

    20 bytes     mark, 0, and the three parts of the version of the form
    4 + 4 + 1    number of atoms, number of bonds, flags
    1 + atoms    tag; each atom: atomic number, flags, 4 bytes that tell which fields it has, these fields
    1 + bonds    tag; each bond: begin, end, flags, which tell what it has of type, direction and stereo
    1 + 4 + rings    tag, number of rings; each ring: number of atoms, atoms
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from egt.graph import IntArray
from egt.jit import compiled

Bytes = NDArray[np.uint8]

MAJOR, MINORS = 16, (2, 4)
"""The versions of the form that are read here, the minor one from the first number to the second.

RDKit raises it with every change; the source of 16.2 and what 16.4 writes agree in all that is used here.
"""
_LARGEST = 254
"""Molecules of up to this many atoms number them in one byte."""
_LONGEST = 520
"""No atom, bond or ring takes more bytes: so many behind the last molecule keep every look inside the array."""
_HEADER = 29
_BEGIN_ATOMS, _BEGIN_BONDS, _BEGIN_RINGS = 1, 11, 66
_SP3, _SINGLE = 4, 1


class RawNumbers(NamedTuple):
    """What RDKit says about the atoms and bonds of some molecules, one molecule below another.

    Fields:
        readable: (M,) False where a molecule has something that is not known here; it then has no rows.
        num_atoms: (M,) rows of each molecule in `atoms`.
        num_bonds: (M,) rows of each molecule in `bonds`.
        atoms: (sum of num_atoms, 9) atomic number, chiral tag, degree with hydrogens, charge, hydrogens, radical
            electrons, hybridization, aromatic, in a ring.
        bonds: (sum of num_bonds, 5) begin, end, type, stereo, conjugated.
    """

    readable: NDArray[np.bool_]
    num_atoms: IntArray
    num_bonds: IntArray
    atoms: IntArray
    bonds: IntArray


def binary_form(molecule: Any) -> bytes:
    """Return the binary form of an RDKit molecule."""
    form: bytes = molecule.ToBinary(0)  # 0: without the properties that users may add
    return form


def raw_numbers(forms: Sequence[bytes]) -> RawNumbers:
    """Return the raw numbers of molecules from their binary forms."""
    ends = np.cumsum([len(form) for form in forms], dtype=np.int64)
    data = np.frombuffer(bytearray().join([*forms, bytes(_LONGEST)]), np.uint8)
    return RawNumbers(*_read(data, ends))


@compiled(numba.int64(numba.uint8[::1], numba.int64))
def _number(data: Bytes, at: int) -> int:
    number: int = data[at] + (data[at + 1] << 8) + (data[at + 2] << 16) + (data[at + 3] << 24)
    return number


@compiled(numba.int64(numba.uint8[::1], numba.int64, numba.int64, numba.int64[:, ::1]))
def _read_atoms(data: Bytes, at: int, end: int, atoms: IntArray) -> int:
    """Fill the rows of the atoms, except rings and bonds; returns where the bonds begin, or -1."""
    for row in atoms:
        flags, fields = data[at + 1], _number(data, at + 2)
        if flags & ~0x60 or fields & ~0x1FE or at > end:  # a query, a number of a map, a label, a residue
            return -1
        row[0] = data[at]
        row[6] = _SP3
        row[7] = flags >> 6 & 1
        at += 6
        if fields & 1 << 1:
            row[3] = np.int8(data[at])
            at += 1
        if fields & 1 << 2:
            row[1] = data[at]
            at += 1
        if fields & 1 << 3:
            row[6] = data[at]
            at += 1
        if fields & 1 << 4:
            row[4] += data[at]
            at += 1
        at += fields >> 5 & 1  # the valence of its bonds
        if fields & 1 << 6:
            row[4] += (
                0 if flags & 1 << 5 else data[at]
            )  # what its valence leaves for hydrogens, unless it is in brackets
            at += 1
        if fields & 1 << 7:
            row[5] = data[at]
            at += 1
        at += (fields >> 8 & 1) * 4  # its isotope
        row[2] = row[4]
    return at


@compiled(numba.int64(numba.uint8[::1], numba.int64, numba.int64, numba.int64[:, ::1], numba.int64[:, ::1]))
def _read_bonds(data: Bytes, at: int, end: int, bonds: IntArray, atoms: IntArray) -> int:
    """Fill the rows of the bonds and count them for the atoms; returns where the rings begin, or -1."""
    for row in bonds:
        flags = data[at + 2]
        if flags & ~0x6E or at > end or data[at] >= len(atoms) or data[at + 1] >= len(atoms):
            return -1
        row[0], row[1] = data[at], data[at + 1]
        row[2] = _SINGLE
        row[4] = flags >> 5 & 1
        at += 3
        if flags & 1 << 3:
            row[2] = data[at]
            at += 1
        at += flags >> 2 & 1  # its direction
        if flags & 1 << 1:
            row[3] = data[at]
            at += 2 + data[at + 1]  # the atoms that its stereo refers to
        atoms[row[0], 2] += 1
        atoms[row[1], 2] += 1
    return at


@compiled(numba.boolean(numba.uint8[::1], numba.int64, numba.int64, numba.int64[:, ::1]))
def _read_rings(data: Bytes, at: int, end: int, atoms: IntArray) -> bool:
    """Mark the atoms that are in rings; False if that cannot be told."""
    num_rings = _number(data, at)
    at += 4
    for _ in range(num_rings):
        if at > end:
            return False
        for member in data[at + 1 : at + 1 + data[at]]:
            if member >= len(atoms):
                return False
            atoms[member, 8] = 1
        at += 1 + data[at]
    return at <= end


_INTS, _TABLE = numba.int64[::1], numba.int64[:, ::1]


@compiled(numba.types.Tuple((numba.boolean[::1], _INTS, _INTS, _TABLE, _TABLE))(numba.uint8[::1], _INTS))
def _read(data: Bytes, ends: IntArray) -> tuple[Any, ...]:
    """Return the fields of `RawNumbers` from molecules that end at `ends`."""
    num_atoms, num_bonds = np.zeros(len(ends), np.int64), np.zeros(len(ends), np.int64)
    readable = np.zeros(len(ends), np.bool_)
    start = 0
    for m in range(len(ends)):
        known = _number(data, start + 8) == MAJOR and MINORS[0] <= _number(data, start + 12) <= MINORS[1]
        if known and 0 < _number(data, start + 20) <= _LARGEST:
            num_atoms[m], num_bonds[m] = _number(data, start + 20), _number(data, start + 24)
        start = ends[m]
    atoms, bonds = np.zeros((num_atoms.sum(), 9), np.int64), np.zeros((num_bonds.sum(), 5), np.int64)
    start = first_atom = first_bond = 0
    for m in range(len(ends)):
        its_atoms, its_bonds = (
            atoms[first_atom : first_atom + num_atoms[m]],
            bonds[first_bond : first_bond + num_bonds[m]],
        )
        at = start + _HEADER
        start = ends[m]
        if num_atoms[m] and data[at] == _BEGIN_ATOMS:
            at = _read_atoms(data, at + 1, ends[m], its_atoms)
            if at > 0 and data[at] == _BEGIN_BONDS:
                at = _read_bonds(data, at + 1, ends[m], its_bonds, its_atoms)
                if at > 0 and data[at] == _BEGIN_RINGS:
                    readable[m] = _read_rings(data, at + 1, ends[m], its_atoms)
        if readable[m]:
            first_atom += num_atoms[m]
            first_bond += num_bonds[m]
        else:
            its_atoms[:] = 0
            its_bonds[:] = 0
            num_atoms[m] = num_bonds[m] = 0
    return readable, num_atoms, num_bonds, atoms[:first_atom], bonds[:first_bond]
