"""From what the user hands over to `RawData`: the format is told from the name of a file or the type of an object."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from egt.errors import DataError
from egt.sources.custom.folder import is_folder, read_folder
from egt.sources.custom.jsonl import JSONL_SUFFIXES, read_jsonl
from egt.sources.custom.networks import is_networkx, raw_networkx, read_graphml
from egt.sources.custom.pyg import is_pyg, raw_pyg, read_pt
from egt.sources.custom.raw import RawData, column_of_values, digest_of_shapes
from egt.sources.custom.tables import TABLE_SUFFIXES, read_molecules
from egt.sources.custom.tu import is_tu, read_tu

SUFFIXES = (*TABLE_SUFFIXES, *JSONL_SUFFIXES, ".graphml", ".pt")
"""How the names of files end, in lower case."""
FORMATS = (
    f"a table of molecules ({', '.join(TABLE_SUFFIXES)}), graphs in {', '.join(JSONL_SUFFIXES)}, a .graphml file, "
    "a .pt file of PyG tensors, or a folder with nodes.csv and edges.csv, with TU text files, or with .graphml files"
)


def read_raw(data: Any) -> RawData:
    """Parse a path, a NetworkX graph, a PyG `Data`, or a list or data set of such objects.

    Raises:
        DataError: if there is nothing at the path, the format is unknown, or the file as a whole cannot be read.
    """
    if isinstance(data, RawData):
        return data
    if isinstance(data, str | Path):
        return _read_path(Path(data))
    if is_networkx(data):
        return raw_networkx([data])
    if is_pyg(data):
        return raw_pyg([data])
    if isinstance(data, Iterable):
        items = list(data)
        if items and all(is_networkx(item) for item in items):
            return raw_networkx(items)
        if items and all(is_pyg(item) for item in items):
            return raw_pyg(items)
    raise DataError(f"data of type {type(data).__name__} is given; allowed are a path, NetworkX graphs and PyG data")


def raw_smiles(smiles: Iterable[str], column: str = "smiles") -> RawData:
    """SMILES strings, as given on a command line, as raw data."""
    table = {column: column_of_values([str(text) for text in smiles], "SMILES")}
    return RawData(
        where="SMILES",
        format="molecules",
        num_rows=len(table[column]),
        table=table,
        digest=digest_of_shapes(table, ()),
    )


def _read_path(path: Path) -> RawData:
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder")
    if path.is_dir():
        return _read_directory(path)
    name = path.name.lower()
    if name.endswith(TABLE_SUFFIXES):
        return read_molecules(path)
    if name.endswith(JSONL_SUFFIXES):
        return read_jsonl(path)
    if name.endswith(".graphml"):
        return read_graphml([path])
    if name.endswith(".pt"):
        return read_pt(path)
    raise DataError(f"{path}: this kind of file is not known; allowed are {FORMATS}")


def _read_directory(path: Path) -> RawData:
    if is_folder(path):
        return read_folder(path)
    if is_tu(path):
        return read_tu(path)
    if graphs := sorted(path.glob("*.graphml")):
        return read_graphml(graphs)
    if (
        alone := next((file.name for file in sorted(path.glob("*")) if file.name.startswith("edges.")), None)
    ) is not None:
        raise DataError(f"{path}: {alone} is there, but no table of nodes; list them in nodes.csv (column node)")
    raise DataError(f"{path}: this folder holds no graphs that are known; allowed are {FORMATS}")
