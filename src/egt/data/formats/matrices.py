"""A folder of matrices: one file for each graph, and a table that names them.

    index.csv    file, then targets, features and `split` of each graph; `file` is a path inside the folder
    one.csv      a matrix with a row and a column for each node, numbers without a header; empty: missing
    two.npy      (N, N) or (N, N, F) numbers
    three.npz    several arrays by name: (N, N) or (N, N, F) ones are matrices, (N,) and (N, F) ones are columns of the
                 nodes, and `edges`, (2, E) or (E, 2), the edges
    four.xyz     atoms in space, as in `egt.data.formats.xyz`

The matrix of a file without names is called `matrix`. Nothing is ever unpickled.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from egt.data.columns import (
    FORMATS,
    POSITION_NAMES,
    Column,
    Format,
    RawData,
    RawGraph,
    digest_of_files,
    matrix_of,
    objects,
    read_each,
    texts_in,
)
from egt.data.formats import xyz
from egt.data.formats.tables import MISSING_TEXTS, TABLE_SUFFIXES, open_text, read_table
from egt.errors import DataError
from egt.files import Bounds, exists

INDEX_NAMES = ("index", "graphs")
FILE_NAMES = ("file", "path", "filename", "matrix")
SUFFIXES = (".csv", ".tsv", ".csv.gz", ".npy", ".npz", *xyz.SUFFIXES)


@FORMATS.register("matrices")
class Matrices(Format):
    """A folder with an index table whose column `file` names matrices."""

    what = "a folder with index.csv (column file) and matrices (.csv, .npy, .npz) or atoms (.xyz)"

    @staticmethod
    def fits(data: Any) -> bool:
        return isinstance(data, Path) and data.is_dir() and _index(data) is not None and not any(data.glob("nodes.*"))

    @staticmethod
    def read(data: Any) -> RawData:
        index = _index(data)
        assert index is not None
        table = read_table(index)
        name = next((name for name in table.columns if name.lower() in FILE_NAMES), None)
        if name is None:
            raise DataError(
                f"{index}: no column names the matrices; it has {', '.join(table.columns)}. Add a column file with a "
                f"path to a {', '.join(SUFFIXES)} for each row"
            )
        files = texts_in(table.columns[name])
        rows = read_each(files, lambda file: _raw_graph(data, file), lambda row: f"{data.name}: {files[row] or 'row'}")
        columns = {each: column for each, column in table.columns.items() if each != name}
        stems = [Path(file).stem for file in files]
        if not any(each.lower() == "id" for each in columns) and len(set(stems)) == len(stems):
            columns["id"] = objects(stems)
        there = [data / file for file in files if exists(data / file) and (data / file).is_file()]
        return RawData(
            where=str(data),
            format="matrices",
            table=columns,
            digest=digest_of_files([index, *there]),
            **{**rows, "problems": {**rows["problems"], **table.problems}},
        )


def _index(path: Path) -> Path | None:
    files = (path / f"{name}{suffix}" for name in INDEX_NAMES for suffix in TABLE_SUFFIXES)
    return next((file for file in files if file.is_file()), None)


def _raw_graph(folder: Path, name: str) -> RawGraph:
    path = folder / name
    if not exists(path):
        raise DataError("there is no such file")
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        raise DataError(f"file {name!r} is no file inside of the folder")
    if name.lower().endswith(xyz.SUFFIXES):
        return xyz.read_frame(xyz.split_frames(path)[0])
    arrays = _arrays(path)
    rest = {key: array for key, array in arrays.items() if key != "edges" and key.lower() not in POSITION_NAMES}
    square = {key: array for key, array in rest.items() if array.ndim in (2, 3) and len(array) == array.shape[1]}
    if not square:
        shapes = ", ".join(f"{key} {array.shape}" for key, array in arrays.items())
        raise DataError(f"no array is a matrix with a row and a column for each node; there are {shapes or 'none'}")
    sizes = {len(array) for array in square.values()}
    num_nodes = max(sizes)
    if not num_nodes:
        raise DataError("the graph has no nodes")
    pairs = {key: array for key, array in square.items() if len(array) == num_nodes}
    edges = _edges(arrays.get("edges"), num_nodes)
    nodes: dict[str, Column] = {}
    for key, array in arrays.items():
        if key in pairs or key == "edges":
            continue
        if array.ndim not in (1, 2) or len(array) != num_nodes:
            raise DataError(f"array {key!r} has the shape {array.shape}, but there are {num_nodes} nodes")
        nodes[key] = array.astype(np.float64) if array.dtype.kind in "biuf" else objects(array.astype(str).tolist())
    return RawGraph(
        num_nodes=num_nodes,
        edges=edges,
        nodes=nodes,
        pairs={key: matrix_of(array, num_nodes, f"array {key!r}") for key, array in pairs.items()},
    )


def _edges(given: Column | None, num_nodes: int) -> Column:
    if given is None or not given.size:
        return np.zeros((2, 0), np.int64)
    edges = given if given.ndim == 2 and len(given) == 2 else given.T
    if edges.ndim != 2 or len(edges) != 2 or edges.dtype.kind not in "iu":
        raise DataError(f"array 'edges' has the shape {given.shape} of {given.dtype}; it must be (2, E) node numbers")
    if edges.min() < 0 or edges.max() >= num_nodes:
        raise DataError(f"array 'edges' names node {edges.max()}, but nodes are numbered 0..{num_nodes - 1}")
    return edges.astype(np.int64)


def _plain(array: Column) -> Column:
    """Return an array whose texts consist of characters, as Python finds out when it makes them."""
    if array.dtype.kind == "U":
        array.tolist()
    return array


def _arrays(path: Path) -> Mapping[str, Column]:
    """Return the arrays of a file by name."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".npz":
            with zipfile.ZipFile(path) as archive:
                Bounds.current().check("bytes", sum(part.file_size for part in archive.infolist()), path)
            with np.load(path, allow_pickle=False) as content:
                return {name: _plain(content[name]) for name in content.files}
        if suffix == ".npy":
            return {"matrix": _plain(np.array(np.load(path, mmap_mode="r", allow_pickle=False)))}  # as much as is there
    except DataError:
        raise
    except Exception as error:  # NumPy reads the head of an array by parts of Python's parser, which raise many kinds
        raise DataError(f"cannot be read as plain arrays: {' '.join(str(error).split())[:200]}") from error
    if not path.name.lower().endswith(SUFFIXES):
        raise DataError(f"its ending is not known; allowed are {', '.join(SUFFIXES)}")
    with open_text(path) as file:
        lines = [line.strip() for line in file if line.strip()]
    delimiter = max(",;\t", key=lines[0].count) if lines else ","
    rows = [line.split(delimiter) if delimiter in line else line.split() for line in lines]
    try:
        numbers = [[np.nan if cell.strip() in MISSING_TEXTS else float(cell) for cell in row] for row in rows]
        return {"matrix": np.array(numbers, dtype=np.float64)}
    except ValueError as error:
        raise DataError(f"not a matrix of numbers without a header: {error}") from error
