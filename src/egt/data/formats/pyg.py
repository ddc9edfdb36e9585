"""PyTorch Geometric: `Data` objects, data sets of them, and saved files (read with weights-only loading)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from egt.data.columns import (
    FORMATS,
    MAX_NODES,
    Column,
    Format,
    RawData,
    RawGraph,
    digest_of_files,
    digest_of_graphs,
    matrix_of,
    one_or_many,
    read_each,
    split_vectors,
    text_of,
    with_mask_split,
)
from egt.errors import DataError, EgtError, require_extra
from egt.files import check_tensors
from egt.graph import Graph

STRUCTURE = ("edge_index", "y", "num_nodes", "ptr", "batch")


def is_pyg(data: object) -> bool:
    """Return whether an object is a PyG `Data` (found without importing PyG)."""
    return any(
        kind.__module__.startswith("torch_geometric.") and kind.__name__ == "BaseData" for kind in type(data).__mro__
    )


@FORMATS.register("pyg")
class PyG(Format):
    """A `.pt` file of tensors, a `Data`, or a data set of them."""

    what = "a .pt file of PyG tensors, or PyG data"

    @staticmethod
    def fits(data: Any) -> bool:
        return data.suffix.lower() == ".pt" if isinstance(data, Path) else bool(one_or_many(data, is_pyg))

    @staticmethod
    def read(data: Any) -> RawData:
        where = str(data) if isinstance(data, Path) else "PyG data"
        try:
            return read_pt(data) if isinstance(data, Path) else raw_pyg(one_or_many(data, is_pyg), where)
        except EgtError:
            raise
        except Exception as error:  # tensors of any shape and type may stand where graphs are expected
            raise DataError(f"{where}: holds tensors, but not graphs: {error!r:.200}") from error


def read_pt(path: Path) -> RawData:
    """Read a `.pt` file that holds plain tensors: made by `InMemoryDataset.save`, or a list of `Data.to_dict()`.

    Nothing is unpickled: files with other objects are refused.
    """
    with require_extra("graph", ".pt files need PyTorch Geometric", DataError):
        import torch
        import torch_geometric.data as geometric
    try:
        content = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # damaged files raise many kinds; each one is a file that cannot be read
        text = re.sub(r"\x1b\[[0-9;]*m", "", " ".join(str(error).split())) or type(error).__name__
        refused = re.search(r"Unsupported \w+: (?:GLOBAL )?([\w.]+)", text)
        raise DataError(
            f"{path}: cannot be read safely ({f'it holds {refused[1]}' if refused else text.split('. ')[0][:200]}). A "
            "file with whole objects would run code from the file. Save the data as torch.save([data.to_dict() for "
            "data in dataset], path), or with InMemoryDataset.save(list_of_data, path)"
        ) from error
    check_tensors(content, path)
    return raw_pyg(_unpack(content, geometric), str(path), digest_of_files([path]))


def raw_pyg(datas: Sequence[Any], where: str = "PyG data", digest: str = "") -> RawData:
    """PyG `Data` objects as raw data."""
    datas = [part for data in datas for part in (data.to_data_list() if hasattr(data, "to_data_list") else [data])]
    labeled = [data for data in datas if getattr(data, "y", None) is not None]
    for data in labeled:
        if _array(data.y).dtype.kind not in "biuf":
            raise DataError(f"{where}: y is {data.y!r:.60}; it must hold numbers (number the classes 0, 1, ...)")
    level = _target_level(labeled)
    matrices = _matrices(datas)
    rows = read_each(datas, lambda data: _raw_graph(data, level, matrices), lambda row: f"{where}: graph {row}")
    table: dict[str, Column] = {}
    names: tuple[str, ...] = ()
    if level == "graph":
        missing = np.full(_array(labeled[0].y).size, np.nan)
        given = [missing if getattr(data, "y", None) is None else _array(data.y).reshape(-1) for data in datas]
        table = split_vectors("y", np.stack(given).astype(np.float64))
        names = tuple(table)
    elif level is not None:
        names = tuple(split_vectors("y", _rows(_array(labeled[0].y)).astype(np.float64)))
    return RawData(
        where=where,
        format="pyg",
        table=table,
        declared={level: names} if level is not None else {},
        digest=digest or digest_of_graphs(table, rows["graphs"]),
        **rows,
    )


def from_pyg(data: Any, *, level: Literal["graph", "node", "edge"] | None = None, id: str = "") -> Graph:
    """Return a PyG `Data` as a `Graph`, features taken as they are: integer ones are category ids, float ones values.

    Args:
        data: a `Data` with `edge_index` and any of `x`, `edge_attr`, `edge_weight`, `pos` and `y`.
        level: what `y` describes; None: nodes if it has as many rows as there are nodes, else edges, else the graph.
        id: the name of the graph.
    """
    num_nodes = int(data.num_nodes)
    fields: dict[str, Any] = {}
    for name, prefix in (("x", "node"), ("edge_attr", "edge")):
        if (given := getattr(data, name, None)) is not None:
            features = _rows(_array(given))
            fields[f"{prefix}_values" if features.dtype.kind == "f" else f"{prefix}_categories"] = features
    if getattr(data, "edge_weight", None) is not None:
        fields["edge_weight"] = _array(data.edge_weight).reshape(-1)
    if getattr(data, "pos", None) is not None:
        fields["positions"] = _array(data.pos)
    if getattr(data, "y", None) is not None:
        targets = _array(data.y).astype(np.float64)
        level = level or _target_level([data])
        fields[f"{level}_targets"] = targets.reshape(-1) if level == "graph" else _rows(targets)
    return Graph(num_nodes=num_nodes, edge_index=_array(data.edge_index), id=id, **fields)


def _unpack(content: Any, geometric: Any) -> list[Any]:
    if isinstance(content, tuple) and len(content) in (2, 3) and isinstance(content[0], dict):
        stored, slices = geometric.Data.from_dict(content[0]), content[1]
        if slices is None:
            return [stored]
        count = len(next(iter(slices.values()), (0,))) - 1
        return [geometric.separate.separate(geometric.Data, stored, k, slices, decrement=False) for k in range(count)]
    if isinstance(content, dict):
        return [geometric.Data.from_dict(content)]
    return [geometric.Data.from_dict(dict(item)) for item in content]


def _array(tensor: Any) -> Column:
    if not hasattr(tensor, "detach"):
        return np.asarray(tensor)
    plain = tensor.detach().cpu()
    plain = plain if str(plain.layout) == "torch.strided" else plain.to_dense()
    if plain.is_complex():
        raise DataError("complex numbers; give their real and imaginary parts as two columns")
    return np.asarray(plain.float() if str(plain.dtype) == "torch.bfloat16" else plain)  # which NumPy does not know


def _rows(array: Column) -> Column:
    return array.reshape(len(array), -1)


def _target_level(datas: Sequence[Any]) -> Literal["graph", "node", "edge"] | None:
    """Return what `y` describes: it has one row per node in all graphs, or per edge, or as many numbers in each graph.

    datas: the graphs that have a `y`.
    """
    if not datas:
        return None
    rows = [_array(data.y).shape[0] if _array(data.y).ndim else 1 for data in datas]
    if all(count == 1 for count in rows):
        return "graph"
    if all(count == data.num_nodes for count, data in zip(rows, datas, strict=True)):
        return "node"
    if all(count == data.edge_index.shape[1] for count, data in zip(rows, datas, strict=True)):
        return "edge"
    if len({_array(data.y).size for data in datas}) == 1:
        return "graph"
    raise DataError("y has neither one row per node, nor per edge, nor the same number of values in each graph")


def _matrices(datas: Sequence[Any]) -> frozenset[str]:
    """Return the attributes that have a row and a column for each node in every graph, such as distances.

    What PyG gives a meaning of its own is none of them: `x` of a graph may be as wide as it has nodes.
    """
    arrays = [{name: given for name, given in data.to_dict().items() if hasattr(given, "shape")} for data in datas]
    shapes = [{name: tuple(given.shape) for name, given in each.items()} for each in arrays]
    return frozenset(
        name
        for name in set().union(*shapes) - {*STRUCTURE, "x", "pos", "edge_attr"}
        if all(
            len(shape.get(name, ())) in (2, 3) and shape[name][:2] == (data.num_nodes, data.num_nodes)
            for shape, data in zip(shapes, datas, strict=True)
        )
    )


def _raw_graph(data: Any, level: str | None, matrices: frozenset[str]) -> RawGraph:
    num_nodes = int(data.num_nodes or 0)
    if num_nodes < 1 or getattr(data, "edge_index", None) is None:
        raise DataError("a graph needs at least one node and an edge_index")
    if num_nodes > MAX_NODES:
        raise DataError(f"{num_nodes:,} nodes; a graph has at most {MAX_NODES:,}")
    edges = _array(data.edge_index).astype(np.int64)
    if edges.ndim != 2 or len(edges) != 2:
        raise DataError(f"edge_index has the shape {edges.shape}; it must be (2, number of edges)")
    nodes: dict[str, Column] = {}
    edge_columns: dict[str, Column] = {}
    for name, given in data.to_dict().items():
        if name in STRUCTURE or name in matrices or not hasattr(given, "shape") or not len(given.shape):
            continue
        array = _array(given)
        if len(array) == num_nodes and name not in ("edge_attr", "edge_weight", "edge_label"):
            nodes.update(_columns(name, array))
        elif len(array) == edges.shape[1]:
            edge_columns.update(_columns(name, array))
    if level in ("node", "edge") and getattr(data, "y", None) is not None:
        targets = split_vectors("y", _rows(_array(data.y)).astype(np.float64))
        (nodes if level == "node" else edge_columns).update(targets)
    return RawGraph(
        num_nodes=num_nodes,
        edges=edges,
        nodes=with_mask_split(nodes, "Data"),
        edge_columns=with_mask_split(edge_columns, "Data"),
        pairs={name: matrix_of(_array(getattr(data, name)), num_nodes, name) for name in sorted(matrices)},
    )


def _columns(name: str, array: Column) -> dict[str, Column]:
    """Floats are one vector column, whole numbers one categorical column each, masks and weights plain numbers."""
    if array.ndim == 1:
        kept = array.dtype.kind in "fb"
        return {name: array.astype(np.float64) if kept else np.array([text_of(value) for value in array], dtype=object)}
    rows = _rows(array)
    if rows.dtype.kind == "f" or name.endswith("_mask"):
        return {name: rows.astype(np.float64)}
    return split_vectors(name, np.array([[text_of(cell) for cell in row] for row in rows], dtype=object))
