"""Molecules as graphs: SMILES -> atoms and bonds with OGB's features or the atom and bond types of ZINC.

Atoms keep the order they have in the SMILES string (explicit hydrogens are removed), and bond k gives the edges 2k
(begin -> end) and 2k + 1 (end -> begin). What a model computes would still depend on that order in two places: chiral
tags refer to the order of the neighbors, and the basis of equal singular values to the order of the atoms. A graph that
is read `canonical` has R and S in place of tags, and RDKit's canonical ranks of its atoms for such bases.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from egt.data.molecule_features import (
    CHIRALITY,
    OGB_SCHEMA,
    RDKIT_ERRORS,
    ZINC_SCHEMA,
    Canonical,
    MoleculeFeatures,
    binary_form,
    canonical_numbers,
    ogb_features,
    reason_of,
    zinc_features,
)
from egt.errors import DataError, EgtError
from egt.graph import Graph, target_array

__all__ = [
    "OGB_SCHEMA",
    "RDKIT_ERRORS",
    "ZINC_SCHEMA",
    "MoleculeVocabulary",
    "elements_of",
    "graph_from_smiles",
    "graphs_from_smiles",
    "parse_or_none",
    "parse_smiles",
    "require_rdkit",
    "without_name",
]

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
    id: str = "",
    graph_targets: ArrayLike | None = None,
) -> tuple[Graph, str]:
    """Return the graph of a molecule.

    Args:
        smiles: the SMILES string.
        vocabulary: "ogb" gives nine atom and three bond features, equal to OGB's `smiles2graph`; "zinc" gives the
            28 atom types and 4 bond types of ZINC (kekulized: there is no aromatic bond).
        canonical: give every spelling of a molecule the same answers; False equals OGB's reading to the letter.
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
        [smiles], vocabulary=vocabulary, canonical=canonical, ids=[id], graph_targets=[graph_targets]
    )
    if isinstance(result, EgtError):
        raise result
    return result


def graphs_from_smiles(
    smiles: Sequence[str],
    *,
    vocabulary: MoleculeVocabulary = "ogb",
    canonical: bool = False,
    ids: Sequence[str],
    graph_targets: Sequence[ArrayLike | None],
) -> list[tuple[Graph, str] | EgtError]:
    """`graph_from_smiles` of many molecules, with what it would raise in the place of those that cannot be read.

    Parsing is done for some, then features for all, then graphs: RDKit is large, and the processor's caches hold one
    step, and the molecules of some.
    """
    read: list[tuple[Any, Canonical | None, str]] = []
    for start in range(0, len(smiles), _PARSED_AT_ONCE):
        texts = smiles[start : start + _PARSED_AT_ONCE]
        for text, (each, warning) in zip(texts, parse_smiles(texts), strict=True):
            kept = (each, None) if isinstance(each, EgtError) else _kept(each, text, vocabulary, canonical)
            read.append((*kept, warning))
    good = [each for each, _, _ in read if not isinstance(each, EgtError)]
    features = iter(ogb_features(good) if vocabulary == "ogb" else good)
    results: list[tuple[Graph, str] | EgtError] = []
    for (each, common, warning), name, targets in zip(read, ids, graph_targets, strict=True):
        if isinstance(each, EgtError):
            results.append(each)
            continue
        found = next(features)
        if isinstance(found, EgtError):
            results.append(found)
            continue
        try:
            graph = _graph(found, common, targets, name)
        except EgtError as error:
            results.append(error)
            continue
        results.append((graph, "; ".join(filter(None, (warning, found.warning)))))
    return results


def _kept(
    molecule: Any, smiles: str, vocabulary: MoleculeVocabulary, is_canonical: bool
) -> tuple[bytes | MoleculeFeatures | DataError, Canonical | None]:
    """Return what is kept of an RDKit molecule: its binary form, from which many are read at once, or its features.

    And, if it is to be read so, what is the same for all its spellings.
    """
    try:
        common = canonical_numbers(molecule, chiral="@" in smiles) if is_canonical else None
        return zinc_features(molecule) if vocabulary == "zinc" else binary_form(molecule), common
    except RDKIT_ERRORS as error:
        return _unreadable(smiles, reason_of(error)), None


