"""Molecules as they should be compared, on request: parents without salts and charges, and one row for each molecule.

Nothing is changed silently: every change has a row in `RawData.changes`, and their number is logged.
"""

from __future__ import annotations

import csv
import logging
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from egt.data.columns import Column, RawData, as_numbers, bound_of, missing_in, objects, text_of, texts_in
from egt.data.molecules import RDKIT_ERRORS, canonical_smiles, parse_or_none, require_rdkit, without_name
from egt.data.schema import Replicates, Standard
from egt.errors import DataError, counted
from egt.files import write_atomically
from egt.graph import Level

ORIGINAL = "_original"  # behind the name of a column of SMILES: the column with those that were written
CHANGES = "changes.csv"  # in the folder of a run: what was changed
log = logging.getLogger(__name__)


class Change(NamedTuple):
    """What was changed in a row: the row of the file, from 1, and a cell before and after; "" for a row that went."""

    row: int
    column: str
    before: str
    after: str
    why: str


def standardize(raw: RawData, names: Sequence[str], how: Standard, level: Level) -> RawData:
    """Return data with the standard molecules in place of those that were written, which get a column of their own.

    names: the columns of SMILES. A text that RDKit cannot read stays as it is.
    """
    if not how:
        return raw
    if level in ("node", "edge"):
        raise DataError(
            f"{raw.where}: labels of atoms and bonds follow the SMILES as it is written; do not standardize"
        )
    table, changes = dict(raw.table), list(raw.changes)
    known: dict[str, str] = {}
    for name in names:
        before = texts_in(table[name])
        after = [known[text] if text in known else known.setdefault(text, _standard(text, how)) for text in before]
        rows = [row for row, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
        changes += [Change(raw.number(row), name, before[row], after[row], "standardized") for row in rows]
        if rows:
            log.warning("%s: %s of column %r standardized", raw.where, counted(len(rows), "molecule"), name)
            table[f"{name}{ORIGINAL}"] = objects(before)
            table[name] = objects([text or None for text in after])
    return replace(raw, table=table, changes=changes)


def _standard(text: str, how: Standard) -> str:
    """Return the SMILES of a standard molecule; the text itself where that is the same molecule, or none."""
    chem = require_rdkit()
    from rdkit.Chem.MolStandardize import rdMolStandardize

    with chem.rdBase.BlockLogs():
        molecule = parse_or_none(without_name(text)) if text else None
        if molecule is None:
            return text
        try:
            parent = rdMolStandardize.ChargeParent(molecule)
            if how == "tautomer":
                parent = rdMolStandardize.TautomerEnumerator().Canonicalize(parent)
            found: str = chem.MolToSmiles(parent)
            return text if not found or found == chem.MolToSmiles(molecule) else found
        except RDKIT_ERRORS:
            return text


class _Merged(NamedTuple):
    """What becomes of the rows of one molecule: label by target, or why there is no single row."""

    labels: dict[str, Any]
    conflict: str
    is_dropped: bool


def merge_replicates(
    raw: RawData,
    smiles: Sequence[str],
    how: Replicates,
    *,
    targets: Sequence[str],
    conditions: Sequence[str],
    classes: Collection[str],
    level: Level,
) -> RawData:
    """Return data with one row for each molecule under the same conditions; the other cells are those of the first.

    The label of the row is made as `how` says, from columns `targets` of whole molecules; those in `classes` are
    classes, others numbers. Conditions are columns that must be the same: features, the split.
    """
    if not how:
        return raw
    if level != "graph":
        raise DataError(
            f"{raw.where}: replicates are merged of labels of whole molecules, not of atoms, bonds or links"
        )
    table = {name: column.copy() if name in targets else column for name, column in raw.table.items()}
    gone: set[int] = set()
    changes, conflicts = list(raw.changes), 0
    for rows in _groups(raw, smiles, conditions):
        first, *others = rows
        found = _merge({name: table[name][rows] for name in targets if name in table}, how, classes)
        if found is None:  # bounds: no number stands for them
            continue
        conflicts += bool(found.conflict)
        gone |= {*rows} if found.is_dropped else {*others}
        number = raw.number(first)
        for name, label in found.labels.items():
            values = [_shown(value) for value in table[name][rows]]
            table[name][first] = label
            after = "" if found.is_dropped else _shown(label)
            changes.append(Change(number, name, " | ".join(values), after, found.conflict or "replicates agree"))
        why = "its labels contradict each other" if found.is_dropped else f"merged into row {number}"
        left = rows if found.is_dropped else others
        changes += [Change(raw.number(row), smiles[0], texts_in(table[smiles[0]][[row]])[0], "", why) for row in left]
    if not gone:
        return raw
    kept = [row for row in range(raw.num_rows) if row not in gone]
    place_of = {row: place for place, row in enumerate(kept)}
    log.warning(
        "%s: %s merged into those of the same molecule (%s), of which %s had different labels",
        *(raw.where, counted(len(gone), "row"), how, counted(conflicts, "molecule")),
    )
    return replace(
        raw,
        num_rows=len(kept),
        table={name: column[kept] for name, column in table.items()},
        problems={place_of[row]: why for row, why in raw.problems.items()},
        numbers=[raw.number(row) for row in kept],
        placed=None if raw.placed is None else raw.placed[kept],
        changes=changes,
    )


def _groups(raw: RawData, smiles: Sequence[str], conditions: Sequence[str]) -> list[list[int]]:
    """Return the rows of each molecule that has several under the same conditions."""
    written = [[without_name(text) for text in texts_in(raw.table[name])] for name in smiles]
    texts = [*{text for column in written for text in column}]
    spelling = dict(zip(texts, canonical_smiles(texts), strict=True))
    columns = [[spelling[text] for text in column] for column in written]
    beside = [raw.table[name].tolist() for name in conditions if name in raw.table]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(zip(*columns, *map(_hashable, beside), strict=True)):
        if all(key[: len(smiles)]) and row not in raw.problems:
            groups.setdefault(key, []).append(row)
    return [rows for rows in groups.values() if len(rows) > 1]


def _hashable(values: list[Any]) -> list[Any]:
    return [tuple(value) if isinstance(value, list) else None if value != value else value for value in values]


def _merge(columns: dict[str, Column], how: Replicates, classes: Collection[str]) -> _Merged | None:
    """Return the row that stands for all; None where no label can."""
    labels: dict[str, Any] = {}
    torn: list[str] = []
    for name, column in columns.items():
        present = column[~missing_in(column)]
        if name not in classes and column.dtype == object:
            numbers, strange = as_numbers(present)
            if not any(map(bound_of, strange)):
                present = numbers[~np.isnan(numbers)]  # without words for none
            elif len({*present.tolist()}) > 1:
                return None
        distinct = {*present.tolist()}
        if len(distinct) < 2:
            labels[name] = present[0] if len(present) else column[0]
            continue
        torn.append(name)
        if name in classes:
            [(label, count), (_, next_count), *_] = Counter(present.tolist()).most_common()
            labels[name] = label if count > next_count else (None if column.dtype == object else np.nan)
        else:
            labels[name] = float(np.median(present) if how == "median" else np.mean(present))
    conflict = f"different labels of {', '.join(torn)}" if torn else ""
    return _Merged(labels, conflict, is_dropped=how == "drop" and bool(torn))


def _shown(value: Any) -> str:
    return "" if value is None or value != value else text_of(value)


def write_changes(changes: Sequence[tuple[Any, ...]], file: Path) -> None:
    """Write what was changed as a CSV file."""
    with write_atomically(file) as draft, draft.open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text)
        writer.writerow(Change._fields)
        writer.writerows(changes)
