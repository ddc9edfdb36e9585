"""The TU text format: a folder `DS` with `DS_A.txt`, `DS_graph_indicator.txt` and the optional label files.

Node and edge labels are categories, attributes are continuous vectors. The target is `graph_label` (or, in a folder
without graph labels, `graph_attribute`). `DS_graph_splits.txt`, which is ours, says train, val or test for each graph.
Each file may be gzipped.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.columns import (
    FORMATS,
    Column,
    Format,
    RawData,
    RawGraph,
    digest_of_files,
    objects,
    read_each,
    split_vectors,
    text_of,
)
from egt.data.formats.tables import open_text
from egt.errors import DataError

Numbers = NDArray[np.float64]

FILES = (
    "A", "graph_indicator", "graph_labels", "graph_attributes",
    "node_labels", "node_attributes", "edge_labels", "edge_attributes",
)  # fmt: skip


@FORMATS.register("tu")
class TU(Format):
    """A folder with exactly one adjacency file."""

    what = "a folder with TU text files"

    @staticmethod
    def fits(data: Any) -> bool:
        return isinstance(data, Path) and data.is_dir() and len(_adjacencies(data)) == 1

    @staticmethod
    def read(data: Any) -> RawData:
        return read_tu(data)


def read_tu(path: Path) -> RawData:
    """Read a folder in the TU text format."""
    prefix = _adjacencies(path)[0].name.split("_A.txt")[0]
    files = {name: file for name in FILES if (file := _find(path, f"{prefix}_{name}.txt")) is not None}
    content = {name: _numbers(file) for name, file in files.items()}
    if "graph_indicator" not in content:
        raise DataError(f"{path}: {prefix}_graph_indicator.txt is missing")
    graph_of, num_graphs = _graph_of(content, path)
    edges = _edges(content["A"], graph_of, path)
    order = np.argsort(graph_of[edges[:, 0]], kind="stable")
    starts = np.searchsorted(graph_of, np.arange(num_graphs + 1))
    edge_starts = np.searchsorted(graph_of[edges[order, 0]], np.arange(num_graphs + 1))
    nodes = _columns(content, "node", len(graph_of), path)
    edge_columns = {name: column[order] for name, column in _columns(content, "edge", len(edges), path).items()}

    def graph(row: int) -> RawGraph:
        mine, my_edges = slice(starts[row], starts[row + 1]), slice(edge_starts[row], edge_starts[row + 1])
        if starts[row] == starts[row + 1]:
            raise DataError("it has no nodes")
        return RawGraph(
            num_nodes=int(starts[row + 1] - starts[row]),
            edges=np.ascontiguousarray(edges[order[my_edges]].T) - starts[row],
            nodes={name: column[mine] for name, column in nodes.items()},
            edge_columns={name: column[my_edges] for name, column in edge_columns.items()},
        )

    table: dict[str, Column] = {}
    for name, values in _columns(content, "graph", num_graphs, path).items():
        table |= split_vectors(name, values)
    targets = ("graph_label",) if "graph_label" in table else tuple(table)
    if (splits := _find(path, f"{prefix}_graph_splits.txt")) is not None:
        files["graph_splits"] = splits
        with open_text(splits) as lines:
            words = [line.strip() or None for line in lines]
        if len(words) != num_graphs:
            raise DataError(f"{splits}: {len(words)} lines; each of the {num_graphs} graphs needs train, val or test")
        table["split"] = objects(words)
    return RawData(
        where=str(path),
        format="tu",
        table=table,
        declared={"graph": targets} if targets else {},
        digest=digest_of_files(files.values()),
        **read_each(range(num_graphs), graph, lambda row: f"{path.name}: graph {row + 1}"),
    )


def _adjacencies(path: Path) -> list[Path]:
    return [file for ending in ("", ".gz") for file in sorted(path.glob(f"*_A.txt{ending}"))]


def _find(path: Path, name: str) -> Path | None:
    return next((file for ending in ("", ".gz") if (file := path / f"{name}{ending}").is_file()), None)


def _numbers(path: Path) -> Numbers:
    """(lines, columns) the comma-separated numbers of a file."""
    with open_text(path) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an empty file is a graph without edges, or caught by its length
        try:
            return np.loadtxt(file, delimiter=",", ndmin=2)
        except ValueError as error:
            raise DataError(f"{path}: {error}") from error


def _graph_of(content: dict[str, Numbers], path: Path) -> tuple[NDArray[np.int64], int]:
    """(N,) the graph of each node, from 0, and the number of graphs."""
    given = content["graph_indicator"]
    most = 1000 + 10 * len(given)  # some graphs may have no nodes, but not nearly all
    if given.shape[1] != 1 or not given.size or not _are_whole(given, 1, most).all():
        raise DataError(
            f"{path}: the graph indicator must hold one graph number 1, 2, ... per line, none above {most:,} "
            f"in {len(given):,} lines"
        )
    graph_of = given[:, 0].astype(np.int64) - 1
    if (np.diff(graph_of) < 0).any():
        raise DataError(f"{path}: the graph indicator must not decrease: the nodes of a graph follow each other")
    sized = [len(content[name]) for name in ("graph_labels", "graph_attributes") if name in content]
    num_graphs = sized[0] if sized else int(graph_of[-1]) + 1
    if graph_of[-1] >= num_graphs:
        raise DataError(f"{path}: a node belongs to graph {graph_of[-1] + 1}, but there are {num_graphs} graph labels")
    return graph_of, num_graphs


def _edges(given: Numbers, graph_of: NDArray[np.int64], path: Path) -> NDArray[np.int64]:
    """(E, 2) the two nodes of each line, from 0."""
    if not given.size:
        return np.zeros((0, 2), dtype=np.int64)
    if given.shape[1] != 2:
        raise DataError(f"{path}: the adjacency file must hold two node numbers per line")
    wrong = np.flatnonzero(~_are_whole(given, 1, len(graph_of)).all(axis=1))
    if len(wrong):
        raise DataError(f"{path}: the adjacency file, line {wrong[0] + 1}: nodes are numbered 1..{len(graph_of)}")
    edges = given.astype(np.int64) - 1
    across = np.flatnonzero(graph_of[edges[:, 0]] != graph_of[edges[:, 1]])
    if len(across):
        raise DataError(f"{path}: the adjacency file, line {across[0] + 1}: an edge joins two graphs")
    return edges


def _are_whole(numbers: Numbers, low: float, high: float) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (numbers == np.rint(numbers)) & (numbers >= low) & (numbers <= high)
    return inside


def _columns(content: dict[str, Numbers], level: str, num_rows: int, path: Path) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    if (labels := content.get(f"{level}_labels")) is not None:
        texts = np.array([[text_of(value) for value in row] for row in labels], dtype=object).reshape(labels.shape)
        columns.update(split_vectors(f"{level}_label", texts))
    if (attributes := content.get(f"{level}_attributes")) is not None:
        columns[f"{level}_attribute"] = attributes
    for name, column in columns.items():
        if len(column) != num_rows:
            raise DataError(f"{path}: {name} has {len(column)} lines; there are {num_rows} {level}s")
    return columns
