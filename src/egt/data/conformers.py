"""Where the atoms of a molecule are: as its text says (CXSMILES), or as RDKit places them in space (ETKDG)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

PlacedBy = Literal["file", "rdkit"]

MOST_CONFORMERS = 32

_SEED = 42
"""Conformers are the same in every run; whoever wants others asks for more of them."""

_TRIALS = 20
"""RDKit's own limit grows with the molecule, and a peptide would take minutes."""


class Placement(NamedTuple):
    """Who places the atoms of a molecule, and the shape of the place of one: (3,), or (conformers, 3)."""

    by: PlacedBy
    shape: tuple[int, ...]


def positions_of(molecule: Any, placement: Placement) -> tuple[NDArray[np.float32], str]:
    """Return the positions (N, ...) of the atoms of an RDKit molecule, and why they are not known (NaN), or "".

    Whatever the molecule said about places is taken out of it.
    """
    found = _written(molecule) if placement.by == "file" else _embedded(molecule, *placement.shape[:-1])
    molecule.RemoveAllConformers()
    count = molecule.GetNumAtoms()
    if found is None:
        what = "no coordinates are given" if placement.by == "file" else "RDKit finds no conformer"
        return _frozen(np.full((count, *placement.shape), np.nan)), f"{what}: distances count as unknown"
    return _frozen(found.swapaxes(0, 1).reshape(count, *placement.shape)), ""


def with_coordinates(molecule: Any) -> str | None:
    """Return the text of an RDKit molecule with its coordinates, hydrogen atoms and all; None if it is flat."""
    from rdkit.Chem import CXSmilesFields, MolToCXSmiles, SmilesWriteParams  # RDKit is optional

    if not molecule.GetNumConformers() or not molecule.GetConformer().Is3D():
        return None
    text: str = MolToCXSmiles(molecule, SmilesWriteParams(), CXSmilesFields.CX_COORDS)
    return text


def _written(molecule: Any) -> NDArray[np.float64] | None:
    """(1, N, 3) the coordinates that came with the text."""
    if not molecule.GetNumConformers() or not molecule.GetConformer().Is3D():
        return None
    places: NDArray[np.float64] = molecule.GetConformer().GetPositions()
    return places[None]


def _embedded(molecule: Any, count: int = 1) -> NDArray[np.float64] | None:
    """(C, N, 3) conformers by ETKDG, the same for every spelling of the molecule; None where there is none.

    Bounds of distances are met at random, in the order of the atoms: hence the canonical SMILES is embedded.
    """
    from rdkit import Chem
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


def _frozen(places: NDArray[np.float64]) -> NDArray[np.float32]:
    single = np.ascontiguousarray(places, np.float32)
    single.setflags(write=False)
    return single
