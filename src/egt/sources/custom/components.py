"""Rows of several SMILES (`--smiles solute solvent`): one graph of components, whose atoms know their column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from egt.errors import DataError, EgtError
from egt.graph import Graph
from egt.sources.molecules import MoleculeVocabulary, graphs_from_smiles

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
