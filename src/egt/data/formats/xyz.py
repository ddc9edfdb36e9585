"""XYZ and extended XYZ: atoms with their places in space, one frame below another. Bonds are not guessed.

    3
    Properties=species:S:1:pos:R:3:charge:R:1 energy=-76.4 split=train
    O 0.0 0.0 0.1 -0.8
    H ...

Keys of the second line are columns of the frames (targets, `split`), further columns of the atoms are theirs. A second
line without keys is the column `comment`. Of a crystal (`Lattice` with three vectors) the shortest distances over all
neighboring cells are a matrix, in place of positions.
"""

from __future__ import annotations

import re
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from egt.data.columns import FORMATS, Column, Format, RawData, RawGraph, column_of_values, digest_of_files, read_each
from egt.data.formats.tables import column_of_texts, open_text
from egt.errors import DataError
from egt.graph import IntArray

SUFFIXES = (".xyz", ".xyz.gz", ".extxyz", ".extxyz.gz")

_PLAIN = "species:S:1:pos:R:3"
_KEY = re.compile(r"""([\w-]+)\s*=\s*("[^"]*"|'[^']*'|\{[^}]*\}|\[[^\]]*\]|\S+)""")
_NOT_COLUMNS = ("Properties", "Lattice", "pbc")

_YES = ("T", "TRUE", "1")


@FORMATS.register("xyz")
class Xyz(Format):
    """A file of frames of atoms, as programs of quantum chemistry and of materials write it."""

    suffixes = SUFFIXES
    what = f"atoms in space ({', '.join(SUFFIXES)})"

    @staticmethod
    def read(data: Any) -> RawData:
        frames = split_frames(data)
        heads = [_head(frame[1]) for frame in frames]
        names = dict.fromkeys(name for head in heads for name in head if name not in _NOT_COLUMNS)
        return RawData(
            where=str(data),
            format="xyz",
            table={name: column_of_texts([head.get(name, "") for head in heads]) for name in names},
            digest=digest_of_files([data]),
            **read_each(frames, read_frame, lambda row: f"{data.name}: frame {row + 1}"),
        )


def split_frames(path: Path) -> list[list[str]]:
    """Return the lines of each frame: the number of atoms, the comment, and the atoms."""
    with open_text(path) as file:
        lines = [line.strip() for line in file]
    frames, start = [], 0
    while start < len(lines):
        if not lines[start]:
            start += 1
            continue
        if not lines[start].isdecimal():
            raise DataError(f"{path} line {start + 1}: {lines[start]!r:.60} is not the number of atoms of a frame")
        end = start + 2 + int(lines[start])
        if end > len(lines):
            raise DataError(f"{path} line {start + 1}: the frame has {lines[start]} atoms, but the file ends before")
        frames.append(lines[start:end])
        start = end
    if not frames:
        raise DataError(f"{path}: there is no frame in this file")
    return frames


def read_frame(lines: list[str]) -> RawGraph:
    """Return the atoms of a frame as a graph without edges."""
    head = _head(lines[1])
    layout = head.get("Properties", _PLAIN).split(":")
    if len(layout) % 3:
        raise DataError(f"Properties={head['Properties']!r:.60} is not a list of name:type:number")
    rows = [line.split() for line in lines[2:]]
    if not rows:
        raise DataError("it has no atoms")
    nodes: dict[str, Column] = {}
    start = 0
    for name, kind, count in zip(layout[::3], layout[1::3], layout[2::3], strict=True):
        end = start + (int(count) if count.isdecimal() else 0)
        if end == start or any(len(row) < end for row in rows):
            raise DataError(f"an atom has {min(map(len, rows))} columns, and {name!r} needs {end} ({':'.join(layout)})")
        nodes[name] = _column([row[start:end] for row in rows], kind, f"column {name!r}")
        start = end
    if "pos" not in nodes:
        raise DataError("it has no positions (Properties=...:pos:R:3)")
    places = nodes.pop("pos")
    if "species" in nodes:
        nodes = {"element": nodes.pop("species"), **nodes}
    edges: IntArray = np.zeros((2, 0), np.int64)
    if (cell := _cell(head)) is not None:
        return RawGraph(len(rows), edges, nodes, pairs={"distance": _shortest(places, *cell)})
    return RawGraph(len(rows), edges, {**nodes, "positions": places})


def _head(comment: str) -> dict[str, str]:
    found = {name: text.strip("\"'{}[]") for name, text in _KEY.findall(comment)}
    return found or ({"comment": comment} if comment else {})


def _column(rows: list[list[str]], kind: str, what: str) -> Column:
    """(N,) texts or numbers, or (N, width) numbers."""
    if kind == "S":
        return column_of_values([" ".join(row) for row in rows], what)
    try:
        numbers = [[float(cell.upper() in _YES) if kind == "L" else float(cell) for cell in row] for row in rows]
    except ValueError as error:
        raise DataError(f"{what}: {error}") from error
    column = np.array(numbers, np.float64)
    return column[:, 0] if column.shape[1] == 1 else column


def _cell(head: dict[str, str]) -> tuple[Column, list[bool]] | None:
    """(3, 3) the vectors of the cell, and in which directions it repeats; None where it does not."""
    if "Lattice" not in head:
        return None
    try:
        cell = np.array(head["Lattice"].split(), np.float64).reshape(3, 3)
    except ValueError as error:
        raise DataError(f"Lattice={head['Lattice']!r:.60} is not nine numbers") from error
    if not abs(np.linalg.det(cell)) > 0:
        raise DataError(f"Lattice={head['Lattice']!r:.60} holds no volume")
    repeats = [word.upper() in _YES for word in head.get("pbc", "T T T").replace(",", " ").split()]
    if len(repeats) != 3:
        raise DataError(f"pbc={head['pbc']!r:.60} is not three of T and F")
    return (cell, repeats) if any(repeats) else None


def _shortest(places: Column, cell: Column, repeats: list[bool]) -> Column:
    """(N, N) the distance of each pair of atoms over the cells around."""
    apart = (places[:, None] - places) @ np.linalg.inv(cell)  # (N, N, 3) in units of the cell
    apart -= np.rint(apart) * repeats
    steps = product(*((-1, 0, 1) if repeat else (0,) for repeat in repeats))
    shortest: Column = reduce(np.minimum, (np.linalg.norm((apart + step) @ cell, axis=-1) for step in steps))
    return shortest
