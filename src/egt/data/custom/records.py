"""Rows of several SMILES (`--smiles solute solvent`): one graph of components, whose atoms know their column.

The features of whole graphs (`--features temperature pH`): columns of the table as standardized numbers.

`RawGraph` + `CustomSchema` -> `Graph`: category ids, standardized numbers, merged edges, labels in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from egt.data.custom.columns import (
    LARGEST,
    Column,
    Columns,
    RawData,
    RawGraph,
    as_numbers,
    encode_target,
    missing_in,
    strange_label,
    text_of,
)
from egt.data.custom.schema import CustomSchema, Feature
from egt.data.molecules import MoleculeVocabulary, graphs_from_smiles
from egt.errors import DataError, EgtError
from egt.graph import UNKNOWN, Graph, IntArray

Built = tuple[Graph, str] | EgtError
"""A graph and a warning about it, or why there is none."""


def graphs_of_components(
    rows: Sequence[Sequence[str]],
    columns: Sequence[str],
    *,
    vocabulary: MoleculeVocabulary,
    ids: Sequence[str],
    graph_targets: Sequence[ArrayLike | None],
) -> list[Built]:
    """`graphs_from_smiles` of rows of several molecules; the component is the last category of each atom.

    Args:
        rows: the SMILES of each row, one per column.
        columns: their names, for messages.
        vocabulary: as in `graphs_from_smiles`.
        ids: the names of the graphs.
        graph_targets: (T,) the targets of each graph.
    """
    parts = [
        graphs_from_smiles(column, vocabulary=vocabulary, ids=ids, graph_targets=graph_targets)
        for column in zip(*rows, strict=True)
    ]
    return [_joined(row, columns) for row in zip(*parts, strict=True)]


def _joined(parts: Sequence[Built], columns: Sequence[str]) -> Built:
    """Return the molecules of a row as one graph, without an edge between them; the targets are those of all."""
    graphs, warnings = [], []
    for part, column in zip(parts, columns, strict=True):
        if isinstance(part, EgtError):
            return DataError(f"column {column!r}: {part}")
        graph, warning = part
        graphs.append(graph)
        warnings += [f"column {column!r}: {warning}"] if warning else []
    joined = Graph.trusted(
        **{
            **vars(graphs[0]),
            "num_nodes": sum(graph.num_nodes for graph in graphs),
            "edge_index": _frozen(_shifted(graphs), axis=1),
            "node_categories": _frozen(_told(graphs)),
            "node_values": _frozen(graph.node_values for graph in graphs),
            "edge_categories": _frozen(graph.edge_categories for graph in graphs),
            "edge_values": _frozen(graph.edge_values for graph in graphs),
        }
    )
    return joined, "; ".join(warnings)


def _shifted(graphs: Sequence[Graph]) -> Iterator[NDArray[np.int64]]:
    """Yield the edges of each graph with its nodes behind those of the graphs before it."""
    starts = accumulate((graph.num_nodes for graph in graphs[:-1]), initial=0)
    yield from (graph.edge_index + start for graph, start in zip(graphs, starts, strict=True))


def _told(graphs: Sequence[Graph]) -> Iterator[NDArray[np.int64]]:
    """Yield the categories of the atoms of each graph, with its number as the last one."""
    for number, graph in enumerate(graphs):
        component = np.full((graph.num_nodes, 1), number, dtype=np.int64)
        yield np.concatenate([graph.node_categories, component], axis=1)


def _frozen(arrays: Iterator[NDArray[Any]], axis: int = 0) -> NDArray[Any]:
    """Return arrays one after the other, read-only."""
    joined = np.concatenate(list(arrays), axis=axis)
    joined.setflags(write=False)
    return joined


Messages = dict[int, str]


def graph_values(raw: RawData, features: Sequence[Feature]) -> tuple[NDArray[np.float32], Messages, Messages]:
    """Return the standardized numbers of all rows, (R, F), warnings about missing ones, and errors, by row.

    Raises:
        DataError: a column holds vectors of another width than in training.
    """
    values: list[NDArray[np.float64]] = []
    filled: Messages = {}
    errors: Messages = {}
    for feature in features:
        numbers, missing, strange = _numbers(raw, feature)
        for row in np.flatnonzero(missing).tolist():
            warning = f"feature {feature.name!r} is missing: the training mean is taken"
            filled[row] = "; ".join(filter(None, (filled.get(row), warning)))
        for row in np.flatnonzero(strange).tolist():
            cell = raw.table[feature.name][row]
            shown = f"{text_of(cell)!r}" if np.ndim(cell) == 0 else f"{cell}"
            where = f"{raw.where} row {raw.first_row + row + 1}"
            errors.setdefault(row, f"{where}: feature {feature.name!r} is {shown}, not a finite number")
        values.append(numbers)
    return np.concatenate(values, axis=1).astype(np.float32), filled, errors


def _numbers(raw: RawData, feature: Feature) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """(R, width) standardized, the mean where there is none; (R,) which are missing, and which are no numbers."""
    column = raw.table[feature.name]
    numbers = as_numbers(column)[0].reshape(raw.num_rows, -1)
    missing = missing_in(column)
    beyond = np.abs(numbers) > LARGEST
    strange = (np.isnan(numbers) | beyond).any(axis=1) & ~missing
    try:
        return numbers_of(np.where(beyond, np.nan, numbers), feature, []), missing, strange
    except DataError as error:
        raise DataError(f"{raw.where}: feature {error}") from error


def build_graph(
    raw_graph: RawGraph,
    schema: CustomSchema,
    *,
    id: str,
    graph_targets: Sequence[float] | None = None,
    scored: NDArray[np.bool_] | None = None,
) -> tuple[Graph, list[str]]:
    """Return the graph of a raw one, and warnings about what had to be filled in.

    Args:
        raw_graph: the graph as its file gives it.
        schema: the meaning of its columns.
        id: the name of the graph.
        graph_targets: (T,) targets of the whole graph.
        scored: (N,) or (E',) the nodes or listed edges whose targets are kept; the others get NaN. None: all.

    Raises:
        DataError, GraphError: if the graph does not fit the schema or breaks a rule of `Graph`.
    """
    _check_ends(raw_graph.edges, raw_graph.num_nodes)
    warnings: list[str] = []
    if raw_graph.directed is not None and schema.directed is not None and raw_graph.directed != schema.directed:
        warnings.append(f"the graph says directed={raw_graph.directed}, read as directed={schema.directed}")
    directed = schema.is_directed(raw_graph.directed)
    merged = merge_edges(raw_graph.edges, _weights(raw_graph, schema, warnings), raw_graph.num_nodes, directed=directed)
    if merged.num_merged:
        warnings.append(f"{merged.num_merged} parallel edges merged (weights summed, first features kept)")
    node_categories, node_values = _features(raw_graph.nodes, schema.node_features, raw_graph.num_nodes, warnings)
    edge_categories, edge_values = _features(
        _edge_columns(raw_graph, schema, merged), schema.edge_features, len(merged.rows), warnings
    )
    targets: dict[str, Any] = {}
    if schema.level == "graph":
        targets["graph_targets"] = graph_targets
    elif schema.level == "node":
        targets["node_targets"] = _targets(raw_graph.nodes, schema, scored, warnings)
    elif schema.level == "edge":
        listed = _targets(raw_graph.edge_columns, schema, scored, warnings)
        targets["edge_targets"] = None if listed is None else listed[merged.rows]
    elif raw_graph.queries is not None:
        targets["edge_targets"] = raw_graph.query_targets
    graph = Graph(
        num_nodes=raw_graph.num_nodes,
        edge_index=merged.index,
        node_categories=node_categories,
        node_values=node_values.astype(np.float32),
        edge_categories=edge_categories,
        edge_values=edge_values.astype(np.float32),
        edge_weight=None if merged.weight is None else merged.weight.astype(np.float32),
        query_index=raw_graph.queries if schema.level == "link" else None,
        id=id,
        **targets,
    )
    return graph, warnings


@dataclass(frozen=True, eq=False)
class MergedEdges:
    """Edges as `Graph` wants them.

    Fields:
        index: (2, E) directed edges without repetitions, in the order of the list, added opposites last.
        rows: (E,) the listed edge that each one takes its features from.
        weight: (E,) sums of the merged weights, or None.
        num_merged: how many listed edges were merged into an earlier one.
    """

    index: IntArray
    rows: IntArray
    weight: NDArray[np.float64] | None
    num_merged: int


def merge_edges(edges: IntArray, weight: NDArray[np.float64] | None, num_nodes: int, *, directed: bool) -> MergedEdges:
    """Merge parallel edges (weights are summed, the first one's features kept) and add missing opposite directions.

    Args:
        edges: (2, E') listed edges. An undirected edge may be listed once or in both directions.
        weight: (E',) weights, or None.
        num_nodes: N.
        directed: whether an edge i -> j says nothing about j -> i.
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


def _check_ends(edges: IntArray, num_nodes: int) -> None:
    if edges.size and (edges.min() < 0 or edges.max() >= num_nodes):
        raise DataError(f"an edge names node {int(edges.max())}, but nodes are numbered 0..{num_nodes - 1}")


def _weights(raw_graph: RawGraph, schema: CustomSchema, warnings: list[str]) -> NDArray[np.float64] | None:
    unweighted = schema.format == "graphs" and schema.weight not in raw_graph.edge_columns
    if not schema.weight or unweighted:
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


def _edge_columns(raw_graph: RawGraph, schema: CustomSchema, merged: MergedEdges) -> Columns:
    """Return the columns of the merged edges; the weight is the merged one."""
    columns = {name: column[merged.rows] for name, column in raw_graph.edge_columns.items()}
    if merged.weight is not None:
        columns[schema.weight] = merged.weight
    return columns


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
            ids.append(_ids(column, feature, warnings)[:, None])
        else:
            values.append(numbers_of(column, feature, warnings))
    return np.concatenate(ids, axis=1), np.concatenate(values, axis=1)


def _ids(column: Column, feature: Feature, warnings: list[str]) -> IntArray:
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


def numbers_of(column: Column, feature: Feature, warnings: list[str]) -> NDArray[np.float64]:
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


def _targets(
    columns: Columns, schema: CustomSchema, scored: NDArray[np.bool_] | None, warnings: list[str]
) -> NDArray[np.float64] | None:
    """(n, T) targets, or None when no target column is there (new data to predict)."""
    if not any(name in columns for name in schema.targets):
        return None
    num_rows = len(next(columns[name] for name in schema.targets if name in columns))
    targets = np.full((num_rows, len(schema.targets)), np.nan)
    for position, name in enumerate(schema.targets):
        if name not in columns:
            continue
        if columns[name].ndim != 1:
            raise DataError(f"the target {name!r} holds vectors; it must hold one label per row")
        targets[:, position], strange = encode_target(columns[name], schema.classes)
        if strange:
            warnings.append(strange_label(name, strange[0], schema.classes))
    if scored is not None:
        targets[~scored] = np.nan
    return targets
