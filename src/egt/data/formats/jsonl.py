"""JSONL: one graph a line.

A line is a JSON object with these keys; only `edges` and one of `nodes` and `num_nodes` are needed:

    nodes         columns {"element": ["C", "O"], "charge": [0.1, null]} or rows [{"element": "C", "charge": 0.1}, ...];
                  a value is a number, a text, null (missing) or a list of numbers (a vector). With an "id" column,
                  edges name the nodes by it; otherwise nodes are numbered from 0
    num_nodes     for a graph whose nodes have no columns
    edges         pairs [[0, 1], ...], columns {"source": [0], "target": [1], "weight": [2.5]}, or rows
                  [{"source": 0, "target": 1, "weight": 2.5}, ...]
    pairs         {"distance": [[0, 1.5], [1.5, null]]}: matrices with an entry for each pair of nodes, edge or not;
                  numbers, texts (categories), or lists of numbers. Coordinates of nodes are vectors in `nodes`
                  ("pos": [[0.1, 0.2, 0.3], ...])
    targets       {"energy": -1.5}: targets of the graph
    features      {"temperature": 300}: numbers that describe the whole graph, given to the model
    node_targets  {"label": ["a", null]}: targets of the nodes; null where a node is not scored
    edge_targets  {"in_tour": [true]}: targets of the listed edges
    pair_targets  {"time": [[0, 1.5], [1.5, null]]}: matrices of targets, as in `pairs`; null where a pair is not scored
    queries       query pairs (link prediction), or the pairs whose targets are predicted, where not all are
    directed      true or false; left out: guessed for the whole file
    id, split     the name of the graph, and "train", "val" or "test"

A bad line is a bad row: it is reported with its line number, in place. Empty lines are skipped.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from egt.data.columns import (
    FORMATS,
    MAX_NODES,
    Column,
    Columns,
    Format,
    RawData,
    RawGraph,
    column_of_values,
    digest_of_files,
    matrix_of,
    split_vectors,
    text_of,
    with_mask_split,
)
from egt.data.formats.tables import open_text
from egt.errors import DataError
from egt.files import Bounds
from egt.graph import IntArray

KEYS = (
    "nodes", "num_nodes", "edges", "targets", "features", "node_targets", "edge_targets", "queries", "directed",
    "id", "split", "pairs", "pair_targets",
)  # fmt: skip


@FORMATS.register("jsonl")
class Jsonl(Format):
    """A file with one graph a line."""

    suffixes = (".jsonl", ".jsonl.gz", ".ndjson")
    what = f"graphs in {', '.join(suffixes)}"

    @staticmethod
    def read(data: Any) -> RawData:
        return read_jsonl(data)


def read_jsonl(path: Path) -> RawData:
    """Read a JSONL file of graphs."""
    raw_graphs: list[RawGraph | None] = []
    heads: list[dict[str, Any]] = []
    problems: dict[int, str] = {}
    declared: dict[str, dict[str, None]] = {"graph": {}, "node": {}, "edge": {}, "pair": {}, "features": {}}
    bounds = Bounds.current()
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            bounds.check("rows", len(raw_graphs) + 1, path)
            head: dict[str, Any] = {}
            raw_graph: RawGraph | None = None
            try:
                content = _parse(line)
                features, targets = (_cells(content, key) for key in ("features", "targets"))
                head = _head(content, features, targets)
                raw_graph, parts = _raw_graph(content)
                for level, names in (parts | {"graph": targets, "features": features}).items():
                    declared[level].update(dict.fromkeys(names))
            except DataError as error:
                problems[len(raw_graphs)] = f"{path.name} line {number}: {error}"
            raw_graphs.append(raw_graph)
            heads.append(head)
    table = {
        name: column_of_values([head.get(name) for head in heads], f"{path}: {name!r}")
        for name in dict.fromkeys(name for head in heads for name in head)
    }
    inputs = tuple(declared.pop("features"))
    return RawData(
        where=str(path),
        format="jsonl",
        num_rows=len(raw_graphs),
        table=table,
        graphs=raw_graphs,
        problems=problems,
        declared={level: tuple(targets) for level, targets in declared.items() if targets},
        inputs=inputs,
        digest=digest_of_files([path]),
    )


def _parse(line: str) -> dict[str, Any]:
    try:
        content = json.loads(line)
        if "\\ud" in line.lower():  # half a character can be written in JSON, but not in any file we write
            json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise DataError("a text holds half of a surrogate pair (\\ud800 to \\udfff)") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON: {error}") from error
    if not isinstance(content, dict):
        raise DataError("a line must be a JSON object {...}")
    unknown = sorted(set(content) - set(KEYS))
    if unknown:
        raise DataError(f"unknown keys {unknown}; allowed are {', '.join(KEYS)}")
    return content


def _head(content: dict[str, Any], features: dict[str, Any], targets: dict[str, Any]) -> dict[str, Any]:
    """Return the graph-level cells of a line: id, split, features and targets."""
    head = {key: content[key] for key in ("id", "split") if content.get(key) is not None}
    if not all(isinstance(value, str | int | float) for value in head.values()):
        raise DataError("id and split must be texts or numbers")
    if twice := [name for name, times in Counter([*head, *features, *targets]).items() if times > 1]:
        raise DataError(f"{twice[0]!r} is the name of two things: id, split, features and targets need different names")
    return head | features | targets


def _cells(content: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the cells of features or targets of a graph; a list gives one cell per part."""
    found: dict[str, Any] = {}
    for name, value in _object(content, key).items():
        cells = split_vectors(name, column_of_values([value], f"{key.removesuffix('s')} {name!r}"))
        found |= {part: None if (cell := column[0]) is None or cell != cell else cell for part, column in cells.items()}
    return found


