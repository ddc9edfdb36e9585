"""Labels of the user's data: lists with a value per atom or bond, columns that give the answer away, repeated rows.

Repeated rows in several splits flatter a score; with different labels, they contradict each other.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.columns import (
    Column,
    Columns,
    RawData,
    RawGraph,
    describe_unknown_label,
    encode_bounds,
    missing_in,
    text_of,
)
from egt.data.formats.tables import column_of_texts
from egt.data.molecules import canonical_smiles, parse_smiles
from egt.data.schema import Codes, CustomSchema
from egt.data.source import SPLITS
from egt.errors import DataError, EgtError, counted
from egt.graph import Graph, IntArray, Level

PARTS: dict[Level, str] = {"node": "atom", "edge": "bond"}

MOST_TRIED = 50  # how many rows are read to find out whether lists are of atoms or of bonds
_SEPARATORS = (";", ",", None)  # what stands between values outside of JSON; None is any white space
Values = NDArray[np.float64]

_PLACEHOLDER = re.compile(r"-?9{2,}|-?9{2,}0+")  # what programs write for "no value": -9999, 999, -99
_FAR = 2.0  # how many ranges of the other labels a placeholder is away from them
_DECADES, _BULK = 3.0, (0.05, 0.95)
"""Labels that spread over so many powers of ten, between these quantiles, are better learned as logarithms."""


@dataclass(frozen=True, eq=False)
class Lists:
    """A column whose cells hold lists."""

    values: Column  # (V,) of all cells one after the other, numbers or texts
    starts: IntArray  # (R + 1,) where those of each row begin, and where the last ones end
    missing: NDArray[np.bool_]  # (R,) rows without a list

    @property
    def counts(self) -> IntArray:
        """(R,) how many values each row has."""
        return np.diff(self.starts)


def lists_of(column: Column) -> Lists:
    """Return the lists of a column: of vectors (R, width), of numbers (one each), or of texts such as `[0.1, 0.2]`."""
    missing = missing_in(column) if column.ndim == 1 else np.zeros(len(column), dtype=bool)
    if column.dtype != object:
        width = column.shape[1] if column.ndim == 2 else 1
        return Lists(column.reshape(-1), np.arange(len(column) + 1) * width, missing)
    cells = [[] if cell is None else _split(cell) for cell in column]
    values = column_of_texts([value for cell in cells for value in cell])
    return Lists(values, np.cumsum([0, *map(len, cells)]), missing)


def _split(cell: str) -> list[str]:
    """Return the values of a JSON list, or of a text with semicolons, commas or spaces between them."""
    try:
        values = json.loads(cell)
    except (ValueError, RecursionError):
        values = None
    if isinstance(values, list):
        return ["" if value is None else value if isinstance(value, str) else json.dumps(value) for value in values]
    inside = re.sub(r"^\s*\[|\]\s*$", "", cell).strip()
    between = next(each for each in _SEPARATORS if each is None or each in inside)
    return [value.strip().strip("'\"") for value in inside.split(between)]


def find_parts(
    raw: RawData, smiles: Sequence[str], columns: Mapping[str, Column], level: Level | None
) -> tuple[Level, dict[str, Column], str]:
    """Return the level of targets that are lists, their values as columns of it, and how the level was found.

    `level` is "node" for atoms or "edge" for bonds, None to find out; `smiles` are the columns with molecules. A
    `DataError` where there are no lists, they fit neither, or the atoms have lost their order.
    """
    for name, column in columns.items():
        if column.dtype != object and column.ndim == 1:
            raise DataError(
                f"{raw.where}: target {name!r} holds single numbers; --task node needs a list in each cell, with one "
                "value per atom, and --task edge one with a value per bond, as [0.1, 0.2]"
            )
    if not raw.keeps_order:
        raise DataError(
            f"{raw.where}: atoms of this file get another order when they are read, so that lists do not fit them; "
            "give a table with the SMILES and the lists"
        )
    lists = {name: lists_of(column) for name, column in columns.items()}
    found, note = (level, "") if level is not None else _find_level(raw, smiles, *next(iter(lists.items())))
    return found, {name: each.values for name, each in lists.items()}, note


def _find_level(raw: RawData, smiles: Sequence[str], name: str, lists: Lists) -> tuple[Level, str]:
    rows, counts = np.flatnonzero(~lists.missing)[:MOST_TRIED].tolist(), lists.counts
    sizes = {row: size for row in rows if (size := _size(raw, smiles, row)) is not None}
    fits = {level: [row for row, size in sizes.items() if size[level] == counts[row]] for level in PARTS}
    most, least = sorted(fits, key=lambda level: len(fits[level]), reverse=True)
    if 2 * len(fits[most]) <= len(sizes):
        row = next((row for row in sizes if row not in fits[most]), 0)
        there = " and ".join(f"{count} {PARTS[level]}s" for level, count in sizes.get(row, {}).items())
        raise DataError(
            f"{raw.where} row {row + 1}: target {name!r} holds {counts[row]} values, and the molecule "
            f"{f'has {there}' if there else 'cannot be read'}; give one value per atom, or one per bond, in the order "
            "of the SMILES (several values of a whole molecule are columns of their own)"
        )
    if len(fits[most]) == len(fits[least]):
        raise DataError(
            f"{raw.where}: the lists of target {name!r} fit the atoms as well as the bonds; say which they are with "
            "--task node (atoms) or --task edge (bonds)"
        )
    return most, f"the lists of {name!r} have one value per {PARTS[most]}"


def _size(raw: RawData, smiles: Sequence[str], row: int) -> dict[Level, int] | None:
    """Return the number of atoms and bonds of a row; None if it cannot be read."""
    molecules = [molecule for molecule, _ in parse_smiles([raw.table[name][row] or "" for name in smiles])]
    if any(isinstance(molecule, EgtError) for molecule in molecules):
        return None
    return {
        "node": sum(each.GetNumAtoms() for each in molecules),
        "edge": sum(each.GetNumBonds() for each in molecules),
    }


def encode_labels(name: str, column: Column, schema: CustomSchema) -> tuple[Values, dict[int, str]]:
    """(n, columns) the labels of a target (`CustomSchema.encode`), and row -> a warning where one is not understood."""
    labels, unknown = schema.encode(name, column)
    rows = np.flatnonzero(np.isnan(labels).all(1) & ~missing_in(column)).tolist() if unknown else []
    classes = schema.group_of(name).classes
    return labels, {row: describe_unknown_label(name, text_of(column[row]), classes) for row in rows}


def part_targets(raw: RawData, schema: CustomSchema) -> tuple[list[tuple[Values | None, ...]], dict[int, str]]:
    """Return the targets of the atoms or bonds of each row, and row -> which label is not understood.

    A row has (n, columns) labels for each target, None where it has no list; nothing where the table has no target.
    """
    columns: list[list[Values | None]] = []
    warnings: dict[int, str] = {}
    for name in schema.targets if any(name in raw.table for name in schema.targets) else ():
        if name not in raw.table:
            columns.append([None] * raw.num_rows)
            continue
        lists = lists_of(raw.table[name])
        encoded, unknown = encode_labels(name, lists.values, schema)
        for place, warning in unknown.items():
            warnings[int(np.searchsorted(lists.starts, place, side="right")) - 1] = warning
        parts = np.split(encoded, lists.starts[1:-1])
        columns.append([None if gone else part for part, gone in zip(parts, lists.missing.tolist(), strict=True)])
    return [*zip(*columns, strict=True)] if columns else [()] * raw.num_rows, warnings


def with_part_targets(graph: Graph, given: Sequence[Values | None], schema: CustomSchema) -> Graph:
    """Return a molecule with the targets of its atoms or bonds; bonds are query pairs, from begin to end only.

    `given` are (n, columns) labels of each target, or None; nothing where there are no targets. A `DataError` where
    there are more or fewer values than atoms or bonds.
    """
    part, count = PARTS[schema.level], graph.num_nodes if schema.level == "node" else graph.num_edges // 2
    for values, name in zip(given, schema.targets, strict=bool(given)):
        if values is not None and len(values) != count:
            raise DataError(
                f"target {name!r} holds {len(values)} values, the molecule has {count} {part}s; give one value per "
                f"{part}, in the order of the SMILES (hydrogens in brackets of their own are no atoms here)"
            )
    widths = [schema.encode(name, np.zeros(0))[0].shape[1] for name in schema.targets] if given else []
    columns = [
        np.full((count, width), np.nan) if values is None else values
        for width, values in zip(widths, given, strict=True)
    ]
    targets = np.concatenate(columns, axis=1) if columns else None
    fields: dict[str, Any] = {f"{schema.level}_targets": targets}
    if schema.level == "edge":
        fields["query_index"] = np.ascontiguousarray(graph.edge_index[:, ::2])
    for array in fields.values():
        if array is not None:
            array.setflags(write=False)
    return Graph.trusted(**{**vars(graph), **fields})


MIN_LABELS = 20  # so many labels agree by no accident, if at least `MIN_RARE` are not of the most common class
MIN_RARE = 10
_FIRST = 1000  # how many labels are compared first: most columns differ from a copy within them
MOST_COMPARED = 20_000  # of more rows the SMILES are compared as they are written: to read them would take minutes
MOST_GRAPHS = 100_000  # more graphs are not compared: it would take many seconds
_BITS = np.array([1, 2, 4, 0])  # the bit of each split; -1, in no split, is the last one
_SEVERAL = np.array([False, False, False, True, False, True, True, True])  # whether some bits are several splits


def label_copies(columns: Columns, targets: Sequence[str], given: Collection[str]) -> dict[str, str]:
    """Return column -> the target that it is one-to-one with, wherever there is a label.

    The columns are of one level, the targets among them; those that the user has decided about (`given`) are left out.
    """
    free = [name for name in columns if name not in targets and name not in given]
    found: dict[str, str] = {}
    for target in targets:
        rows = np.flatnonzero(~missing_in(columns[target]))
        labels = _values(columns[target][rows])
        counts = Counter(labels)
        if counts.total() < max(MIN_LABELS, 2 * len(counts)) or counts.total() - max(counts.values()) < MIN_RARE:
            continue
        for name in free:
            column = columns[name]
            alike = len(column) == len(columns[target]) and _agree(column[rows[:_FIRST]], labels[:_FIRST])
            if name not in found and alike and _agree(column[rows], labels):
                found[name] = target
    return {name: found[name] for name in free if name in found}


def _agree(cells: Column, labels: Sequence[Hashable]) -> bool:
    """Return whether there is a value for every label, another one for each class."""
    if missing_in(cells).any():
        return False
    pairs = {*zip(_values(cells), labels, strict=True)}
    return len(pairs) == len({value for value, _ in pairs}) == len({label for _, label in pairs})


def _values(column: Column) -> list[Hashable]:
    """Return the values of a column; a vector is one value."""
    return [*map(tuple, column.tolist())] if column.ndim == 2 else column.tolist()


def label_doubts(name: str, column: Column, classes: Sequence[str]) -> list[str]:
    """Return what to look at in the labels of a target: placeholders, many orders of magnitude, classes alike."""
    if classes:
        counts = Counter(text_of(value) for value in column[~missing_in(column)])
        known = sorted(name for name in counts if name in classes)
        groups = [[other for other in known if other.casefold().split() == each.casefold().split()] for each in known]
        alike = [group for group, each in zip(groups, known, strict=True) if len(group) > 1 and group[0] == each]
        return [
            f"classes of {name!r} differ only in capitals or blanks, and are learned as different ones: "
            f"{', '.join(f'{each!r} ({counts[each]})' for each in group)}; write them alike"
            for group in alike
        ]
    numbers = np.fmax(*encode_bounds(column)[0].T)
    numbers = numbers[~np.isnan(numbers)]
    found = []
    ends = [numbers.min(), numbers.max()] if len(numbers) else []
    suspects = [value for value in ends if _PLACEHOLDER.fullmatch(text_of(value))]
    others = numbers[~np.isin(numbers, suspects)]
    for value in suspects if len(others) else []:
        low, high = others.min(), others.max()
        if max(low - value, value - high) > _FAR * (high - low):
            number = counted(int((numbers == value).sum()), "label")
            found.append(
                f"{number} of {name!r} read {value:g}, far from all others ({low:g} to {high:g}): if that stands for "
                "no value, empty these cells"
            )
            numbers = numbers[numbers != value]
    if len(numbers) and numbers.min() > 0:
        low, high = np.quantile(numbers, _BULK)
        if np.log10(high / low) >= _DECADES:
            found.append(
                f"labels of {name!r} spread over {np.log10(high / low):.0f} powers of ten ({low:.3g} to {high:.3g}): "
                f"the largest decide what is learned; a column of logarithms (log10 of {name!r}) learns all of them"
            )
    return found


def molecule_keys(columns: Sequence[Sequence[str]]) -> list[str]:
    """Return one text for each row of SMILES, the same for the same molecules; "" where there is none."""
    read = [
        column
        if len(column) > MOST_COMPARED
        else [found or text for found, text in zip(canonical_smiles(column), column, strict=True)]
        for column in columns
    ]
    return [" + ".join(filter(None, row)) for row in zip(*read, strict=True)]


def graph_keys(graphs: Sequence[RawGraph | None], features: Mapping[str, Collection[str]]) -> list[str]:
    """Return a hash of each graph as it is written, nodes in order; "" where there is none, or there are too many.

    `features` are the columns of the "node"s and "edge"s that the model is given.
    """
    if len(graphs) > MOST_GRAPHS:
        return [""] * len(graphs)
    return ["" if graph is None else _digest(graph, features) for graph in graphs]


def _digest(graph: RawGraph, features: Mapping[str, Collection[str]]) -> str:
    found = hashlib.sha256(f"{graph.num_nodes} {graph.directed}".encode() + graph.edges.tobytes())
    for level, names in features.items():
        columns = graph.columns(level)
        for name in sorted(names & columns.keys()):
            column = columns[name]
            values = repr(column.tolist()).encode() if column.dtype == object else column.tobytes()
            found.update(f"{level} {name}".encode() + values)
    return found.hexdigest()


def repeats(
    keys: Sequence[str],
    names: Sequence[str],
    labels: NDArray[np.float64] | None,
    codes: Codes | None,
    *,
    classes: Sequence[bool],
    what: str,
    advice: str,
) -> list[str]:
    """Return warnings about rows that occur more than once; none where all is well.

    Equal rows have equal keys, and "" is not compared. `labels` are (R, T, 2) the lowest and the highest number that
    each can be, NaN where nothing bounds it; `classes` says which targets are classes, which differ, and which numbers,
    which may scatter. `codes` are (R,) the splits, None where rows are not divided. Messages have the
    `names` of rows, `what` a row is, and `advice` on rows in several splits.
    """
    number_of: dict[str, int] = {}
    numbers = np.array([number_of.setdefault(key, len(number_of)) for key in keys])
    known = np.flatnonzero(numbers != number_of.get("", -1))
    rows = known[np.argsort(numbers[known], kind="stable")]
    if not len(rows):
        return []
    starts = np.flatnonzero(np.diff(numbers[rows], prepend=-1))  # where the rows of the next key begin
    found = []
    if codes is not None:
        splits = np.bitwise_or.reduceat(_BITS[codes[rows]], starts)
        shared = np.flatnonzero(_SEVERAL[splits])
        if len(shared):
            first = names[rows[starts[shared[0]]]]
            where = " and ".join(name for code, name in enumerate(SPLITS) if splits[shared[0]] & _BITS[code])
            several = f"{counted(len(shared), what)} in several splits ({first}: {where})"
            found.append(f"{several}, which flatters the scores; {advice}")
    if labels is not None:
        columns = zip(classes, labels[:, :, 0].T, strict=True)
        spread = np.array([0.0 if is_class else _spread(column) for is_class, column in columns])
        lows, highs = labels[rows, :, 0], labels[rows, :, 1]
        low = np.maximum.reduceat(np.where(np.isnan(lows), -np.inf, lows), starts)
        high = np.minimum.reduceat(np.where(np.isnan(highs), np.inf, highs), starts)
        torn = np.argwhere(low - high > spread)  # the labels of a key have no number in common
        if len(torn):
            first, target = torn[0]
            is_class = classes[target]
            how = "different labels" if is_class else "labels that differ by more than the spread of most labels"
            between = "" if is_class else f": {high[first, target]:g} and {low[first, target]:g}"
            count = counted(len({*torn[:, 0].tolist()}), what)
            found.append(f"{count} more than once with {how} (e.g. {names[rows[starts[first]]]}{between})")
    return found


_NORMAL = 1.349  # the distance between the quartiles of a normal distribution, in standard deviations


def _spread(labels: NDArray[np.float64]) -> float:
    """Return the deviation of labels (R,) by their quartiles, which a few outliers do not change."""
    known = labels[~np.isnan(labels)]
    if not len(known):
        return 0.0
    low, high = np.quantile(known, (0.25, 0.75))
    return float(high - low) / _NORMAL or float(known.std())
