"""Which column is the id, the SMILES, the split, the weight, the target: guessed from names and contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import count, takewhile
from typing import Any

import numpy as np

from egt.data.custom.columns import Column, Columns, RawData, as_numbers, holds_lists, missing_in
from egt.data.custom.splits import is_split_column
from egt.errors import DataError
from egt.graph import Level

ID_NAMES = ("id", "idx", "index", "name", "mol_id", "molecule_id", "compound_id", "graph_id")

TARGET_NAMES = ("y", "label", "labels", "target", "targets", "class")

SPLIT_NAMES = ("split", "set", "subset", "fold", "partition")

WEIGHT_NAMES = ("weight", "edge_weight")

MAX_SMILES_TRIED = 50


def columns_at(raw: RawData, level: str) -> dict[str, Column]:
    """Return the columns of a level, those of nodes and edges joined over all graphs.

    A column that is a number in one graph and a text or a vector in another is left as the first graph has it;
    the graphs that differ are reported when they are read.
    """
    if level == "graph":
        return dict(raw.table)
    parts: dict[str, list[Column]] = {}
    for graph in raw.graphs:
        if graph is not None:
            for name, column in (graph.nodes if level == "node" else graph.edge_columns).items():
                parts.setdefault(name, []).append(column)
    return {name: _joined(columns) for name, columns in parts.items()}


def find_id(columns: Columns, given: str | None, where: str) -> str:
    """Return the column that names the rows, none twice and most of them (`id` may repeat); "" for none."""
    if given:
        if not _names_rows(_named(columns, given, where)):
            raise DataError(f"{where}: id column {given!r} has repeated or too few values; choose another one")
        return given
    if given == "":
        return ""
    named = [name for name in columns if _is_id(name)]
    found = next((name for name in named if _names_rows(columns[name])), "")
    return found or next((name for name in columns if name.lower() == "id" and columns[name].ndim == 1), "")


def find_smiles(columns: Columns, given: str | Sequence[str] | None, where: str) -> tuple[str, ...]:
    """Return the columns with SMILES: those that are given, else one.

    That is the one with such a name, else the only one whose texts RDKit can read. Rows of several SMILES have numbered
    columns, and all of them are taken.
    """
    if given:
        return _given_smiles(columns, [given] if isinstance(given, str) else given, where)
    if numbered := _numbered(columns):
        return numbered
    texts = [name for name, column in columns.items() if column.dtype == object]
    named = [name for name in texts if "smiles" in name.lower() or name.lower() == "smi"]
    exact = [name for name in named if name.lower() == "smiles"]
    found = exact or named or [name for name in texts if _parses(columns[name])]
    if found and not named and _parses(np.array([found[0]], dtype=object)):
        raise DataError(
            f"{where}: the first line looks like a row, not like names of columns ({found[0]!r} is a molecule); add a "
            "line of names on top, or say which column holds the SMILES (--smiles NAME)"
        )
    if len(found) != 1:
        what = f"several columns could hold SMILES: {', '.join(found)}" if found else "no column holds SMILES"
        raise DataError(
            f"{where}: {what}. The columns are {', '.join(columns)}; choose one with --smiles NAME, or several "
            "that are components of one graph. (Graphs without SMILES go into JSONL or a folder of nodes.csv and "
            "edges.csv: see docs/data.md)"
        )
    return (found[0],)


def _given_smiles(columns: Columns, given: Sequence[str], where: str) -> tuple[str, ...]:
    for name in given:
        if _named(columns, name, where).dtype != object:
            raise DataError(f"{where}: column {name!r} holds numbers, not SMILES")
        if given.count(name) > 1:
            raise DataError(f"{where}: column {name!r} is given twice for the SMILES; name each component once")
    return tuple(given)


def _numbered(columns: Columns) -> tuple[str, ...]:
    """Return the columns of rows of several SMILES: `smiles.0`, `smiles.1`, ..."""
    return () if "smiles" in columns else tuple(takewhile(columns.__contains__, (f"smiles.{k}" for k in count())))


def find_smiles_of(model: Sequence[str], columns: Columns, where: str) -> tuple[str, ...]:
    """Return the columns of new data with the SMILES that a model reads, in its order.

    Args:
        model: the columns that it was trained on. Other names are guessed for a single one only: nothing tells which of
            several is which.
        columns: those of the new data.
        where: the name of the new data.
    """
    if all(name in columns for name in model):
        return tuple(model)
    found = _numbered(columns) if len(model) > 1 else find_smiles(columns, None, where)
    if len(found) != len(model):
        raise DataError(
            f"{where}: the model reads {len(model)} SMILES in each row ({', '.join(filter(None, model))}); the columns "
            f"are {', '.join(columns)}. Name them in this order (--smiles NAME NAME)"
        )
    return found


def find_split(columns: Columns, given: str, where: str) -> str:
    """Return the column that says train, val or test; "" for none."""
    if given:
        _named(columns, given, where)
        return given
    named = [name for name in columns if name.lower() in SPLIT_NAMES and is_split_column(columns[name])]
    return named[0] if named else ""


def find_weight(columns: Columns, given: str | None, where: str) -> str:
    """Return the edge column with weights; "" for none."""
    if given is None:
        return next((name for name in columns if name.lower() in WEIGHT_NAMES and _is_number(columns[name])), "")
    if given and not _is_number(_named(columns, given, where)):
        raise DataError(f"{where}: weight column {given!r} must hold one number per edge")
    return given


def find_inputs(columns: Columns, given: str | Sequence[str], where: str) -> tuple[str, ...]:
    """Return the columns of whole graphs that are given to the model, by names or patterns (`desc_*`)."""
    found: dict[str, None] = {}
    for pattern in [given] if isinstance(given, str) else given:
        names = [name for name in columns if is_meant(name, pattern)]
        if not names:
            raise DataError(f"{where}: there is no feature column {pattern!r}; the columns are {', '.join(columns)}")
        found |= dict.fromkeys(names)
    for name in found:
        if texts := as_numbers(columns[name])[1]:
            raise DataError(
                f"{where}: feature column {name!r} holds {texts[0]!r}, which is not a number; features of whole graphs "
                "are numbers (write categories as columns of 0 and 1)"
            )
    return tuple(found)


def find_targets(
    raw: RawData, columns: Mapping[str, Columns], target: Sequence[str] | None, level: Level | None
) -> tuple[Level, tuple[str, ...]]:
    """Return the level and the target columns.

    Args:
        raw: the data.
        columns: level -> columns that are free to be targets or features.
        target: names or patterns (`NR-*`, `*`) given by the user; None to guess.
        level: the level given by the user; None to guess.

    Raises:
        DataError: if there is no candidate or more than one choice; it lists them.
    """
    levels: list[Level] = ["graph", "node", "edge"] if level is None else [level]
    if target is not None:
        return _chosen(columns, target, levels, raw.where)
    options: dict[Level, tuple[str, ...]] = {}
    for one in levels:
        names = raw.declared.get(one) or (() if raw.declared and level is None else _candidates(columns[one], one))
        if names:
            options[one] = tuple(names)
    if len(options) > 1:
        raise DataError(
            f"{raw.where}: there are targets at several levels: {_listed(options)}. Choose one with level=... (--task)"
        )
    if not options:
        raise DataError(
            f"{raw.where}: no target found. The columns are: {_listed(columns)}.{_unfit(columns)} "
            "Choose one with target=NAME (--target NAME), or predict links with level='link' (--task link)"
        )
    found, names = next(iter(options.items()))
    if len(names) > 1 and not raw.declared.get(found):
        raise DataError(
            f"{raw.where}: several columns could be the target: {_described(columns[found], names)}. "
            f"Choose with target=NAME (--target {names[0]}), several times for several, or target='*' for all of them"
        )
    return found, names


def _chosen(
    columns: Mapping[str, Columns], target: Sequence[str], levels: Sequence[Level], where: str
) -> tuple[Level, tuple[str, ...]]:
    found: dict[Level, dict[str, None]] = {}
    for pattern in target:
        matches = {one: [name for name in columns[one] if is_meant(name, pattern)] for one in levels}
        if pattern == "*":  # all columns of the first level that has any: the widest choice is the whole graph
            matches = dict([next(((one, names) for one, names in matches.items() if names), (levels[0], []))])
        if not any(matches.values()):
            names = [name for one in levels for name in columns[one]]
            close = get_close_matches(pattern, names, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise DataError(f"{where}: there is no column {pattern!r}.{hint} The columns are: {_listed(columns)}")
        for one, matched in matches.items():
            if matched:
                found.setdefault(one, {}).update(dict.fromkeys(matched))
    if len(found) > 1:
        raise DataError(f"{where}: target {list(target)} is at several levels: {_listed(found)}. Choose with level=...")
    level, chosen = next(iter(found.items()))
    return level, tuple(chosen)


def is_meant(name: str, pattern: str) -> bool:
    """Return whether a column is meant by a name or pattern (`NR-*`)."""
    return name == pattern or fnmatchcase(name, pattern)


def _candidates(columns: Columns, level: Level) -> tuple[str, ...]:
    if level == "graph":
        roles = (*ID_NAMES, *SPLIT_NAMES)
        fit = (name for name, column in columns.items() if not _is_name_like(column) and not _is_listed(column))
        return tuple(name for name in fit if name.lower() not in roles)
    return tuple(name for name in columns if name.lower() in TARGET_NAMES)


def _is_id(name: str) -> bool:
    return name.lower() in ID_NAMES or name.lower().endswith("_id")


def _unfit(columns: Mapping[str, Columns]) -> str:
    """Return why a column of the graphs was not taken for the target, where its content is the reason."""
    for name, column in columns["graph"].items():
        present = column[~missing_in(column)]
        if not len(present):
            return f" {name!r} is empty."
        if _is_listed(column):
            return f" {name!r} holds lists; if they are of atoms or bonds, name it (--target {name})."
        if _is_name_like(column):
            return f" {name!r} is a text that differs in every row (e.g. {present[0]!r}), not a number or a class."
    return ""


def _is_name_like(column: Column) -> bool:
    """Return whether a column cannot be a target: nothing in it, or a text that is different in every row."""
    present = column[~missing_in(column)]
    return not len(present) or (column.dtype == object and len(present) > 2 and len(set(present)) == len(present))


def _is_listed(column: Column) -> bool:
    return column.dtype == object and holds_lists(column)


def _names_rows(column: Column) -> bool:
    present = column[~missing_in(column)].tolist()
    return column.ndim == 1 and 2 * len(present) > len(column) and len(set(present)) == len(present)


def _is_number(column: Column) -> bool:
    return column.dtype != object and (column.ndim == 1 or column.shape[1] == 1)


def _named(columns: Columns, name: str, where: str) -> Column:
    if name not in columns:
        raise DataError(f"{where}: there is no column {name!r}; the columns are {', '.join(columns)}")
    return columns[name]


def _joined(columns: list[Column]) -> Column:
    kinds = {(column.dtype == object, column.shape[1:]) for column in columns}
    if len(kinds) == 1:
        return np.concatenate(columns)
    first = columns[0]
    alike = [column for column in columns if column.dtype == first.dtype and column.shape[1:] == first.shape[1:]]
    return np.concatenate(alike)


def _parses(column: Column) -> bool:
    from egt.data.molecules import graph_from_smiles

    texts = [value for value in column if value is not None][:MAX_SMILES_TRIED]
    good = 0
    for text in texts:
        try:
            graph_from_smiles(text)
        except DataError:
            continue
        good += 1
    return bool(texts) and good >= 0.8 * len(texts)


def _listed(columns: Mapping[Any, Any]) -> str:
    parts = [f"{level}: {_few(list(names))}" for level, names in columns.items() if names]
    return "; ".join(parts) or "none"


def _few(names: list[str], limit: int = 40) -> str:
    return ", ".join(names[:limit]) + (f", ... {len(names)} in all" if len(names) > limit else "")


def _described(columns: Columns, names: Sequence[str]) -> str:
    kinds = {name: "text" if columns[name].dtype == object else "numbers" for name in names}
    return _few([f"{name} ({kind})" for name, kind in kinds.items()])
