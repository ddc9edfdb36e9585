"""`CustomSource`: what the user's molecules and graphs have in common as sources; a subclass reads each of them."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.columns import (
    LARGEST,
    Column,
    RawData,
    as_numbers,
    missing_in,
    strange_label,
    text_of,
    texts_in,
)
from egt.data.infer import find_id
from egt.data.labels import label_doubts
from egt.data.schema import CustomSchema, Division, Feature, SplitPlan, divide, target_matrix
from egt.data.source import ALL, SPLITS, DataCard, Reading, Source
from egt.errors import DataError, EgtError
from egt.graph import Graph

VERSION = 3
MAX_GRAPHS_MEASURED = 1000

_NOT_IN_GRAPHS: Any = {"elements": True, "notes": True, "split": {"fold"}}
"""Of a schema: what changes no graph, or is in the division anyway."""

_LATER = (
    *("graph_features", "more_smiles", "standardize", "replicates", "groups", "row_weight"),
    *("pair_features", "positions", "place", "hydrogens", "symmetric", "self_pairs"),
)
"""What earlier schemas could not say: named in a fingerprint only where something is said."""

_SHOWN = 5

Built = tuple[Graph, str] | EgtError
"""A graph and a warning about it, or why there is none."""


@dataclass(frozen=True, eq=False)
class CustomRecord:
    """One row before it is read, with all that reading it needs.

    Fields:
        warning, error: what is already known about the row.
    """

    row: int  # the position in the data, from 0
    id: str  # the name of the graph
    values: NDArray[np.float32] | None  # (F,) features of the whole graph
    targets: tuple[float, ...] | None  # (T,) targets of the whole graph, or None
    warning: str
    error: str


class _Records(Sequence[Any]):
    """The records of some rows, each made when it is read: half a million of them would take seconds."""

    def __init__(self, make: Callable[[int], Any], rows: Sequence[int]) -> None:
        self._make, self._rows = make, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._make(row) for row in self._rows[index]]
        return self._make(self._rows[index])


class CustomSource(Source):
    """The user's data; made by `egt.data.custom.open_custom`.

    Splits are "train", "val" and "test" (when the data was divided) and always "all".
    """

    schema: CustomSchema

    def __init__(self, raw: RawData, schema: CustomSchema, division: Division | None) -> None:
        self.schema = schema
        self._raw, self._division = raw, division
        self._ids = _ids(raw, schema.id, is_new=division is None)
        self._targets, self._strange = _graph_targets(raw, schema)
        self._values, filled, self._unfit = graph_values(raw, schema.graph_features)
        for row, warning in filled.items():
            self._strange[row] = joined(self._strange.get(row, ""), warning)

    @abstractmethod
    def _record(self, row: int) -> Any:
        """Return the record of a row."""

    @abstractmethod
    def _build(self, records: Sequence[Any]) -> list[Built]:
        """Return the graphs of records without errors."""

    @abstractmethod
    def _size(self, row: int) -> tuple[int, int] | None:
        """Return the number of nodes and directed edges of a row without reading it; None if it cannot be read."""

    @abstractmethod
    def _label_columns(self) -> Mapping[str, Column]:
        """Return the labels of all rows, one column per target that the data has."""

    @abstractmethod
    def _repeats(self) -> list[str]:
        """Return warnings about rows that are there more than once."""

    def _label_bounds(self) -> NDArray[np.float64] | None:
        """(R, T, 2) the lowest and highest number of each label of the graphs; None where they cannot be compared."""
        if self._targets is None or self.schema.graph_features:  # under other conditions a label may differ
            return None
        table, nowhere = self._raw.table, np.full(self._raw.num_rows, np.nan)
        ends = [self.schema.encode(name, table.get(name, nowhere))[0][:, [0, -1]] for name in self.schema.targets]
        return np.stack(ends, axis=1)

    def _common(self, row: int) -> dict[str, Any]:
        """Return the fields that every record has."""
        return {
            "row": row,
            "id": self._ids[row],
            "values": None if self._values is None else self._values[row],
            "targets": None if self._targets is None else tuple(self._targets[row].tolist()),
            "warning": self._strange.get(row, ""),
            "error": self._raw.problems.get(row, "") or self._unfit.get(row, ""),
        }

    @cached_property
    def card(self) -> DataCard:
        total = self._raw.num_rows
        rows = np.unique(np.linspace(0, total - 1, min(total, MAX_GRAPHS_MEASURED)).astype(int)).tolist()
        sizes = (self._size(row) for row in rows if row not in self._raw.problems)
        measured = [size for size in sizes if size is not None]
        nodes = [num_nodes for num_nodes, _ in measured] or [0]
        return DataCard(
            name="custom",
            title=f"custom data: {self._raw.where}",
            schema=self.schema.features(),
            target=self.schema.target(),
            split_sizes={split: len(self.records(split)) for split in (SPLITS if self._division else (ALL,))},
            num_nodes=(min(nodes), float(np.mean(nodes)), max(nodes)),
            mean_edges=float(np.mean([num_edges for _, num_edges in measured] or [0])),
            checksums={self._raw.where: self._raw.digest},
            notes="" if len(measured) == total else f"sizes are estimated from {len(measured)} of {total} rows",
        )

    def changes(self) -> Sequence[tuple[Any, ...]]:
        return self._raw.changes

    @property
    def is_divided_within(self) -> bool:
        return self._division is not None and self._division.within

    def redivided(self, plan: SplitPlan) -> CustomSource:
        if plan == self.schema.split:
            return self
        schema = self.schema.model_copy(update={"split": plan})
        return type(self)(self._raw, schema, divide(self._raw, schema))

    def fingerprint(self) -> str:
        total = hashlib.sha256(f"custom {VERSION} {self._raw.digest}".encode())
        silent = dict(_NOT_IN_GRAPHS)
        # What earlier versions did not have, and this data does not have either:
        silent |= {name: True for name in _LATER if not getattr(self.schema, name)}
        schema = self.schema.model_dump(mode="json", exclude=silent)
        total.update(json.dumps(schema, sort_keys=True).encode())
        if self._division is not None:
            total.update(self._division.rows.tobytes())
            for row, codes in sorted(self._division.parts.items()):
                total.update(f"{row}".encode() + codes.tobytes())
        return total.hexdigest()

    def has_same_content(self, known: Mapping[str, Any]) -> bool:
        checksums: Mapping[str, str] = known.get("card", {}).get("checksums", {})
        return list(checksums.values()) == list(self.card.checksums.values())

    def records(self, split: str) -> Sequence[Any]:
        if split == ALL:
            return _Records(self._record, range(self._raw.num_rows))
        if self._division is None or split not in SPLITS:
            allowed = (ALL,) if self._division is None else (*SPLITS, ALL)
            raise DataError(f"{self._raw.where}: there is no split {split!r}; there are {', '.join(allowed)}")
        return _Records(self._record, np.flatnonzero(self._division.rows == SPLITS.index(split)).tolist())

    def read(self, record: CustomRecord) -> Reading:
        return self.read_all([record])[0]

    def read_all(self, records: Sequence[CustomRecord]) -> list[Reading]:
        built = iter(self._build([record for record in records if not record.error]))
        readings = []
        for record in records:
            found = DataError(record.error) if record.error else next(built)
            if isinstance(found, EgtError):
                error = record.error or f"{self._raw.place(record.row)}: {found}"
                readings.append(Reading(record.row, record.id, error=error))
                continue
            graph, warning = found
            if record.values is not None:
                graph = Graph.trusted(**{**vars(graph), "graph_values": record.values})
            readings.append(Reading(record.row, record.id, graph=graph, warning=joined(record.warning, warning)))
        return readings

    def warnings(self) -> list[str]:
        """Empty splits, labels that are not understood or doubtful, rows in several splits or of different labels."""
        doubts = list[str]()
        for name, column in self._label_columns().items():
            doubts += label_doubts(name, column, self.schema.group_of(name).classes)
        return [*self._empty_splits(), *self.unknown_labels(), *doubts, *self._repeats()]

    def _empty_splits(self) -> list[str]:
        """Return a warning for each split that has a share but no rows."""
        plan = self.schema.split
        if self._division is None or plan.kind == "column" or plan.fold is not None:
            return []
        shares = "/".join(f"{share:g}" for share in plan.fractions)
        return [
            f"no row is left for the {split} split: {self._raw.num_rows} rows are divided {plan.kind} {shares}; divide "
            "them otherwise to have one (--set split=random, split.fractions=[0.6, 0.2, 0.2], or a split column)"
            for split, share in zip(SPLITS, plan.fractions, strict=True)
            if share and not self.card.split_sizes[split]
        ]

    def unknown_labels(self) -> list[str]:
        found = []
        for name, column in self._label_columns().items():
            classes = self.schema.group_of(name).classes
            known = f"one of {', '.join(map(repr, classes[:10]))}" if classes else "a finite number"
            if count := Counter(self.schema.encode(name, column)[1]):
                values = ", ".join(f"{value!r} ({times})" for value, times in count.most_common(_SHOWN))
                more = f", ... {len(count)} in all" if len(count) > _SHOWN else ""
                labels = f"{count.total()} labels of {name!r}"
                found.append(f"{labels} are not {known}, and count as missing: {values}{more}")
        return found

    def missing_targets(self) -> list[str]:
        there = self._label_columns()
        return [name for name in self.schema.targets if name not in there]

    def columns(self, patterns: Sequence[str]) -> dict[str, list[str]]:
        columns = {name: column for name, column in self._raw.table.items() if column.ndim == 1}
        found: dict[str, None] = {}
        for pattern in patterns:
            names = [name for name in columns if name == pattern or fnmatchcase(name, pattern)]
            if not names and pattern != "*":  # all columns, even if there are none
                where, there = self._raw.where, ", ".join(columns) or "none"
                raise DataError(f"{where}: there is no column {pattern!r} to keep; the columns are {there}")
            found |= dict.fromkeys(names)
        return {name: texts_in(columns[name]) for name in found}


def joined(*warnings: str) -> str:
    """Return several warnings as one."""
    return "; ".join(filter(None, warnings))


def _ids(raw: RawData, name: str, *, is_new: bool) -> list[str]:
    """Name the rows: by the id column (in new data any that looks like one), else by their numbers from 0."""
    if name not in raw.table:
        guesses = is_new and not raw.first_row  # the first part of a file has decided for the others
        name = find_id(raw.table, None, raw.where) if guesses else ""
    if not name:
        return [str(raw.first_row + row) for row in range(raw.num_rows)]
    return [text or f"row {row + 1}" for row, text in enumerate(texts_in(raw.table[name]), start=raw.first_row)]


def _graph_targets(raw: RawData, schema: CustomSchema) -> tuple[NDArray[np.float64] | None, dict[int, str]]:
    """(R, columns) targets of the graphs, None if there are none, and warnings of labels that are not understood."""
    if schema.level != "graph" or not any(name in raw.table for name in schema.targets):
        return None, {}
    targets = target_matrix(raw.table, schema, raw.num_rows)
    warnings: dict[int, str] = {}
    for name in [name for name in schema.targets if name in raw.table]:
        column = raw.table[name]
        labels, strange = schema.encode(name, column)
        if strange:
            for row in np.flatnonzero(np.isnan(labels).all(1) & ~missing_in(column)).tolist():
                warnings[row] = strange_label(name, text_of(column[row]), schema.group_of(name).classes)
    if schema.row_weight:
        targets = np.concatenate([targets, row_weights(raw, schema.row_weight)[:, None]], axis=1)
    return targets, warnings


def row_weights(raw: RawData, name: str) -> NDArray[np.float64]:
    """(R,) what the labels of each row count: 1 where the data does not say it; a `DataError` below 0."""
    if name not in raw.table:
        return np.ones(raw.num_rows)
    weights, strange = as_numbers(raw.table[name])
    if weights.ndim > 1 or strange:
        what = repr(strange[0]) if strange else "lists"
        raise DataError(f"{raw.where}: weight column {name!r} holds {what}; give one number in each row")
    if (bad := np.flatnonzero((weights < 0) | (weights > LARGEST))).size:
        raise DataError(f"{raw.place(int(bad[0]))}: weight {name!r} is {weights[bad[0]]:g}; give a number from 0 on")
    return np.where(np.isnan(weights), 1.0, weights)


Messages = dict[int, str]


def graph_values(raw: RawData, features: Sequence[Feature]) -> tuple[NDArray[np.float32] | None, Messages, Messages]:
    """Return the standardized numbers of all rows, (R, F), warnings about missing ones, and errors, by row."""
    values: list[NDArray[np.float64]] = []
    filled: Messages = {}
    errors: Messages = {}
    for feature in features:
        column = raw.table[feature.name]
        numbers = as_numbers(column)[0].reshape(raw.num_rows, -1 if raw.num_rows else feature.width)
        missing, beyond = missing_in(column), np.abs(numbers) > LARGEST
        try:
            values.append(standardized(np.where(beyond, np.nan, numbers), feature, []))
        except DataError as error:
            raise DataError(f"{raw.where}: feature {error}") from error
        for row in np.flatnonzero(missing).tolist():
            filled[row] = joined(
                filled.get(row, ""), f"feature {feature.name!r} is missing: the training mean is taken"
            )
        for row in np.flatnonzero((np.isnan(numbers) | beyond).any(axis=1) & ~missing).tolist():
            shown = f"{text_of(column[row])!r}" if column.ndim == 1 else f"{column[row]}"
            errors.setdefault(row, f"{raw.place(row)}: feature {feature.name!r} is {shown}, not a finite number")
    return np.concatenate(values, axis=1).astype(np.float32) if values else None, filled, errors


def standardized(column: Column, feature: Feature, warnings: list[str]) -> NDArray[np.float64]:
    """(n, width) the standardized numbers of a continuous feature; what had to be filled in goes to `warnings`."""
    numbers, strange = as_numbers(column)
    if strange:
        raise DataError(f"{feature.name!r} is {strange[0]!r}, not a number")
    numbers = numbers.reshape(len(numbers), -1) if numbers.size else np.zeros((len(numbers), feature.width))
    if numbers.shape[1] != feature.width:
        raise DataError(f"{feature.name!r} has {numbers.shape[1]} numbers per row; it must have {feature.width}")
    missing = np.isnan(numbers)
    beyond = numbers[np.abs(numbers) > LARGEST]
    if beyond.size:
        raise DataError(f"{feature.name!r} is {beyond[0]:g}; numbers must be finite, up to {LARGEST:.2g}")
    if feature.mean:
        numbers = (numbers - np.array(feature.mean)) / np.array(feature.std)
    if missing.any():
        filling = "the training mean" if feature.mean else "0"
        warnings.append(f"{int(missing.sum())} missing values of {feature.name!r} filled with {filling}")
    return np.where(missing, 0.0, numbers)
