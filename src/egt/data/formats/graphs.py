"""`Graph` objects: their categories, values and targets as columns, so that they are divided and learned from as files.

Several columns of a kind are called `node_category.0`, `node_category.1`, ...; targets are called `y`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from egt.data.columns import (
    FORMATS,
    Column,
    Format,
    RawData,
    RawGraph,
    digest_of_graphs,
    expanded,
    objects,
    one_or_many,
)
from egt.errors import DataError
from egt.graph import UNKNOWN, Graph

NODE_CATEGORY, NODE_VALUES = "node_category", "node_values"

EDGE_CATEGORY, EDGE_VALUES, EDGE_WEIGHT = "edge_category", "edge_values", "edge_weight"

GRAPH_VALUES, TARGET = "graph_values", "y"


@FORMATS.register("graphs")
class Graphs(Format):
    """A `Graph`, a list of them, or lists by split: {"train": [...], "val": [...], "test": [...]}."""

    what = "`egt.Graph` objects"

    @staticmethod
    def fits(data: Any) -> bool:
        """Return whether these are graphs of egt."""
        return not isinstance(data, Path) and bool(_graphs(data)[0])

    @staticmethod
    def read(data: Any) -> RawData:
        """Return the graphs as raw data."""
        return raw_graphs(*_graphs(data))


def raw_graphs(graphs: Sequence[Graph], splits: Sequence[str] | None = None) -> RawData:
    """Return graphs as raw data; `splits` names the split of each."""
    level = _target_level(graphs)
    rows: list[RawGraph | None] = [_raw_graph(graph, level) for graph in graphs]
    table: dict[str, Column] = {}
    names: tuple[str, ...] = ()
    if level == "graph":
        columns = expanded(TARGET, _stacked(graphs))
        table, names = columns, tuple(columns)
    elif level is not None:
        first = next(targets for graph in graphs if (targets := getattr(graph, f"{level}_targets")) is not None)
        names = tuple(expanded(TARGET, first))
    if has_values := any(graph.graph_values.size for graph in graphs):
        table[GRAPH_VALUES] = _graph_values(graphs)
    if any(graph.id for graph in graphs):
        table["id"] = objects([graph.id or None for graph in graphs])
    if splits is not None:
        table["split"] = objects(splits)
    return RawData(
        where="graphs",
        format="graphs",
        num_rows=len(rows),
        table=table,
        graphs=rows,
        declared={} if level is None else {level: names},
        inputs=(GRAPH_VALUES,) if has_values else (),
        digest=digest_of_graphs(table, rows),
    )


def _graphs(data: Any) -> tuple[list[Graph], list[str] | None]:
    """Return the graphs and, where they are given by split, their splits."""
    if not isinstance(data, Mapping):
        return one_or_many(data, _is_graph), None
    parts = {str(split): one_or_many(part, _is_graph) for split, part in data.items()}
    graphs = [graph for part in parts.values() for graph in part]
    return graphs, [split for split, part in parts.items() for _ in part]


def _is_graph(data: object) -> bool:
    return isinstance(data, Graph)


def _target_level(graphs: Sequence[Graph]) -> str | None:
    """Return what the targets belong to; None where there are none, or they are of links."""
    levels = [
        level
        for level in ("graph", "node", "edge")
        if any(
            getattr(graph, f"{level}_targets") is not None and (level != "edge" or graph.query_index is None)
            for graph in graphs
        )
    ]
    if len(levels) > 1:
        raise DataError(f"graphs: there are targets at several levels: {', '.join(levels)}; give those of one level")
    return levels[0] if levels else None


def _stacked(graphs: Sequence[Graph]) -> Column:
    """(graphs, T) targets, NaN for a graph that has none."""
    given = [graph.graph_targets for graph in graphs]
    widths = {len(targets) for targets in given if targets is not None}
    if len(widths) > 1:
        raise DataError(f"graphs: graph_targets have {sorted(widths)} numbers; each graph needs as many")
    missing = np.full(widths.pop(), np.nan)
    return np.stack([missing if targets is None else targets for targets in given])


def _graph_values(graphs: Sequence[Graph]) -> Column:
    """(graphs, F) features of whole graphs."""
    widths = {len(graph.graph_values) for graph in graphs}
    if len(widths) > 1:
        raise DataError(f"graphs: graph_values have {sorted(widths)} numbers; each graph needs as many")
    return np.stack([graph.graph_values for graph in graphs]).astype(np.float64)


def _raw_graph(graph: Graph, level: str | None) -> RawGraph:
    nodes = _columns(NODE_CATEGORY, graph.node_categories) | _values(NODE_VALUES, graph.node_values)
    edges = _columns(EDGE_CATEGORY, graph.edge_categories) | _values(EDGE_VALUES, graph.edge_values)
    if graph.edge_weight is not None:
        edges[EDGE_WEIGHT] = graph.edge_weight.astype(np.float64)
    if level == "node" and graph.node_targets is not None:
        nodes |= expanded(TARGET, graph.node_targets)
    if level == "edge" and graph.edge_targets is not None:
        edges |= expanded(TARGET, graph.edge_targets)
    asks = graph.query_index is not None
    return RawGraph(
        num_nodes=graph.num_nodes,
        edges=np.array(graph.edge_index),
        nodes=nodes,
        edge_columns=edges,
        directed=not graph.is_symmetric,
        queries=graph.query_index,
        query_targets=graph.edge_targets if asks else None,
    )


def _columns(name: str, ids: Column) -> dict[str, Column]:
    texts = [[None if value == UNKNOWN else str(value) for value in row] for row in ids.tolist()]
    column = np.empty(ids.shape, dtype=object)
    for k, row in enumerate(texts):
        column[k] = row
    return expanded(name, column) if ids.shape[1] else {}


def _values(name: str, values: Column) -> dict[str, Column]:
    return {name: values.astype(np.float64)} if values.shape[1] else {}
