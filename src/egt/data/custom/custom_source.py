"""`CustomSource`: custom data as a `Source`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from egt.data.custom.columns import RawData, RawGraph, encode_target, missing_in, strange_label, text_of
from egt.data.custom.links import asked_edges, count_links, hide_links, link_graph
from egt.data.custom.roles import find_id, find_smiles_of
from egt.data.custom.schema import CustomSchema, SplitPlan
from egt.data.custom.splits import Division, divide, target_matrix
from egt.data.molecules import elements_of, graphs_from_smiles, without_name
from egt.data.source import ALL, SPLITS, DataCard, Reading
from egt.errors import DataError, EgtError, counted
from egt.graph import Graph

if TYPE_CHECKING:
    from egt.data.custom.records import MergedEdges

VERSION = 3

MAX_GRAPHS_MEASURED = 1000

_NOT_IN_GRAPHS: Any = {"elements": True, "notes": True, "split": {"fold"}}
"""Of a schema: what changes no graph, or is told by the division anyway."""

_ATOM = re.compile(r"\[(?!\d*H[+\]])[^\]]*\]|Br|Cl|[BCNOPSFI*bcnops]")

_RING = re.compile(r"%\d\d|\d")


@dataclass(frozen=True, eq=False)
class CustomRecord:
    """One row before it is read; it holds all that `CustomSource.read` needs.

    Fields:
        row: the position in the data, from 0.
        id: the name of the graph.
        graph: the graph as its file gives it, or None.
        smiles: the molecules, one per column of SMILES; () for other graphs.
        values: (F,) features of the whole graph.
        targets: (T,) targets of the whole graph, or None.
        parts: (n,) targets of the atoms or bonds of a molecule, one array per target; None for other targets.
        scored: the nodes or listed edges that this split scores, or None for all.
        link: which of the graphs of `split_links` this is (split, number), or None.
        warning, error: what is already known about the row.
    """

    row: int
    id: str
    graph: RawGraph | None = None
    smiles: tuple[str, ...] = ()
    values: NDArray[np.float32] | None = None
    targets: tuple[float, ...] | None = None
    parts: tuple[NDArray[np.float64] | None, ...] | None = None
    scored: NDArray[np.bool_] | None = None
    link: tuple[str, int] | None = None
    warning: str = ""
    error: str = ""


class _Records(Sequence[CustomRecord]):
    """The records of some rows, each made when it is asked for: half a million of them would take seconds."""

    def __init__(self, make: Callable[[int], CustomRecord], rows: Sequence[int]) -> None:
        self._make, self._rows = make, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> CustomRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[CustomRecord]: ...
    def __getitem__(self, index: int | slice) -> CustomRecord | list[CustomRecord]:
        """Return one record, or some of them."""
        if isinstance(index, slice):
            return [self._make(row) for row in self._rows[index]]
        return self._make(self._rows[index])


class CustomSource:
    """The user's data as a `Source`; made by `egt.sources.custom.open_custom`.

    Splits are "train", "val" and "test" (when the data was divided) and always "all".
    """

    def __init__(self, raw: RawData, schema: CustomSchema, division: Division | None) -> None:
        self.schema = schema
        self._raw = raw
        self._division = division
        self._ids = _ids(raw, schema.id, is_new=division is None)
        self._smiles = find_smiles_of(schema.smiles_columns, raw.table, raw.where) if raw.is_molecules else ()
        self._targets, self._strange = _graph_targets(raw, schema)
        self._unfit: dict[int, str] = {}
        self._values = self._find_values()
        self._parts = self._find_parts()

    def _find_values(self) -> NDArray[np.float32] | None:
        """(R, F) the features of whole graphs, None where there are none; what is wrong with a row is kept for it."""
        if not self.schema.graph_features:
            return None
        from egt.data.custom.records import graph_values  # here: most data has none

        values, filled, self._unfit = graph_values(self._raw, self.schema.graph_features)
        for row, warning in filled.items():
            self._strange[row] = "; ".join(filter(None, (self._strange.get(row), warning)))
        return values

    def _find_parts(self) -> Callable[[int], tuple[NDArray[np.float64] | None, ...]] | None:
        """Return what gives the targets of the atoms or bonds of a row, where these are predicted."""
        if not self._of_atoms:
            return None
        from egt.data.custom.atom_targets import PartTargets  # here: most targets are of molecules

        found = PartTargets(self._raw, self.schema)
        self._strange |= found.warnings
        return found

    @property
    def _of_atoms(self) -> bool:
        """Whether atoms or bonds of molecules are predicted."""
        return self._raw.is_molecules and self.schema.level in ("node", "edge")

    @cached_property
    def card(self) -> DataCard:
        """The description of the data; sizes of graphs are estimated on up to 1,000 of them, without reading them."""
        total = self._raw.num_rows
        rows = np.unique(np.linspace(0, total - 1, min(total, MAX_GRAPHS_MEASURED)).astype(int))
        measured = [size for row in rows if (size := self._size(int(row))) is not None]
        nodes = [num_nodes for num_nodes, _ in measured] or [0]
        return DataCard(
            name="custom",
            title=f"custom data: {self._raw.where}",
            schema=self.schema.features(),
            target=self.schema.target(),
            split_sizes=self._split_sizes(),
            num_nodes=(min(nodes), float(np.mean(nodes)), max(nodes)),
            mean_edges=float(np.mean([num_edges for _, num_edges in measured] or [0])),
            checksums={self._raw.where: self._raw.digest},
            notes="" if len(measured) == total else f"sizes are estimated from {len(measured)} of {total} rows",
        )

    @property
    def is_divided_within(self) -> bool:
        """Whether the splits are nodes or edges of the same graphs (transductive learning)."""
        return self._division is not None and self._division.within

    def redivided(self, plan: SplitPlan) -> CustomSource:
        """Return the same data, read in the same way, with other splits."""
        schema = self.schema.model_copy(update={"split": plan})
        return CustomSource(self._raw, schema, divide(self._raw, schema))

    def fingerprint(self) -> str:
        """Return a hash of the raw content, the schema and the split."""
        total = hashlib.sha256(f"custom {VERSION} {self._raw.digest}".encode())
        silent = dict(_NOT_IN_GRAPHS)
        # What earlier versions did not have, and this data does not have either:
        silent |= {name: True for name in ("graph_features", "more_smiles") if not getattr(self.schema, name)}
        schema = self.schema.model_dump(mode="json", exclude=silent)
        total.update(json.dumps(schema, sort_keys=True).encode())
        if self._division is not None:
            total.update(self._division.rows.tobytes())
            for row, codes in sorted(self._division.parts.items()):
                total.update(f"{row}".encode() + codes.tobytes())
        return total.hexdigest()

    def records(self, split: str) -> Sequence[CustomRecord]:
        """Return the rows of a split, in order. Rows that could not be read are among them, with their error."""
        if split == ALL:
            return _Records(self._record, range(self._raw.num_rows))
        if self._division is None or split not in SPLITS:
            allowed = (ALL,) if self._division is None else (*SPLITS, ALL)
            raise DataError(f"{self._raw.where}: there is no split {split!r}; there are {', '.join(allowed)}")
        code = SPLITS.index(split)
        if not self._division.within:
            return _Records(self._record, np.flatnonzero(self._division.rows == code).tolist())
        if self.schema.level == "link":
            return self._link_records(split, self._division)
        parts = self._division.parts
        return [self._record(row, scored=parts[row] == code) for row in parts if (parts[row] == code).any()]

    def rows_in(self, split: str, row: int) -> NDArray[np.bool_] | None:
        """(N,) or (E,) the nodes or edges of a graph that a split is about; None where it is about whole graphs."""
        if self._division is None or not self._division.within or self.schema.level == "link" or split == ALL:
            return None
        listed: NDArray[np.bool_] = self._division.parts[row] == SPLITS.index(split)
        graph = self._raw.graphs[row]
        return listed if self.schema.level == "node" or graph is None else listed[self._merged(graph).rows]

    def _merged(self, graph: RawGraph) -> MergedEdges:
        """Return the edges of a graph as it is read, those with ends that are no nodes left out."""
        from egt.data.custom.records import merge_edges  # here: molecules need none of it

        edges = graph.edges[:, ((graph.edges >= 0) & (graph.edges < graph.num_nodes)).all(axis=0)]
        return merge_edges(edges, None, graph.num_nodes, directed=self.schema.is_directed(graph.directed))

    def read(self, record: CustomRecord) -> Reading:
        """Return the graph of a record, with a warning about whatever had to be filled in."""
        return self.read_all([record])[0]

    def read_all(self, records: Sequence[CustomRecord]) -> list[Reading]:
        """Return the graphs of some records."""
        graphs = iter(self._graphs([record for record in records if not record.error]))
        any_foreign = bool(self._foreign([text for record in records for text in record.smiles]))
        readings = []
        for record in records:
            if record.error:
                readings.append(Reading(record.row, record.id, error=record.error))
                continue
            try:
                graph, warning = self._asked(next(graphs), record)
            except EgtError as error:
                where = f"{self._raw.where} row {self._raw.first_row + record.row + 1}"
                readings.append(Reading(record.row, record.id, error=f"{where}: {error}"))
                continue
            foreign = self._foreign(record.smiles) if any_foreign else ""
            warning = "; ".join(filter(None, (record.warning, warning, foreign)))
            readings.append(Reading(record.row, record.id, graph=graph, warning=warning))
        return readings

    def smiles(self) -> list[str] | None:
        """Return the SMILES of all rows, several joined by dots, "" where there is none; None for other graphs."""
        if not self._raw.is_molecules:
            return None
        return [".".join(filter(None, texts)) for texts in zip(*self._molecules(), strict=True)]

    def components(self) -> dict[str, list[str]]:
        """Return column -> SMILES of all rows, where a row has several of them; else nothing."""
        if not self.schema.more_smiles:
            return {}
        return dict(zip(self.schema.smiles_columns, self._molecules(), strict=True))

    def _texts(self, row: int) -> tuple[str, ...]:
        return tuple(_text(self._raw.table[name][row]) for name in self._smiles)

    def _molecules(self) -> list[list[str]]:
        """Return the columns of SMILES."""
        return [[_text(cell) for cell in self._raw.table[name]] for name in self._smiles]

    def warnings(self) -> list[str]:
        """Return what to look at before training.

        Splits without rows; labels that are not understood; molecules or graphs in several splits, or with different
        labels.
        """
        return [*self._empty_splits(), *self.unknown_labels(), *self._repeats()]

    def _empty_splits(self) -> list[str]:
        """Return a warning where a split that was asked for has got nothing."""
        plan = self.schema.split
        if self._division is None or plan.kind == "column" or plan.fold is not None:
            return []
        wanted = [split for split, share in zip(SPLITS, plan.fractions, strict=True) if share]
        empty = [split for split in wanted if not self.card.split_sizes[split]]
        shares = "/".join(f"{share:g}" for share in plan.fractions)
        return [
            f"no row is left for the {split} split: {self._raw.num_rows} rows are divided {plan.kind} {shares}; divide "
            "them otherwise to have one (--set split=random, split.fractions=[0.6, 0.2, 0.2], or a split column)"
            for split in empty
        ]

    def unknown_labels(self) -> list[str]:
        """Return a warning for each target with labels that are not understood, in whatever split."""
        columns = [self._raw.table.get(name) for name in self.schema.targets]
        if not self.schema.classes and all(column is not None and column.dtype.kind in "fiu" for column in columns):
            return []
        from egt.data.custom.label_checks import unknown_labels

        return unknown_labels(self._raw, self.schema)

    def _repeats(self) -> list[str]:
        from egt.data.custom.label_checks import graph_repeats, repeats

        codes = None if self._division is None else self._division.rows
        labels = None if self.schema.graph_features else self._targets  # under other conditions a label may differ
        classes = bool(self.schema.classes)
        if self._raw.is_molecules:
            return repeats(self._molecules(), labels, codes, classes=classes)
        if codes is None or self.is_divided_within:
            return []
        levels = {"node": self.schema.node_features, "edge": self.schema.edge_features}
        used = {level: {each.name for each in some if each.kind != "ignored"} for level, some in levels.items()}
        return graph_repeats(self._raw.graphs, used, self._ids, labels, codes, classes=classes)

    def _foreign(self, smiles: Sequence[str]) -> str:
        """Return which elements of new molecules training never saw."""
        if self._division is not None or not self.schema.elements:
            return ""
        foreign = sorted(elements_of(smiles) - set(self.schema.elements))
        return f"not in the training molecules: {', '.join(foreign)}" if foreign else ""

    def names(self, row: int) -> Sequence[str]:
        """Return what the data calls the nodes of a graph, elements for atoms; empty where they are only numbered."""
        if self._of_atoms:
            from egt.data.custom.atom_targets import symbols_of

            return symbols_of(self._texts(row))
        graph = self._raw.graphs[row] if self._raw.graphs else None
        if graph is None or all(name == str(k) for k, name in enumerate(graph.names)):
            return ()
        return graph.names

    def kept(self, patterns: Sequence[str]) -> dict[str, list[str]]:
        """Return columns of the table as texts, "" where a value is missing, by names or patterns (`*`).

        Raises:
            DataError: a name or pattern fits no column.
        """
        columns = {name: column for name, column in self._raw.table.items() if column.ndim == 1}
        found: dict[str, None] = {}
        for pattern in patterns:
            names = [name for name in columns if name == pattern or fnmatchcase(name, pattern)]
            if not names:
                where, there = self._raw.where, ", ".join(columns) or "none"
                raise DataError(f"{where}: there is no column {pattern!r} to keep; the columns are {there}")
            found |= dict.fromkeys(names)
        return {name: [_text(cell) for cell in columns[name]] for name in found}

    def missing_targets(self) -> list[str]:
        """Return the target columns that this data lacks; for links, whose labels are in no column, their name."""
        if self.schema.level == "link":
            labeled = any(graph is not None and graph.query_targets is not None for graph in self._raw.graphs)
            return [] if labeled else list(self.schema.target().names)
        if self.schema.level == "graph" or self._of_atoms:
            there = set(self._raw.table)
        else:
            graphs = [graph for graph in self._raw.graphs if graph is not None]
            parts = [graph.nodes if self.schema.level == "node" else graph.edge_columns for graph in graphs]
            there = {name for columns in parts for name in columns}
        return [name for name in self.schema.targets if name not in there]

    def _asked(self, result: tuple[Graph, str] | EgtError, record: CustomRecord) -> tuple[Graph, str]:
        """Return the graph with what its record adds: features, targets of atoms, pairs of link prediction."""
        if isinstance(result, EgtError):
            raise result
        graph, warning = result
        if record.values is not None:
            graph = Graph.trusted(**{**vars(graph), "graph_values": record.values})
        if record.parts is not None:
            from egt.data.custom.atom_targets import with_part_targets

            graph = with_part_targets(graph, record.parts, self.schema)
        if self.schema.level != "link":
            return graph, warning
        if graph.query_index is None:
            return self._linked(graph, record), warning
        known = asked_edges(graph)
        warnings = [
            warning,
            f"{counted(known, 'query pair')} among the edges of the graph: the model sees the answer" if known else "",
        ]
        return graph, "; ".join(filter(None, warnings))

    def _graphs(self, records: Sequence[CustomRecord]) -> list[tuple[Graph, str] | EgtError]:
        """Return the graphs with all their edges, and warnings; one that cannot be read is replaced by the reason."""
        if self.schema.format != "molecules":
            return [self._built(record) for record in records]
        given: dict[str, Any] = {
            "vocabulary": self.schema.vocabulary,
            "ids": [record.id for record in records],
            "graph_targets": [record.targets for record in records],
        }
        rows = [record.smiles for record in records]
        if not self.schema.more_smiles:
            return graphs_from_smiles([smiles for (smiles,) in rows], **given)
        from egt.data.custom.records import graphs_of_components  # here: most rows have one molecule

        return graphs_of_components(rows, self.schema.smiles_columns, **given)

    def _built(self, record: CustomRecord) -> tuple[Graph, str] | EgtError:
        from egt.data.custom.records import build_graph  # here: molecules need none of it

        if record.graph is None:
            return DataError("the row holds no graph")
        try:
            graph, warnings = build_graph(
                record.graph, self.schema, id=record.id, graph_targets=record.targets, scored=record.scored
            )
        except EgtError as error:
            return error
        return graph, "; ".join(warnings)

    def _linked(self, graph: Graph, record: CustomRecord) -> Graph:
        plan = self.schema.split
        directed = self.schema.is_directed(None if record.graph is None else record.graph.directed)
        if record.link is not None:
            split, number = record.link
            return link_graph(graph, split, number, fractions=plan.shares, directed=directed, seed=plan.seed)
        if self._division is None:
            raise DataError("link prediction on new data needs the pairs to ask about: give queries (docs/data.md)")
        return hide_links(graph, directed=directed, seed=plan.seed + record.row)

    def _link_records(self, split: str, division: Division) -> list[CustomRecord]:
        """Return one record for each graph that `split_links` will make."""
        records = []
        for row, codes in division.parts.items():
            graph = self._raw.graphs[row]
            if graph is not None:
                directed = self.schema.is_directed(graph.directed)
                count = count_links(graph.edges, codes, graph.num_nodes, directed=directed)[split]
                records += [self._record(row, link=(split, number)) for number in range(count)]
        return records

    def _record(
        self, row: int, scored: NDArray[np.bool_] | None = None, link: tuple[str, int] | None = None
    ) -> CustomRecord:
        raw = self._raw
        error = raw.problems.get(row, "") or self._unfit.get(row, "")
        smiles = self._texts(row)
        if smiles and not error and not all(smiles):
            missing = self.schema.smiles_columns[smiles.index("")] if len(smiles) > 1 else ""
            column = f" of column {missing!r}" if missing else ""
            error = f"{raw.where} row {raw.first_row + row + 1}: the SMILES{column} is missing"
        return CustomRecord(
            row=row,
            id=self._ids[row],
            graph=raw.graphs[row] if raw.graphs else None,
            smiles=smiles,
            values=None if self._values is None else self._values[row],
            targets=None if self._targets is None else tuple(self._targets[row].tolist()),
            parts=None if self._parts is None else self._parts(row),
            scored=scored,
            link=link,
            warning=self._strange.get(row, ""),
            error=error,
        )

    def _split_sizes(self) -> dict[str, int]:
        if self._division is None:
            return {ALL: self._raw.num_rows}
        if self._division.within:
            return {split: len(self.records(split)) for split in SPLITS}
        return {split: int((self._division.rows == code).sum()) for code, split in enumerate(SPLITS)}

    def _size(self, row: int) -> tuple[int, int] | None:
        """Return the number of nodes and directed edges of a row; None if it cannot be read."""
        if row in self._raw.problems:
            return None
        if self._raw.is_molecules:
            return _molecule_size(".".join(map(without_name, self._texts(row))))
        graph = self._raw.graphs[row]
        if graph is None:
            return None
        return graph.num_nodes, self._merged(graph).index.shape[1]


def _molecule_size(smiles: str) -> tuple[int, int] | None:
    """Estimate atoms and, in both directions, bonds: a chain has one bond less than atoms, a ring as many."""
    atoms = len(_ATOM.findall(smiles))
    outside = re.sub(r"\[[^\]]*\]", "", smiles)
    bonds = atoms - 1 - outside.count(".") + len(_RING.findall(outside)) // 2
    return (atoms, 2 * max(bonds, 0)) if atoms else None


def _text(cell: Any) -> str:
    """Return a cell as a text, "" where it is missing; a column without any text was read as numbers."""
    return "" if cell is None or cell != cell else text_of(cell)


def _ids(raw: RawData, name: str, *, is_new: bool) -> list[str]:
    """Name the rows: by the id column (in new data any that looks like one), else by their numbers from 0."""
    if name not in raw.table:
        guesses = is_new and not raw.first_row  # the first part of a file has decided for the others
        name = find_id(raw.table, None, raw.where) if guesses else ""
    if not name:
        return [str(raw.first_row + row) for row in range(raw.num_rows)]
    cells = enumerate(raw.table[name], start=raw.first_row)
    return [f"row {row + 1}" if value is None or value != value else text_of(value) for row, value in cells]


def _graph_targets(raw: RawData, schema: CustomSchema) -> tuple[NDArray[np.float64] | None, dict[int, str]]:
    """(R, T) targets of the graphs, None if the data has none, and warnings about labels that are not understood."""
    if schema.level != "graph" or not any(name in raw.table for name in schema.targets):
        return None, {}
    targets = target_matrix(raw.table, schema, raw.num_rows)
    warnings: dict[int, str] = {}
    for position, name in enumerate(schema.targets):
        column = raw.table.get(name)
        if column is None or not encode_target(column, schema.classes)[1]:
            continue
        for row in np.flatnonzero(np.isnan(targets[:, position]) & ~missing_in(column)):
            warnings[int(row)] = strange_label(name, text_of(column[row]), schema.classes)
    return targets, warnings
