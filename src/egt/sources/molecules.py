"""Molecules as graphs: SMILES -> atoms and bonds with OGB's features or the atom and bond types of ZINC.

Atoms keep the order they have in the SMILES string (explicit hydrogens are removed), and bond k gives the edges 2k
(begin -> end) and 2k + 1 (end -> begin).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from egt.errors import DataError
from egt.graph import Graph, IntArray, target_array
from egt.sources.molecule_features import (
    OGB_SCHEMA,
    ZINC_SCHEMA,
    is_flat,
    ogb_atoms,
    ogb_bonds,
    zinc_atoms,
    zinc_bonds,
)

__all__ = ["OGB_SCHEMA", "ZINC_SCHEMA", "MoleculeVocabulary", "graph_from_smiles", "parse_smiles", "require_rdkit"]

MoleculeVocabulary = Literal["ogb", "zinc"]


def graph_from_smiles(
    smiles: str, *, vocabulary: MoleculeVocabulary = "ogb", id: str = "", graph_targets: ArrayLike | None = None
) -> tuple[Graph, str]:
    """The graph of a molecule.

    Args:
        smiles: the SMILES string.
        vocabulary: "ogb" gives nine atom and three bond features, equal to OGB's `smiles2graph`; "zinc" gives the
            28 atom types and 4 bond types of ZINC (kekulized: there is no aromatic bond).
        id: the name of the graph.
        graph_targets: (T,) the targets; NaN marks a missing label.

    Returns:
        The graph, and a warning that is empty unless the molecule was read with reservations: relaxed sanitization
        (a valence that RDKit does not accept), or an atom that the vocabulary does not hold.

    Raises:
        DataError: if RDKit cannot read the SMILES even with relaxed sanitization; the message gives its reason.
        GraphError: if the targets are not numbers.
    """
    flat = is_flat(smiles) is not None
    molecule, warning = parse_smiles(smiles, flat=flat)
    if vocabulary == "ogb":
        atoms = ogb_atoms(molecule, flat=flat, brackets="[" in smiles)
        edge_index, bonds = ogb_bonds(molecule, flat=flat)
    else:
        atoms, unknown = zinc_atoms(molecule)
        edge_index, bonds = zinc_bonds(molecule)
        if unknown:
            reservation = f"atom type {', '.join(unknown)} is not in the ZINC vocabulary"
            warning = f"{warning}; {reservation}" if warning else reservation
    return _graph(atoms, edge_index, bonds, graph_targets, id), warning


def _graph(atoms: IntArray, edge_index: IntArray, bonds: IntArray, graph_targets: ArrayLike | None, id: str) -> Graph:
    """The graph of a molecule, whose arrays are valid as RDKit has no parallel bonds; only the targets are checked."""
    targets = target_array(graph_targets, None, f"graph {id!r}: graph_targets")
    if targets is not None:
        targets = targets.view()
        targets.setflags(write=False)
    for array in (edge_index, atoms, bonds):
        array.setflags(write=False)
    return Graph.trusted(
        num_nodes=len(atoms),
        edge_index=edge_index,
        node_categories=atoms,
        node_values=np.empty((len(atoms), 0), np.float32),
        edge_categories=bonds,
        edge_values=np.empty((len(bonds), 0), np.float32),
        edge_weight=None,
        graph_targets=targets,
        node_targets=None,
        edge_targets=None,
        query_index=None,
        id=id,
    )


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


def parse_smiles(smiles: str, *, flat: bool) -> tuple[Any, str]:
    """The RDKit molecule of a SMILES string, and a warning if only relaxed sanitization accepts it.

    Args:
        smiles: the SMILES string.
        flat: whether it `is_flat`, which leaves less to do.

    Raises:
        DataError: if RDKit cannot read it.
    """
    Chem = require_rdkit()
    if not smiles.strip():
        raise DataError("the SMILES string is empty")
    with Chem.rdBase.BlockLogs():
        molecule = _parse_flat(smiles, Chem) if flat else Chem.MolFromSmiles(smiles)
    warning = ""
    if molecule is None:
        molecule, reason = _parse_relaxed(smiles, Chem)
        warning = f"read with relaxed sanitization: {reason}"
    if molecule.GetNumAtoms() == 0:
        raise DataError(f"SMILES {smiles!r} has no atoms")
    return molecule, warning


def _parse_flat(smiles: str, Chem: Any) -> Any:
    """`MolFromSmiles` without its steps for hydrogen atoms and stereo marks, which a flat SMILES does not have."""
    molecule = Chem.MolFromSmiles(smiles, sanitize=False)
    if molecule is None or Chem.SanitizeMol(molecule, catchErrors=True) != Chem.SANITIZE_NONE:
        return None
    return molecule


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
            molecule = Chem.RemoveHs(molecule, sanitize=False)
            molecule.UpdatePropertyCache(strict=False)  # the hydrogens that went are now implicit ones
            Chem.SanitizeMol(molecule, Chem.SANITIZE_ALL ^ Chem.SANITIZE_PROPERTIES)
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
