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
    number_names,
    objects,
    one_or_many,
    position_columns,
    split_vectors,
)
from egt.errors import DataError
from egt.graph import UNKNOWN, Graph


@FORMATS.register("graphs")
class Graphs(Format):
    """A `Graph`, a list of them, or lists by split: {"train": [...], "val": [...], "test": [...]}."""

    what = "`egt.Graph` objects"

    @staticmethod
    def fits(data: Any) -> bool:
        return not isinstance(data, Path) and bool(_graphs(data)[0])

    @staticmethod
    def read(data: Any) -> RawData:
        return raw_graphs(*_graphs(data))


def raw_graphs(graphs: Sequence[Graph], splits: Sequence[str] | None = None) -> RawData:
    """Return graphs as raw data; `splits` names the split of each."""
    labeled: dict[str, list[Column]] = {}
    for graph in graphs:
        for place in ("graph", "node") if graph.query_index is not None else ("graph", "node", "edge"):
            if (targets := getattr(graph, f"{place}_targets")) is not None:  # those of queries are links
                labeled.setdefault(place, []).append(targets)
    if len(labeled) > 1:
        raise DataError(f"graphs: there are targets at several levels: {', '.join(labeled)}; give those of one level")
    level = next(iter(labeled), None)
    rows: list[RawGraph | None] = [_raw_graph(graph, level) for graph in graphs]
    table: dict[str, Column] = {}
    names: tuple[str, ...] = ()
    if level == "graph":
        missing = np.full(_width("graph_targets", labeled["graph"]), np.nan)
        given = [graph.graph_targets for graph in graphs]
        table = split_vectors("y", np.stack([missing if targets is None else targets for targets in given]))
        names = tuple(table)
    elif level is not None:
        names = tuple(split_vectors("y", labeled[level][0]))
    has_values = any(graph.graph_values.size for graph in graphs)
    if has_values:
        _width("graph_values", [graph.graph_values for graph in graphs])
        table["graph_values"] = np.stack([graph.graph_values for graph in graphs]).astype(np.float64)
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
        inputs=("graph_values",) if has_values else (),
        digest=digest_of_graphs(table, rows),
    )


def _graphs(data: Any) -> tuple[list[Graph], list[str] | None]:
    """Return the graphs and, where they are given by split, their splits."""

    def listed(part: Any) -> list[Graph]:
        return one_or_many(part, lambda item: isinstance(item, Graph))

    if not isinstance(data, Mapping):
        return listed(data), None
    pairs = [(str(split), graph) for split, part in data.items() for graph in listed(part)]
    return [graph for _, graph in pairs], [split for split, _ in pairs]


def _width(name: str, arrays: Sequence[Column]) -> int:
    widths = {len(array) for array in arrays}
    if len(widths) > 1:
        raise DataError(f"graphs: {name} have {sorted(widths)} numbers; each graph needs as many")
    return widths.pop()


def _raw_graph(graph: Graph, level: str | None) -> RawGraph:
    columns: dict[str, dict[str, Column]] = {}
    for place in ("node", "edge"):
        ids, values = getattr(graph, f"{place}_categories"), getattr(graph, f"{place}_values")
        texts = np.empty(ids.shape, dtype=object)
        for k, row in enumerate(ids.tolist()):
            texts[k] = [None if value == UNKNOWN else str(value) for value in row]
        columns[place] = split_vectors(f"{place}_category", texts) if ids.shape[1] else {}
        if values.shape[1]:
            columns[place][f"{place}_values"] = values.astype(np.float64)
    pairs: dict[str, Column] = {}
    if (codes := graph.pair_categories) is not None:
        codes_as_text = codes.astype(str).astype(object)
        codes_as_text[codes == UNKNOWN] = None
        names = number_names("pair_category", codes.shape[-1])
        pairs = {name: codes_as_text[:, :, k] for k, name in enumerate(names)}
    if graph.pair_values is not None:
        pairs["pair_values"] = graph.pair_values.astype(np.float64)
    if graph.positions is not None:
        places = graph.positions.astype(np.float64).reshape(graph.num_nodes, -1, graph.positions.shape[-1])
        columns["node"] |= {name: places[:, k] for k, name in enumerate(position_columns(graph.positions.shape[1:]))}
    if graph.edge_weight is not None:
        columns["edge"]["edge_weight"] = graph.edge_weight.astype(np.float64)
    if level in columns and (targets := getattr(graph, f"{level}_targets")) is not None:
        columns[level] |= split_vectors("y", targets)
    return RawGraph(
        num_nodes=graph.num_nodes,
        edges=np.array(graph.edge_index),
        nodes=columns["node"],
        edge_columns=columns["edge"],
        pairs=pairs,
        directed=not graph.is_symmetric,
        queries=graph.query_index,
        query_targets=None if graph.query_index is None else graph.edge_targets,
    )
