"""RDKit's binary form of molecules -> their raw numbers, many at once, by `native/csrc/molecules.cpp`.

One call of RDKit gives all about a molecule in this form; asking atom by atom takes five times as long.
The form, with numbers of several bytes from low to high:

    20 bytes     mark, 0, and the three parts of the version of the form
    4 + 4 + 1    number of atoms, number of bonds, flags
    1 + atoms    tag; each atom: atomic number, flags, 4 bytes that tell which fields it has, these fields
    1 + bonds    tag; each bond: begin, end, flags, which tell what it has of type, direction and stereo
    1 + 4 + rings    tag, number of rings; each ring: number of atoms, atoms

Versions 16.2 to 16.4 of the form are read, of molecules of up to 254 atoms, whose numbers take one byte. RDKit raises
the version with every change; the source of 16.2 and what 16.4 writes agree in all that is used here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from egt.graph import IntArray
from egt.native.library import library

_LONGEST = 520
"""No atom, bond or ring takes more bytes: so many behind the last molecule keep every look inside the array."""


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
