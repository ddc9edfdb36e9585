"""The user's data as a source, `CustomSource`: tables of molecules, or graphs of any format.

Several molecules of a row (`--smiles solute solvent`) are one graph of components, whose atoms know their column.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from egt.data.columns import (
    LARGEST,
    Column,
    Columns,
    RawData,
    RawGraph,
    as_numbers,
    columns_at,
    missing_in,
    text_of,
    texts_in,
)
from egt.data.infer import find_id, find_smiles_of
from egt.data.labels import (
    encode_labels,
    graph_keys,
    label_doubts,
    lists_of,
    molecule_keys,
    part_targets,
    repeats,
    with_part_targets,
)
from egt.data.links import count_links, hide_links, link_graph, query_edges
from egt.data.molecules import elements_of, graphs_from_smiles, parse_smiles, without_name
from egt.data.schema import CustomSchema, Division, Feature, SplitPlan, column_split, divide
from egt.data.source import ALL, SPLITS, DataCard, Reading, Source
from egt.errors import DataError, EgtError, counted
from egt.graph import UNKNOWN, Graph, IntArray

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

Built = tuple[Graph, str] | EgtError  # a graph and a warning about it, or why there is none


class CustomSource(Source):
    """The user's data; made by `egt.data.custom.open_custom`.

    Splits are "train", "val" and "test" (when the data was divided) and always "all".
    """

    schema: CustomSchema

    def __init__(self, raw: RawData, schema: CustomSchema, division: Division | None) -> None:
        self.schema = schema
        self._raw, self._division = raw, division
        self._ids = _ids(raw, schema.id, is_new=division is None)
        self._targets, self._row_warnings = _graph_targets(raw, schema)
        self._values, filled, self._row_errors = graph_values(raw, schema.graph_features)
        for row, warning in filled.items():
            self._row_warnings[row] = join_warnings(self._row_warnings.get(row, ""), warning)

    @abstractmethod
    def _build(self, records: Sequence[Any]) -> list[Built]:
        """Return the graphs of records without errors."""

    def _rows_of(self, records: Sequence[Any]) -> Sequence[int]:
        """Return the row of each record, which is the record itself where nothing else is said."""
        return records

    def _error(self, row: int) -> str:
        """Return why a row cannot be read, as far as that is known before it is read."""
        return self._raw.problems.get(row, "") or self._row_errors.get(row, "")

    @abstractmethod
    def _size(self, row: int) -> tuple[int, int] | None:
        """Return the number of nodes and directed edges of a row without reading it; None if it cannot be read."""

    @abstractmethod
    def _label_columns(self) -> Mapping[str, Column]:
        """Return the labels of all rows, one column per target that the data has."""

    @abstractmethod
    def _repeats(self) -> list[str]:
        """Return warnings about rows that are there more than once."""

    def _find_repeats(self, keys: Sequence[str], names: Sequence[str], what: str, advice: str) -> list[str]:
        """Return warnings about rows with the same keys; see `repeats`."""
        codes = None if self._division is None else self._division.rows
        classes = [bool(self.schema.group_of(name).classes) for name in self.schema.targets]
        return repeats(keys, names, self._label_bounds(), codes, classes=classes, what=what, advice=advice)

    def _label_bounds(self) -> NDArray[np.float64] | None:
        """(R, T, 2) the lowest and highest number of each label of the graphs; None where they cannot be compared."""
        if self._targets is None or self.schema.graph_features:  # under other conditions a label may differ
            return None
        table, nowhere = self._raw.table, np.full(self._raw.num_rows, np.nan)
        ends = [self.schema.encode(name, table.get(name, nowhere))[0][:, [0, -1]] for name in self.schema.targets]
        return np.stack(ends, axis=1)

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
            return range(self._raw.num_rows)
        if self._division is None or split not in SPLITS:
            allowed = (ALL,) if self._division is None else (*SPLITS, ALL)
            raise DataError(f"{self._raw.where}: there is no split {split!r}; there are {', '.join(allowed)}")
        rows: list[int] = np.flatnonzero(self._division.rows == SPLITS.index(split)).tolist()
        return rows

    def read(self, record: Any) -> Reading:
        return self.read_all([record])[0]

    def read_all(self, records: Sequence[Any]) -> list[Reading]:
        rows = self._rows_of(records)
        errors = [self._error(row) for row in rows]
        built = iter(self._build([record for record, error in zip(records, errors, strict=True) if not error]))
        readings = []
        for row, error in zip(rows, errors, strict=True):
            found = DataError(error) if error else next(built)
            if isinstance(found, EgtError):
                readings.append(Reading(row, self._ids[row], error=error or f"{self._raw.place(row)}: {found}"))
                continue
            graph, warning = found
            if self._values is not None:
                graph = Graph.trusted(**{**vars(graph), "graph_values": self._values[row]})
            warning = join_warnings(self._row_warnings.get(row, ""), warning)
            readings.append(Reading(row, self._ids[row], graph=graph, warning=warning))
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


def join_warnings(*warnings: str) -> str:
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
    columns: list[NDArray[np.float64]] = []
    warnings: dict[int, str] = {}
    for name in schema.targets:
        labels, unknown = encode_labels(name, raw.table.get(name, np.full(raw.num_rows, np.nan)), schema)
        columns.append(labels)
        warnings |= unknown
    if schema.row_weight:
        columns.append(row_weights(raw, schema.row_weight)[:, None])
    return np.concatenate(columns, axis=1), warnings


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
            values.append(standardize_column(np.where(beyond, np.nan, numbers), feature, []))
        except DataError as error:
            raise DataError(f"{raw.where}: feature {error}") from error
        for row in np.flatnonzero(missing).tolist():
            filled[row] = join_warnings(
                filled.get(row, ""), f"feature {feature.name!r} is missing: the training mean is taken"
            )
        for row in np.flatnonzero((np.isnan(numbers) | beyond).any(axis=1) & ~missing).tolist():
            shown = f"{text_of(column[row])!r}" if column.ndim == 1 else f"{column[row]}"
            errors.setdefault(row, f"{raw.place(row)}: feature {feature.name!r} is {shown}, not a finite number")
    return np.concatenate(values, axis=1).astype(np.float32) if values else None, filled, errors


def standardize_column(column: Column, feature: Feature, warnings: list[str]) -> NDArray[np.float64]:
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


_ATOM = re.compile(r"\[(?!\d*H[+\]])[^\]]*\]|Br|Cl|[BCNOPSFI*bcnops]")
_RING = re.compile(r"%\d\d|\d")


class MoleculeRows(CustomSource):
    """A table with a molecule, or several, in each row."""

    def __init__(self, raw: RawData, schema: CustomSchema, division: Division | None) -> None:
        super().__init__(raw, schema, division)
        names = find_smiles_of(schema.smiles_columns, raw.table, raw.where)
        self._columns = [texts_in(raw.table[name]) for name in names]
        self._texts = self._columns  # which may say where atoms are
        if schema.positions == ("file",):
            if raw.placed is not None:  # a molecule without coordinates is read without them
                self._texts = [
                    [place or text for place, text in zip(texts_in(raw.placed), *self._columns, strict=True)]
                ]
            self._columns = [[text.partition(" |")[0] for text in column] for column in self._columns]
        self._parts = None
        if schema.level in ("node", "edge"):
            self._parts, unknown = part_targets(raw, schema)
            self._row_warnings |= unknown

    def _error(self, row: int) -> str:
        smiles = [column[row] for column in self._texts]
        if (error := super()._error(row)) or all(smiles):
            return error
        column = f" of column {self.schema.smiles_columns[smiles.index('')]!r}" if len(smiles) > 1 else ""
        return f"{self._raw.place(row)}: the SMILES{column} is missing"

    def _build(self, records: Sequence[int]) -> list[Built]:
        given: dict[str, Any] = {
            "vocabulary": self.schema.vocabulary,
            "canonical": self.schema.canonical,
            "hydrogens": self.schema.hydrogens,
            "placement": self.schema.placement if self._places_targets else None,
            "ids": [self._ids[row] for row in records],
            "graph_targets": [None if self._targets is None else self._targets[row] for row in records],
        }
        columns = [[column[row] for row in records] for column in self._texts]
        built = [graphs_from_smiles(column, **given) for column in columns]
        whole = built[0] if len(built) == 1 else [self._join(parts) for parts in zip(*built, strict=True)]
        any_unseen = bool(self._unseen_elements([text for column in columns for text in column]))
        found: list[Built] = []
        for row, smiles, molecule in zip(records, zip(*columns, strict=True), whole, strict=True):
            try:
                if isinstance(molecule, EgtError):
                    raise molecule
                graph, warning = molecule
                if self._parts is not None:
                    graph = with_part_targets(graph, self._parts[row], self.schema)
                if self.schema.predicts_distances:
                    graph, warning = with_distances(graph), warning if self._division is not None else ""
                found.append((graph, join_warnings(warning, self._unseen_elements(smiles) if any_unseen else "")))
            except EgtError as error:
                found.append(error)
        return found

    @property
    def _places_targets(self) -> bool:
        """Whether RDKit has to place atoms: not for distances that nothing is compared with."""
        return self._division is not None or not self.schema.predicts_distances or self.schema.positions == ("file",)

    def missing_targets(self) -> list[str]:
        if self.schema.predicts_distances:
            return [] if self._places_targets else [*self.schema.targets]
        return super().missing_targets()

    def _join(self, parts: Sequence[Built]) -> Built:
        """Return the molecules of a row as one graph, without an edge between them; the targets are those of all.

        The component is the last category of each atom.
        """
        graphs, warnings = [], []
        for part, column in zip(parts, self.schema.smiles_columns, strict=True):
            if isinstance(part, EgtError):
                return DataError(f"column {column!r}: {part}")
            graph, warning = part
            graphs.append(graph)
            warnings += [f"column {column!r}: {warning}"] if warning else []
        counts = [graph.num_nodes for graph in graphs]
        starts = list(accumulate(counts[:-1], initial=0))
        arrays: dict[str, NDArray[Any]] = {
            "edge_index": np.concatenate(
                [graph.edge_index + start for graph, start in zip(graphs, starts, strict=True)], axis=1
            ),
            "node_categories": np.column_stack(
                [np.concatenate([graph.node_categories for graph in graphs]), np.repeat(np.arange(len(graphs)), counts)]
            ),
        }
        for name in ("node_values", "edge_categories", "edge_values"):
            arrays[name] = np.concatenate([getattr(graph, name) for graph in graphs])
        if self.schema.canonical:
            arrays["ranks"] = np.concatenate(
                [graph.ranks + start for graph, start in zip(graphs, starts, strict=True) if graph.ranks is not None]
            )
        for array in arrays.values():
            array.setflags(write=False)
        return Graph.trusted(**{**vars(graphs[0]), "num_nodes": sum(counts), **arrays}), "; ".join(warnings)

    def _unseen_elements(self, smiles: Sequence[str]) -> str:
        """Return which elements of new molecules training never saw."""
        if self._division is not None or not self.schema.elements:
            return ""
        unseen = sorted(elements_of(smiles) - set(self.schema.elements))
        return f"not in the training molecules: {', '.join(unseen)}" if unseen else ""

    def _size(self, row: int) -> tuple[int, int] | None:
        """Estimate atoms and, in both directions, bonds: a chain has one bond less than atoms, a ring as many."""
        if self.schema.hydrogens:
            found = [molecule for molecule, _ in self._parsed(row) if not isinstance(molecule, EgtError)]
            atoms = sum(molecule.GetNumAtoms() for molecule in found)
            return (atoms, 2 * sum(molecule.GetNumBonds() for molecule in found)) if atoms else None
        smiles = ".".join(without_name(column[row]) for column in self._columns)
        atoms = len(_ATOM.findall(smiles))
        outside = re.sub(r"\[[^\]]*\]", "", smiles)
        bonds = atoms - 1 - outside.count(".") + len(_RING.findall(outside)) // 2
        return (atoms, 2 * max(bonds, 0)) if atoms else None

    def _parsed(self, row: int) -> list[tuple[Any, str]]:
        return parse_smiles([column[row] for column in self._texts], hydrogens=self.schema.hydrogens)

    def smiles(self) -> list[str]:
        return [".".join(filter(None, texts)) for texts in zip(*self._columns, strict=True)]

    def components(self) -> dict[str, list[str]]:
        if not self.schema.more_smiles:
            return {}
        return dict(zip(self.schema.smiles_columns, self._columns, strict=True))

    def names(self, row: int) -> Sequence[str]:
        if self._parts is None and not self.schema.hydrogens:
            return ()
        molecules = [molecule for molecule, _ in self._parsed(row) if not isinstance(molecule, EgtError)]
        return [atom.GetSymbol() for molecule in molecules for atom in molecule.GetAtoms()]

    def _label_columns(self) -> Mapping[str, Column]:
        columns = {name: self._raw.table[name] for name in self.schema.targets if name in self._raw.table}
        return columns if self._parts is None else {name: lists_of(column).values for name, column in columns.items()}

    def _repeats(self) -> list[str]:
        keys = molecule_keys(self._columns)
        return self._find_repeats(keys, keys, "molecule", "remove repetitions, or divide with --set split=scaffold")


class GraphRecord(NamedTuple):
    """A row, and the split whose nodes or edges are scored where graphs are divided within."""

    row: int
    split: str = ALL
    number: int = 0  # which of the graphs of `link_graph`


class GraphRows(CustomSource):
    """Graphs of files and objects."""

    def records(self, split: str) -> Sequence[GraphRecord]:
        division = self._division
        if division is None or not division.within or split not in SPLITS:
            return [GraphRecord(row) for row in super().records(split)]
        if self.schema.level != "link":
            code = SPLITS.index(split)
            return [GraphRecord(row, split) for row, codes in division.parts.items() if (codes == code).any()]
        records = []
        for row, codes in division.parts.items():
            graph = self._raw.graphs[row]
            if graph is not None:
                directed = self.schema.is_directed(graph.directed)
                count = count_links(graph.edges, codes, graph.num_nodes, directed=directed)[split]
                records += [GraphRecord(row, split, number) for number in range(count)]
        return records

    def _rows_of(self, records: Sequence[GraphRecord]) -> Sequence[int]:
        return [record.row for record in records]

    def _build(self, records: Sequence[GraphRecord]) -> list[Built]:
        return [self._build_one(record) for record in records]

    def _build_one(self, record: GraphRecord) -> Built:
        raw_graph = self._raw.graphs[record.row]
        if raw_graph is None:
            return DataError("the row holds no graph")
        level, directed = self.schema.level, self.schema.is_directed(raw_graph.directed)
        try:
            graph, warnings = build_graph(
                raw_graph,
                self.schema,
                id=self._ids[record.row],
                graph_targets=None if self._targets is None else self._targets[record.row],
                scored=None if record.split == ALL or level == "link" else self._part(record.row, record.split),
                known=self._known(record.row, raw_graph) if level == "node" else None,
            )
            if level == "link" and graph.query_index is None:
                graph = self._hide(graph, record, directed=directed)
            elif level == "link" and (known := query_edges(graph)):
                pairs = counted(known, "query pair")
                warnings.append(f"{pairs} among the edges of the graph: the model sees the answer")
        except EgtError as error:
            return error
        return graph, join_warnings(*warnings)

    def _part(self, row: int, split: str) -> NDArray[np.bool_]:
        """(N,) or (E',) the nodes or listed edges of a graph that are in a split."""
        assert self._division is not None
        part: NDArray[np.bool_] = self._division.parts[row] == SPLITS.index(split)
        return part

    def _known(self, row: int, graph: RawGraph) -> NDArray[np.bool_] | None:
        """(N,) the nodes whose label a model may read; None for all that have one."""
        if self._division is not None:
            return self._part(row, "train") if self._division.within else np.zeros(graph.num_nodes, bool)
        column = graph.nodes.get(self.schema.split.column)
        return None if column is None else column_split(column, self._raw.where) == 0

    def _hide(self, graph: Graph, record: GraphRecord, *, directed: bool) -> Graph:
        """Return the graph with edges hidden to be predicted."""
        plan = self.schema.split
        if record.split != ALL:
            return link_graph(
                graph, record.split, record.number, fractions=plan.shares, directed=directed, seed=plan.seed
            )
        if self._division is None:
            raise DataError("link prediction on new data needs the pairs to ask about: give queries (docs/data.md)")
        return hide_links(graph, directed=directed, seed=plan.seed + record.row)

    def rows_in(self, split: str, row: int) -> NDArray[np.bool_] | None:
        if self._division is None or not self._division.within or self.schema.level == "link" or split == ALL:
            return None
        listed = self._part(row, split)
        graph = self._raw.graphs[row]
        if self.schema.level == "pair" and graph is not None:
            i, j = query_pairs(graph, self.schema)
            asked: NDArray[np.bool_] = listed[i * graph.num_nodes + j]
            return asked
        return listed if self.schema.level == "node" or graph is None else listed[self._merged(graph).rows]

    def _merged(self, graph: RawGraph) -> MergedEdges:
        """Return the edges of a graph as it is read, those with ends that are no nodes left out."""
        edges = graph.edges[:, ((graph.edges >= 0) & (graph.edges < graph.num_nodes)).all(axis=0)]
        return merge_edges(edges, None, graph.num_nodes, directed=self.schema.is_directed(graph.directed))

    def _size(self, row: int) -> tuple[int, int] | None:
        graph = self._raw.graphs[row]
        return None if graph is None else (graph.num_nodes, self._merged(graph).index.shape[1])

    def names(self, row: int) -> Sequence[str]:
        graph = self._raw.graphs[row]
        if graph is None or all(name == str(k) for k, name in enumerate(graph.names)):
            return ()
        return graph.names

    def missing_targets(self) -> list[str]:
        if self.schema.level != "link":
            return [] if self.schema.predicts_distances else super().missing_targets()
        labeled = any(graph is not None and graph.query_targets is not None for graph in self._raw.graphs)
        return [] if labeled else list(self.schema.target().names)

    def _label_columns(self) -> Mapping[str, Column]:
        there = columns_at(self._raw, self.schema.level) if self.schema.targets else {}
        return {name: there[name] for name in self.schema.targets if name in there}

    def _repeats(self) -> list[str]:
        if self._division is None or self._division.within:
            return []
        schema = self.schema
        levels = schema.features_by_level.items()
        used = {level: {each.name for each in some if each.kind != "ignored"} for level, some in levels}
        used["node"] |= {*schema.positions}
        return self._find_repeats(graph_keys(self._raw.graphs, used), self._ids, "graph", "remove repetitions")


def build_graph(
    raw_graph: RawGraph,
    schema: CustomSchema,
    *,
    id: str,
    graph_targets: Sequence[float] | None = None,
    scored: NDArray[np.bool_] | None = None,
    known: NDArray[np.bool_] | None = None,
) -> tuple[Graph, list[str]]:
    """Return the graph of a raw one, and warnings about what had to be filled in; an error where it breaks the schema.

    Only the nodes or listed edges that are `scored`, (N,) or (E',), keep their targets; None: all. Of the nodes that
    are `known` (N,), models that read labels are given the class; None: of all that have one.
    """
    num_nodes, edges = raw_graph.num_nodes, raw_graph.edges
    if edges.size and (edges.min() < 0 or edges.max() >= num_nodes):
        raise DataError(f"an edge names node {int(edges.max())}, but nodes are numbered 0..{num_nodes - 1}")
    warnings: list[str] = []
    if raw_graph.directed is not None and schema.directed is not None and raw_graph.directed != schema.directed:
        warnings.append(f"the graph says directed={raw_graph.directed}, read as directed={schema.directed}")
    directed = schema.is_directed(raw_graph.directed)
    merged = merge_edges(edges, _weights(raw_graph, schema, warnings), num_nodes, directed=directed)
    if merged.num_merged:
        warnings.append(f"{merged.num_merged} parallel edges merged (weights summed, first features kept)")
    edge_columns = {name: column[merged.rows] for name, column in raw_graph.edge_columns.items()}
    if merged.weight is not None:
        edge_columns[schema.weight] = merged.weight
    node_categories, node_values = _features(raw_graph.nodes, schema.node_features, num_nodes, warnings)
    edge_categories, edge_values = _features(edge_columns, schema.edge_features, len(merged.rows), warnings)
    dense = _pair_features(raw_graph, schema.pair_features, warnings)
    if schema.place:
        dense["positions"] = _positions(raw_graph.nodes, schema, num_nodes)
    targets: dict[str, Any] = {}
    if schema.level == "graph":
        targets["graph_targets"] = graph_targets
    elif schema.level == "node":
        labels = _targets(raw_graph.nodes, schema, warnings)
        targets["node_targets"] = _keep_scored(labels, scored)
        if labels is not None and schema.target().num_label_classes:
            classes = np.nan_to_num(labels[:, 0], nan=UNKNOWN).astype(np.int64)
            targets["known_labels"] = classes if known is None else np.where(known, classes, UNKNOWN)
    elif schema.level == "edge":
        listed = _keep_scored(_targets(raw_graph.edge_columns, schema, warnings), scored)
        targets["edge_targets"] = None if listed is None else listed[merged.rows]
    elif schema.level == "pair":
        index = targets["query_index"] = query_pairs(raw_graph, schema)
        targets["edge_targets"] = _pair_targets(raw_graph, schema, index, scored, warnings)
    elif raw_graph.queries is not None:
        targets["query_index"], targets["edge_targets"] = raw_graph.queries, raw_graph.query_targets
    graph = Graph(
        num_nodes=num_nodes,
        edge_index=merged.index,
        node_categories=node_categories,
        node_values=node_values.astype(np.float32),
        edge_categories=edge_categories,
        edge_values=edge_values.astype(np.float32),
        edge_weight=None if merged.weight is None else merged.weight.astype(np.float32),
        id=id,
        **dense,
        **targets,
    )
    return with_distances(graph, scored) if schema.predicts_distances else graph, warnings


def query_pairs(raw_graph: RawGraph, schema: CustomSchema) -> IntArray:
    """(2, R) the pairs that a graph asks about: those that it lists, else all, once if they have no direction."""
    if raw_graph.queries is not None:
        return raw_graph.queries
    return every_pair(raw_graph.num_nodes, is_once=schema.symmetric, with_self=schema.self_pairs)


def every_pair(num_nodes: int, *, is_once: bool, with_self: bool) -> IntArray:
    """(2, R) all pairs of nodes; once: i <= j only."""
    i, j = np.indices((num_nodes, num_nodes)).reshape(2, -1)
    chosen = (i < j if is_once else i != j) | (with_self & (i == j))
    return np.stack([i[chosen], j[chosen]])


def _pair_targets(
    raw_graph: RawGraph,
    schema: CustomSchema,
    index: IntArray,
    scored: NDArray[np.bool_] | None,
    warnings: list[str],
) -> NDArray[np.float64] | None:
    """(R, columns) targets of the pairs; of pairs without a direction, those of either one."""
    columns = {} if schema.predicts_distances else raw_graph.columns("pair")
    listed = _keep_scored(_targets(columns, schema, warnings), scored)
    if listed is None:
        return None
    n, (i, j) = raw_graph.num_nodes, index
    opposite = listed[j * n + i] if schema.symmetric else np.nan
    return np.where(np.isnan(listed[i * n + j]), opposite, listed[i * n + j])


def with_distances(graph: Graph, scored: NDArray[np.bool_] | None = None) -> Graph:
    """Return a graph with the distances of its positions as targets of all pairs, and without the positions.

    The mean over conformers counts. Only pairs that are `scored`, (N^2,), keep their target.
    """
    index = graph.query_index
    if index is None:
        index = every_pair(graph.num_nodes, is_once=True, with_self=False)
    distances = None
    if graph.positions is not None:
        i, j = index
        places = graph.positions.reshape(graph.num_nodes, -1, graph.positions.shape[-1]).astype(np.float64)
        distances = np.linalg.norm(places[i] - places[j], axis=-1).mean(axis=1, keepdims=True)  # (R, 1)
        if scored is not None:
            distances[~scored[i * graph.num_nodes + j]] = np.nan
        distances.setflags(write=False)
    index.setflags(write=False)
    return Graph.trusted(**{**vars(graph), "query_index": index, "edge_targets": distances, "positions": None})


def _pair_features(raw_graph: RawGraph, features: Sequence[Feature], warnings: list[str]) -> dict[str, Any]:
    """Return the fields of a graph that hold its matrices; unlike features of nodes, missing entries stay missing."""
    n, columns = raw_graph.num_nodes, raw_graph.columns("pair")
    ids: list[IntArray] = []
    values: list[NDArray[np.float64]] = []
    for feature in features:
        if feature.kind == "ignored":
            continue
        column = columns.get(feature.name)
        if column is None:
            warnings.append(f"the matrix {feature.name!r} is missing: every entry counts as unknown")
            column = np.full((n * n, feature.width) if feature.width > 1 else n * n, np.nan)
        if feature.kind == "categorical":
            ids.append(_category_ids(column, feature, []))
        else:
            missing = np.isnan(as_numbers(column)[0].reshape(n * n, -1))
            values.append(np.where(missing, np.nan, standardize_column(column, feature, [])))
    return {
        "pair_categories": np.stack(ids, axis=-1).reshape(n, n, -1) if ids else None,
        "pair_values": np.concatenate(values, axis=1).reshape(n, n, -1) if values else None,
    }


def _positions(columns: Columns, schema: CustomSchema, num_nodes: int) -> NDArray[np.float64]:
    """(N, axes) or (N, conformers, axes) the places of the nodes."""
    axes = schema.place[-1]
    are_vectors = len(schema.place) == 2 or len(schema.positions) == 1
    unknown = np.full((num_nodes, axes) if are_vectors else num_nodes, np.nan)
    found = []
    for name in schema.positions:
        numbers, strange = as_numbers(columns.get(name, unknown))
        if strange or numbers.shape[1:] != ((axes,) if are_vectors else ()):
            given = repr(strange[0]) if strange else f"of shape {numbers.shape[1:]} for each node"
            raise DataError(f"the position {name!r} is {given}; it must be {axes if are_vectors else 'one'} numbers")
        found.append(numbers)
    return np.stack(found, axis=1).reshape(num_nodes, *schema.place)


@dataclass(frozen=True, eq=False)
class MergedEdges:
    """Edges without repetitions."""

    index: IntArray  # (2, E) directed edges, in the order of the list, added opposites last
    rows: IntArray  # (E,) the listed edge that each one takes its features from
    weight: NDArray[np.float64] | None  # (E,) sums of the merged weights, or None
    num_merged: int  # how many listed edges were merged into an earlier one


def merge_edges(edges: IntArray, weight: NDArray[np.float64] | None, num_nodes: int, *, directed: bool) -> MergedEdges:
    """Merge parallel edges (weights are summed, the first one's features kept) and add missing opposite directions.

    The (2, E') edges may list an undirected one once or in both directions. If they are `directed`, an edge i -> j says
    nothing about j -> i.
    """
    keys = edges[0] * num_nodes + edges[1]
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rows = first[order]
    total: NDArray[np.float64] | None = None
    if weight is not None:
        total = np.bincount(group, weights=weight, minlength=len(first))[order].astype(np.float64)
    index = edges[:, rows]
    if not directed:
        opposite = index[1] * num_nodes + index[0]
        lonely = np.flatnonzero(~np.isin(opposite, keys))
        index = np.concatenate([index, index[::-1, lonely]], axis=1)
        rows = np.concatenate([rows, rows[lonely]])
        total = None if total is None else np.concatenate([total, total[lonely]])
    return MergedEdges(index, rows, total, num_merged=edges.shape[1] - len(first))


def _weights(raw_graph: RawGraph, schema: CustomSchema, warnings: list[str]) -> NDArray[np.float64] | None:
    if not schema.weight or (schema.format == "graphs" and schema.weight not in raw_graph.edge_columns):
        return None
    num_edges = raw_graph.edges.shape[1]
    column = raw_graph.edge_columns.get(schema.weight, np.full(num_edges, np.nan))
    numbers, strange = as_numbers(column)
    if strange:
        raise DataError(f"edge weight {schema.weight!r} is {strange[0]!r}, not a number")
    weight = numbers.reshape(-1)
    if len(weight) != num_edges:
        raise DataError(f"edge weight {schema.weight!r} must be one number per edge")
    missing = np.isnan(weight)
    beyond = weight[np.abs(weight) > LARGEST]
    if beyond.size:
        raise DataError(f"edge weight {schema.weight!r} is {beyond[0]:g}; weights must be finite, up to {LARGEST:.2g}")
    if missing.any():
        warnings.append(f"{int(missing.sum())} missing weights set to 1")
    return np.where(missing, 1.0, weight)


def _features(
    columns: Columns, features: Sequence[Feature], num_rows: int, warnings: list[str]
) -> tuple[IntArray, NDArray[np.float64]]:
    """(n, categorical columns) ids and (n, total width) numbers."""
    ids = [np.zeros((num_rows, 0), dtype=np.int64)]
    values = [np.zeros((num_rows, 0))]
    for feature in features:
        if feature.kind == "ignored":
            continue
        column = columns.get(feature.name)
        if column is None:
            column = np.full((num_rows, feature.width) if feature.width > 1 else num_rows, np.nan)
        if feature.kind == "categorical":
            ids.append(_category_ids(column, feature, warnings)[:, None])
        else:
            values.append(standardize_column(column, feature, warnings))
    return np.concatenate(ids, axis=1), np.concatenate(values, axis=1)


def _category_ids(column: Column, feature: Feature, warnings: list[str]) -> IntArray:
    if column.ndim != 1:
        raise DataError(f"{feature.name!r} holds vectors; it must hold one category per row")
    id_of = {value: number for number, value in enumerate(feature.vocabulary)}
    missing = missing_in(column)
    texts = [None if absent else text_of(value) for value, absent in zip(column, missing, strict=True)]
    ids = np.array([UNKNOWN if text is None else id_of.get(text, UNKNOWN) for text in texts], dtype=np.int64)
    unseen = sorted({text for text, id in zip(texts, ids, strict=True) if text is not None and id == UNKNOWN})
    if unseen:
        warnings.append(f"{feature.name!r} holds categories not seen in training: {', '.join(unseen[:5])}")
    if missing.any():
        warnings.append(f"{int(missing.sum())} missing categories of {feature.name!r} left unknown")
    return ids


def _targets(columns: Columns, schema: CustomSchema, warnings: list[str]) -> NDArray[np.float64] | None:
    """(n, columns) targets, or None when no target column is there (new data to predict)."""
    there = [name for name in schema.targets if name in columns]
    if not there:
        return None
    nowhere = np.full(len(columns[there[0]]), np.nan)
    targets = []
    for name in schema.targets:
        column = columns.get(name, nowhere)
        if column.ndim != 1:
            raise DataError(f"the target {name!r} holds vectors; it must hold one label per row")
        labels, unknown = encode_labels(name, column, schema)
        targets.append(labels)
        warnings += [*unknown.values()][:1]
    return np.concatenate(targets, axis=1)


def _keep_scored(targets: NDArray[np.float64] | None, scored: NDArray[np.bool_] | None) -> NDArray[np.float64] | None:
    """Return the targets of what is scored; NaN elsewhere."""
    return targets if targets is None or scored is None else np.where(scored[:, None], targets, np.nan)
