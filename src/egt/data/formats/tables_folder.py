"""A folder with `nodes`, `edges` and, for more than one graph, `graphs` tables (.csv, .csv.gz, .tsv or .parquet).

    nodes.csv    [graph], [node], then features, targets, and `split` or `train_mask`, `val_mask`, `test_mask`
    edges.csv    [graph], source, target, then features (`weight` is the edge weight), targets, `split`
    graphs.csv   graph, then targets and `split`
    queries.csv  [graph], source, target: query pairs (link prediction); optional

Columns in brackets may be left out: without `graph` there is one graph, without `node` the nodes of a graph are
numbered from 0 in the order of the file. `source` and `target` name nodes by the `node` column, or by number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from egt.data.columns import (
    FORMATS,
    Column,
    Columns,
    Format,
    RawData,
    RawGraph,
    Table,
    digest_of_files,
    read_each,
    texts_in,
    with_mask_split,
)
from egt.data.formats.tables import TABLE_SUFFIXES, read_table
from egt.errors import DataError
from egt.graph import IntArray

NAMES = {
    "graph": ("graph", "graph_id"),
    "node": ("node", "node_id", "id"),
    "source": ("source", "src", "from"),
    "target": ("target", "dst", "to"),
}
"""The spellings that a structural column may have."""


@FORMATS.register("folder")
class TablesFolder(Format):
    """A folder of node, edge and graph tables."""

    what = "a folder with nodes.csv and edges.csv"

    @staticmethod
    def fits(data: Any) -> bool:
        return isinstance(data, Path) and data.is_dir() and all(_find(data, name) for name in ("nodes", "edges"))

    @staticmethod
    def read(data: Any) -> RawData:
        return read_folder(data)


def read_folder(path: Path) -> RawData:
    """Read a folder of node, edge and graph tables."""
    found = {name: _find(path, name) for name in ("nodes", "edges", "graphs", "queries")}
    files = {name: file for name, file in found.items() if file is not None}
    tables = {name: _read_strictly(file) for name, file in files.items()}
    keys = {name: _graph_of_rows(table, f"{path}: {name}") for name, table in tables.items()}
    names = _graph_names(tables, keys, path)
    rows = {name: _rows_of(keys[name], tables[name].num_rows, names) for name in tables if name != "graphs"}
    table = tables["graphs"].columns if "graphs" in tables else {}
    return RawData(
        where=str(path),
        format="folder",
        table={name: column for name, column in table.items() if name.lower() not in NAMES["graph"]}
        | {"id": np.array(names, dtype=object)},
        digest=digest_of_files(files.values()),
        **read_each(
            range(len(names)),
            lambda k: _raw_graph(tables, {name: parts[k] for name, parts in rows.items()}),
            lambda k: f"{path.name}: graph {names[k]!r}",
        ),
    )


def _find(path: Path, name: str) -> Path | None:
    files = [path / f"{name}{suffix}" for suffix in TABLE_SUFFIXES if (path / f"{name}{suffix}").is_file()]
    if len(files) > 1:
        raise DataError(f"{path}: both {files[0].name} and {files[1].name} are there; keep one")
    return files[0] if files else None


def _read_strictly(path: Path) -> Table:
    """Return a table without bad lines: here a line alone does not say which graph it would spoil."""
    table = read_table(path)
    if table.problems:
        raise DataError(f"{path.parent.name}/{next(iter(table.problems.values()))}")
    return table


def _find_column(columns: Columns, role: str) -> str | None:
    """Return the column with a structural role, in capitals or not.

    Both ends of an edge are spelled alike where they can be: of `src`, `dst` and `target` the last is a label.
    """
    spelled = {name.lower(): name for name in reversed(list(columns))}
    pairs = zip(NAMES["source"], NAMES["target"], strict=True)
    paired = [name for pair in pairs if all(end in spelled for end in pair) for name in pair if name in NAMES[role]]
    return next((spelled[name] for name in (*paired, *NAMES[role]) if name in spelled), None)


def _graph_of_rows(table: Table, where: str) -> list[str] | None:
    """Return the graph of each row, or None when the table has no graph column."""
    name = _find_column(table.columns, "graph")
    return None if name is None else _names(table.columns[name], f"{where}: column 'graph'")


def _names(column: Column, what: str) -> list[str]:
    if column.ndim != 1:
        raise DataError(f"{what} must hold names or numbers")
    texts = texts_in(column)
    if "" in texts:
        raise DataError(f"{what} is empty in data row {texts.index('') + 1}")
    return texts


def _graph_names(tables: Mapping[str, Table], keys: Mapping[str, list[str] | None], path: Path) -> list[str]:
    parts = [name for name in ("nodes", "edges", "queries") if name in tables]
    grouped = [name for name in parts if keys[name] is not None]
    if grouped and len(grouped) < len(parts):
        raise DataError(f"{path}: {', '.join(grouped)} has a graph column; each of {', '.join(parts)} needs one")
    if "graphs" in tables:
        names = keys["graphs"]
        if names is None:
            raise DataError(f"{path}: the graphs table needs the column graph")
        if len(set(names)) < len(names):
            raise DataError(f"{path}: the graphs table names a graph twice")
        if not grouped and len(names) > 1:
            raise DataError(f"{path}: there are {len(names)} graphs, so nodes and edges need the column graph")
    else:
        names = list(dict.fromkeys(keys["nodes"] or ["0"]))
    known = set(names)
    for part in grouped:
        strange = next((key for key in keys[part] or () if key not in known), None)
        if strange is not None:
            raise DataError(f"{path}: {part} names graph {strange!r}, which the other tables do not have")
    return names


def _rows_of(keys: list[str] | None, num_rows: int, graphs: list[str]) -> list[IntArray]:
    """Return the rows of each graph."""
    if keys is None:
        return [np.arange(num_rows)]
    rows: dict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        rows[key].append(row)
    return [np.array(rows[name], dtype=np.int64) for name in graphs]


def _raw_graph(tables: Mapping[str, Table], rows: Mapping[str, IntArray]) -> RawGraph:
    """Return a graph from its rows of each table."""
    num_nodes = len(rows["nodes"])
    if not num_nodes:
        raise DataError("it has no nodes")
    column = _find_column(tables["nodes"].columns, "node")
    keys = np.arange(float(num_nodes)) if column is None else tables["nodes"].columns[column][rows["nodes"]]
    names = _names(keys, "column 'node'")
    number_of = {name: number for number, name in enumerate(names)}
    if len(number_of) < num_nodes:
        raise DataError("two nodes have the same name")
    ends = {
        what: _pairs(tables[what], rows[what], keys, number_of, what) for what in ("edges", "queries") if what in rows
    }
    return RawGraph(
        num_nodes=num_nodes,
        edges=ends["edges"],
        nodes=_columns(tables["nodes"], rows["nodes"], ("graph", "node"), "nodes"),
        edge_columns=_columns(tables["edges"], rows["edges"], ("graph", "source", "target"), "edges"),
        queries=ends.get("queries"),
        names=() if column is None else names,
    )


def _columns(table: Table, rows: IntArray, structure: tuple[str, ...], where: str) -> Columns:
    """Return some rows of a table without its structural columns."""
    names = {name for role in {*structure} & {"graph", "node"} for name in NAMES[role]}
    taken = {_find_column(table.columns, role) for role in structure}
    left = {name: each for name, each in table.columns.items() if name not in taken and name.lower() not in names}
    return with_mask_split({name: column[rows] for name, column in left.items()}, where)


def _pairs(table: Table, rows: IntArray, keys: Column, number_of: Mapping[str, int], what: str) -> IntArray:
    """(2, E) the nodes of each pair, from their keys: (N,) as in the file, and by text."""
    ends = []
    for role in ("source", "target"):
        name = _find_column(table.columns, role)
        if name is None:
            raise DataError(f"{what} needs the columns source and target; it has {', '.join(table.columns)}")
        known = _match_numbers(table.columns[name][rows], keys)
        if known is not None:
            ends.append(known)
            continue
        texts = _names(table.columns[name][rows], f"column {name!r}")
        strange = next((k for k, end in enumerate(texts) if end not in number_of), None)
        if strange is not None:
            raise DataError(
                f"{what} line {int(rows[strange]) + 2} names node {texts[strange]!r} in column {name!r}, "
                "which is not in nodes"
            )
        ends.append(np.array([number_of[end] for end in texts], dtype=np.int64))
    return np.stack(ends)


def _match_numbers(ends: Column, keys: Column) -> IntArray | None:
    """(E,) the node of each end at once, where keys are numbers and all are known; None where they are texts."""
    if ends.ndim != 1 or ends.dtype == object or keys.dtype == object:
        return None
    order = np.argsort(keys, kind="stable")
    found: IntArray = order[np.minimum(np.searchsorted(keys[order], ends), len(keys) - 1)]
    return found if np.array_equal(keys[found], ends) else None
