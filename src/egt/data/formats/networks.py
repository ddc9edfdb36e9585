"""GraphML files and NetworkX graphs: attributes of nodes, edges and graphs become columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    column_of_values,
    digest_of_files,
    digest_of_graphs,
    matrix_of,
    one_or_many,
    read_each,
    split_vectors,
    text_of,
    with_mask_split,
)
from egt.data.custom_source import merge_edges
from egt.errors import DataError, require_extra
from egt.graph import Graph, IntArray


def is_networkx(graph: object) -> bool:
    """Return whether an object is a NetworkX graph (found without importing NetworkX)."""
    return any(kind.__module__.split(".")[0] == "networkx" for kind in type(graph).__mro__) and hasattr(graph, "adj")


@FORMATS.register("networkx")
class NetworkX(Format):
    """A GraphML file, a folder of them, or NetworkX graphs."""

    what = "a .graphml file or a folder of them, or NetworkX graphs"

    @staticmethod
    def fits(data: Any) -> bool:
        return bool(_graphml_files(data) if isinstance(data, Path) else one_or_many(data, is_networkx))

    @staticmethod
    def read(data: Any) -> RawData:
        if isinstance(data, Path):
            return _read_graphml(_graphml_files(data))
        return _raw_data(one_or_many(data, is_networkx), [], "networkx graphs", "networkx", "")


def _graphml_files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.glob("*.graphml"))
    return [path] if path.name.lower().endswith(".graphml") else []


def _read_graphml(paths: Sequence[Path]) -> RawData:
    """Read GraphML files; one with several graphs gives a row for each."""
    with require_extra("graph", "GraphML needs NetworkX", DataError):
        import networkx
    reader = networkx.readwrite.graphml.GraphMLReader  # `read_graphml` gives the first graph of a file only
    rows: list[Any] = []
    names: list[str] = []
    for path in paths:
        try:
            graphs: list[Any] = list(reader()(path=path)) or [networkx.read_graphml(path)]  # it knows more headers
        except Exception as error:  # the XML parser and NetworkX raise many kinds; each one is a bad file
            graphs = [DataError(f"not a GraphML file that can be read: {error!r:.200}")]
        stem = path.name.removesuffix(".graphml")
        names += [stem] if len(graphs) == 1 else [f"{stem}/{number}" for number in range(len(graphs))]
        rows += graphs
    where = str(paths[0] if len(paths) == 1 else paths[0].parent)
    return _raw_data(rows, names, where, "graphml", digest_of_files(paths))


def from_networkx(
    graph: Any,
    *,
    node_categories: Mapping[str, Sequence[str]] | None = None,
    node_values: Sequence[str] = (),
    edge_categories: Mapping[str, Sequence[str]] | None = None,
    edge_values: Sequence[str] = (),
    weight: str | None = None,
    graph_targets: Sequence[str] = (),
    node_targets: Sequence[str] = (),
    edge_targets: Sequence[str] = (),
    id: str = "",
) -> Graph:
    """Return a NetworkX graph as a `Graph`, with the attributes that are named here and nothing guessed.

    Args:
        graph: any NetworkX graph; the edges of an undirected one are stored in both directions.
        node_categories: categorical node attributes: name -> its possible values, in the order of their ids.
        node_values: names of numeric node attributes, taken as they are.
        edge_categories: categorical edge attributes, as for nodes.
        edge_values: names of numeric edge attributes.
        weight: the edge attribute that is the weight of an edge.
        graph_targets: names of graph attributes to learn.
        node_targets: names of node attributes to learn; a missing one is not scored.
        edge_targets: names of edge attributes to learn.
        id: the name of the graph.

    Raises:
        DataError: for an attribute that is not there or not in its vocabulary.
    """
    raw = _raw_graph(graph)
    num_nodes, num_edges = raw.num_nodes, raw.edges.shape[1]
    weights = None if weight is None else _numbers(raw.edge_columns, [weight], "edge", num_edges)[:, 0]
    merged = merge_edges(raw.edges, weights, num_nodes, directed=bool(raw.directed))
    rows = merged.rows
    table = {str(name): column_of_values([value], f"graph attribute {name!r}") for name, value in graph.graph.items()}
    return Graph(
        num_nodes=num_nodes,
        edge_index=merged.index,
        node_categories=_ids(raw.nodes, node_categories or {}, num_nodes, "node"),
        node_values=_numbers(raw.nodes, node_values, "node", num_nodes),
        edge_categories=_ids(raw.edge_columns, edge_categories or {}, num_edges, "edge")[rows],
        edge_values=_numbers(raw.edge_columns, edge_values, "edge", num_edges)[rows],
        edge_weight=None if merged.weight is None else merged.weight.astype(np.float32),
        graph_targets=_numbers(table, graph_targets, "graph", 1)[0] if graph_targets else None,
        node_targets=_numbers(raw.nodes, node_targets, "node", num_nodes) if node_targets else None,
        edge_targets=_numbers(raw.edge_columns, edge_targets, "edge", num_edges)[rows] if edge_targets else None,
        id=id,
    )


def _raw_data(graphs: Sequence[Any], names: Sequence[str], where: str, format: str, digest: str) -> RawData:
    """Return NetworkX graphs, or the errors in their place, as raw data."""

    def read(graph: Any) -> RawGraph:
        if isinstance(graph, DataError):
            raise graph
        return _raw_graph(graph)

    rows = read_each(graphs, read, lambda row: names[row] if names else f"graph {row}")
    attributes = [
        {}
        if isinstance(graph, DataError)
        else {
            str(key): _plain(value)
            for key, value in graph.graph.items()
            if not _is_matrix(value, len(graph)) and not _lists_queries(key, value)
        }
        for graph in graphs
    ]
    table: dict[str, Column] = {}
    for key in dict.fromkeys(key for given in attributes for key in given):
        values = [given.get(key) for given in attributes]
        if all(isinstance(value, str | int | float | list | tuple | None) for value in values):
            table |= split_vectors(key, column_of_values(values, f"{where}: graph attribute {key!r}"))
    if names and "id" not in table:
        table["id"] = column_of_values(names, where)
    return RawData(
        where=where, format=format, table=table, digest=digest or digest_of_graphs(table, rows["graphs"]), **rows
    )


def _raw_graph(graph: Any) -> RawGraph:
    number_of = {node: number for number, node in enumerate(graph.nodes)}
    if not number_of:
        raise DataError("the graph has no nodes")
    edges = list(graph.edges(data=True))
    ends = [[number_of[source], number_of[target]] for source, target, _ in edges]
    return RawGraph(
        num_nodes=len(number_of),
        edges=np.array(ends, dtype=np.int64).reshape(-1, 2).T,
        nodes=with_mask_split(_columns([data for _, data in graph.nodes(data=True)], "node"), "nodes"),
        edge_columns=with_mask_split(_columns([data for _, _, data in edges], "edge"), "edges"),
        directed=bool(graph.is_directed()),
        names=tuple(str(node) for node in number_of),
        queries=_queries(graph.graph.get(_QUERIES), number_of),
        pairs={
            str(key): matrix_of(value, len(number_of), f"graph attribute {key!r}")
            for key, value in graph.graph.items()
            if _is_matrix(value, len(number_of))
        },
    )


_QUERIES = "queries"  # the attribute of a graph that lists query pairs, by the names of their nodes


def _lists_queries(key: Any, value: Any) -> bool:
    return key == _QUERIES and not isinstance(value, str | int | float)  # GraphML has no lists


def _queries(value: Any, number_of: Mapping[Any, int]) -> IntArray | None:
    """Return the query pairs (2, R) of a graph, if it has any."""
    if value is None or not _lists_queries(_QUERIES, value):
        return None
    try:
        ends = [[number_of[i], number_of[j]] for i, j in value]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"graph attribute 'queries' lists pairs of nodes of the graph: {error!r}") from error
    return np.array(ends, dtype=np.int64).reshape(-1, 2).T


def _is_matrix(value: Any, num_nodes: int) -> bool:
    """Return whether an attribute of a graph is an array of all pairs of its nodes."""
    return getattr(value, "ndim", 0) >= 2 and tuple(value.shape[:2]) == (num_nodes, num_nodes)


def _columns(rows: Sequence[Mapping[Any, Any]], level: str) -> Columns:
    texted = [{str(name): _plain(value) for name, value in row.items()} for row in rows]
    return {
        name: column_of_values([row.get(name) for row in texted], f"{level} attribute {name!r}")
        for name in dict.fromkeys(name for row in texted for name in row)
    }


def _plain(value: Any) -> Any:
    """Return the numbers and vectors of NumPy and PyTorch as those of Python."""
    return value.tolist() if hasattr(value, "tolist") else value


def _numbers(columns: Columns, names: Sequence[str], level: str, num_rows: int) -> Column:
    chosen = [np.zeros((num_rows, 0))]
    for name in names:
        column = _column(columns, name, level)
        if column.dtype == object:
            raise DataError(f"{level} attribute {name!r} holds text; give it as a category instead")
        chosen.append(column.reshape(len(column), -1))
    return np.concatenate(chosen, axis=1)


def _ids(columns: Columns, vocabularies: Mapping[str, Sequence[str]], num_rows: int, level: str) -> Column:
    ids = np.zeros((num_rows, len(vocabularies)), dtype=np.int64)
    for position, (name, values) in enumerate(vocabularies.items()):
        id_of = {text_of(value): number for number, value in enumerate(values)}
        for row, value in enumerate(_column(columns, name, level)):
            key = None if value is None or value != value else text_of(value)
            if key not in id_of:
                raise DataError(f"{level} attribute {name!r} is {key!r} in row {row}; its vocabulary is {list(id_of)}")
            ids[row, position] = id_of[key]
    return ids


def _column(columns: Columns, name: str, level: str) -> Column:
    if name not in columns:
        raise DataError(f"there is no {level} attribute {name!r}; there are {', '.join(columns) or 'none'}")
    return columns[name]