def _graph(features: MoleculeFeatures, common: Canonical | None, graph_targets: ArrayLike | None, id: str) -> Graph:
    """Build the graph of a molecule. RDKit has no parallel bonds, so only the targets are checked."""
    if common is not None and common.chirality is not None and features.atoms.shape[1] > CHIRALITY:
        features = features.with_chirality(common.chirality)
    targets = target_array(graph_targets, None, f"graph {id!r}: graph_targets")
    if targets is not None:
        targets = targets.view()
        targets.setflags(write=False)
    return Graph.trusted(
        num_nodes=len(features.atoms),
        edge_index=features.edge_index,
        node_categories=features.atoms,
        node_values=np.empty((len(features.atoms), 0), np.float32),
        edge_categories=features.bonds,
        edge_values=np.empty((len(features.bonds), 0), np.float32),
        graph_values=np.empty(0, np.float32),
        edge_weight=None,
        graph_targets=targets,
        node_targets=None,
        edge_targets=None,
        query_index=None,
        ranks=None if common is None else common.ranks,
        id=id,
    )


def require_rdkit() -> Any:
    """Return the `rdkit.Chem` module.

    Raises:
        DataError: if RDKit is not installed.
    """
    try:
        from rdkit import Chem
    except ImportError as error:
        raise DataError('reading molecules needs RDKit; install it with: pip install "egt-graph[mol]"') from error
    return Chem


def parse_smiles(smiles: Sequence[str]) -> list[tuple[Any, str]]:
    """Return the RDKit molecule of each SMILES string, or a `DataError`; and a warning if it was read relaxed."""
    Chem = require_rdkit()
    flat = [is_flat(text) is not None for text in smiles]
    with Chem.rdBase.BlockLogs():
        strict = [_parse_strict(text, Chem, flat=f) for text, f in zip(smiles, flat, strict=True)]
    results: list[tuple[Any, str]] = []
    for text, is_plain, molecule in zip(smiles, flat, strict, strict=True):
        warning = ""
        try:
            if not text.strip():
                raise DataError("the SMILES string is empty")
            if not is_plain and (found := _NO_ELEMENT.search(without_name(text))):
                raise _unreadable(text, f"no element has the atomic number {found[1]}")
            if molecule is None:
                molecule, reason = _parse_relaxed(text, Chem)
                warning = f"read with relaxed sanitization: {reason}"
            if molecule.GetNumAtoms() == 0:
                raise DataError(f"SMILES {text!r} has no atoms")
        except DataError as error:
            results.append((error, ""))
        else:
            results.append((molecule, warning))
    return results


def _parse_strict(smiles: str, Chem: Any, *, flat: bool) -> Any:
    """Return the molecule that RDKit accepts as it is, or None.

    For a flat SMILES this is `MolFromSmiles` without its steps for hydrogen atoms and stereo marks.
    """
    try:
        molecule = Chem.MolFromSmiles(smiles, sanitize=not flat)
        if not flat:
            return molecule
        if molecule is None or Chem.SanitizeMol(molecule, catchErrors=True) != Chem.SANITIZE_NONE:
            return None
    except RDKIT_ERRORS:
        return None
    return molecule


def parse_or_none(smiles: str) -> Any:
    """Return the RDKit molecule of a SMILES string that RDKit accepts as it is; None for any other text."""
    return _parse_strict(smiles, require_rdkit(), flat=False)


def _parse_relaxed(smiles: str, Chem: Any) -> tuple[Any, str]:
    """Return the molecule without the check of valences, and the reason why it needs that."""
    with _rdkit_messages() as messages:
        try:
            molecule = Chem.MolFromSmiles(smiles, sanitize=False)
            if molecule is None:
                raise _unreadable(smiles, _one_line(messages))
            reason = _one_line([problem.Message() for problem in Chem.DetectChemistryProblems(molecule)])
            molecule.UpdatePropertyCache(strict=False)
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
    return DataError(f"SMILES {smiles!r} cannot be read: {reason}")


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