def _object(content: dict[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key)
    if value is not None and not isinstance(value, dict):
        raise DataError(f'{key} must be an object of columns like {{"name": ...}}, not {value!r:.60}')
    return value or {}


def _raw_graph(content: dict[str, Any]) -> tuple[RawGraph, dict[str, Columns]]:
    """Return the graph, and the targets of its nodes and edges by level."""
    nodes = {} if content.get("nodes") is None else _columns(content["nodes"], "nodes")
    edges = _edge_columns(content.get("edges"), "edges")
    num_nodes = _num_nodes(content, nodes)
    number_of = _numbers_of(nodes.pop("id")) if "id" in nodes else None
    pairs = np.stack([_ends(edges.pop(end), number_of) for end in ("source", "target")])
    queries = content.get("queries")
    if queries is not None:
        listed = _edge_columns(queries, "queries")
        queries = np.stack([_ends(listed[end], number_of) for end in ("source", "target")])
    directed = content.get("directed")
    if directed is not None and not isinstance(directed, bool):
        raise DataError(f"directed is {directed!r:.60}; it must be true or false")
    targets = {level: _targets(content, f"{level}_targets") for level in ("node", "edge")}
    targets["pair"] = _matrices(content, "pair_targets", num_nodes)
    matrices = _matrices(content, "pairs", num_nodes)
    if both := sorted({*matrices} & {*targets["pair"]}):
        raise DataError(f"{both[0]!r} is both in pairs and in pair_targets; name them differently")
    graph = RawGraph(
        num_nodes=num_nodes,
        edges=pairs,
        nodes=_with_targets(nodes, targets["node"], "node", num_nodes),
        edge_columns=_with_targets(edges, targets["edge"], "edge", pairs.shape[1]),
        directed=directed,
        queries=queries,
        names=tuple(number_of or ()),
        pairs={**matrices, **targets["pair"]},
    )
    return graph, targets


def _matrices(content: dict[str, Any], key: str, num_nodes: int) -> Columns:
    return {name: matrix_of(rows, num_nodes, f"matrix {name!r}") for name, rows in _object(content, key).items()}


def _targets(content: dict[str, Any], key: str) -> Columns:
    columns: dict[str, Column] = {}
    for name, values in _object(content, key).items():
        if not isinstance(values, list):
            raise DataError(f"{key} {name!r} must be a list with one value for each row")
        columns |= split_vectors(name, column_of_values(values, f"{key} {name!r}"))
    return columns


def _with_targets(features: dict[str, list[Any]], targets: Columns, level: str, num_rows: int) -> Columns:
    if both := [name for name in targets if name in features]:
        raise DataError(f"{both[0]!r} is both a feature and in {level}_targets; name them differently")
    columns = {name: column_of_values(values, f"column {name!r}") for name, values in features.items()} | {**targets}
    for name, column in columns.items():
        if len(column) != num_rows:
            raise DataError(f"column {name!r} has {len(column)} values for {num_rows} rows")
    return with_mask_split(columns, f"{level}s")


def _columns(given: Any, key: str) -> dict[str, list[Any]]:
    """Return columns from an object of lists, or from a list of objects whose absent keys are missing values."""
    if isinstance(given, list) and all(isinstance(row, dict) for row in given):
        names = dict.fromkeys(name for row in given for name in row)
        return {name: [row.get(name) for row in given] for name in names}
    if isinstance(given, dict) and all(isinstance(values, list) for values in given.values()):
        return dict(given)
    raise DataError(f"{key} must be an object of lists or a list of objects, not {given!r:.60}")


def _edge_columns(given: Any, key: str) -> dict[str, list[Any]]:
    if isinstance(given, list) and all(isinstance(pair, list) for pair in given):
        if any(len(pair) != 2 for pair in given):
            raise DataError(f"{key} must be pairs [source, target]")
        return {"source": [pair[0] for pair in given], "target": [pair[1] for pair in given]}
    if given is None:
        raise DataError(f"{key} is missing; a graph without any has {key}: []")
    columns = _columns(given, key)
    if "source" not in columns or "target" not in columns:
        raise DataError(f"{key} needs the columns source and target, or pairs [[0, 1], ...]")
    if len(columns["source"]) != len(columns["target"]):
        raise DataError(f"{key} has {len(columns['source'])} sources and {len(columns['target'])} targets")
    return columns


def _num_nodes(content: dict[str, Any], nodes: dict[str, list[Any]]) -> int:
    rows = content.get("nodes")
    known = len(rows) if isinstance(rows, list) else max((len(values) for values in nodes.values()), default=None)
    num_nodes = content.get("num_nodes", known)
    if num_nodes is None:
        raise DataError("give nodes, or num_nodes where they have no columns")
    if not isinstance(num_nodes, int) or isinstance(num_nodes, bool) or not 0 < num_nodes <= MAX_NODES:
        raise DataError(f"num_nodes is {num_nodes!r:.60}; a graph has 1 to {MAX_NODES} nodes")
    if known is not None and known != num_nodes:
        raise DataError(f"num_nodes is {num_nodes}, but nodes has {known} rows")
    return num_nodes


def _numbers_of(names: list[Any]) -> dict[str, int]:
    """Return the number of each node by its id."""
    if not all(isinstance(name, str | int | float) for name in names):
        raise DataError("node ids must be texts or numbers")
    numbers = {_name(name): number for number, name in enumerate(names)}
    if len(numbers) < len(names):
        raise DataError("two nodes have the same id")
    return numbers


def _name(value: Any) -> str:
    try:
        return text_of(value)
    except OverflowError as error:
        raise DataError(f"{value!r:.60} is too large for a name") from error


def _ends(given: list[Any], number_of: dict[str, int] | None) -> IntArray:
    """(E,) node numbers of edge ends that are given as numbers or, with `number_of`, as node ids."""
    if number_of is None:
        if not all(isinstance(end, int) and not isinstance(end, bool) and 0 <= end < MAX_NODES for end in given):
            raise DataError("edges must join nodes by their numbers 0, 1, ... (or give the nodes an id column)")
        return np.array(given, dtype=np.int64)
    unknown = [end for end in given if not isinstance(end, str | int | float) or _name(end) not in number_of]
    if unknown:
        raise DataError(f"an edge names node {unknown[0]!r:.60}, but no node has this id")
    return np.array([number_of[_name(end)] for end in given], dtype=np.int64)
