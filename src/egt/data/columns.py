"""What every file format is parsed into: named columns whose meaning is not decided yet.

A `Column` is one of three arrays: (n,) float64 numbers with NaN where a value is missing, (n,) object texts with None
where one is missing, or (n, width) float64 vectors. A format may use the type as a hint: texts are always categories
and vectors always continuous; only plain numbers are guessed about.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from egt.errors import DataError
from egt.graph import IntArray
from egt.registry import Registry

Column = NDArray[Any]
Columns = Mapping[str, Column]

LARGEST = float(np.finfo(np.float32).max)  # the largest number that a graph can hold
MAX_NODES = 10_000_000  # the most nodes of one graph
_NUMBER = r"(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|nan|NaN|null|None|true|false|True|False)"

_LIST = re.compile(
    rf"\[\s*(?:{_NUMBER}(?:[\s,;]+{_NUMBER})*)?\s*\]|\[\s*['\"].*['\"]\s*\]|{_NUMBER}(?:[;\s]+{_NUMBER})+", re.DOTALL
)

_LISTS_TRIED = 10

_BOUND = re.compile(r"(>=|<=|>>|<<|[><≥≤~≈=])\s*(\S+)")


@dataclass(frozen=True, eq=False)
class RawGraph:
    """One graph as its file gives it."""

    num_nodes: int
    edges: IntArray  # (2, E) as listed, before parallel edges are merged and opposite directions added
    nodes: Columns = field(default_factory=dict)
    edge_columns: Columns = field(default_factory=dict)
    directed: bool | None = None  # what the file says about this graph; None if it says nothing
    queries: IntArray | None = None  # (2, R) query pairs (link prediction)
    query_targets: NDArray[np.float64] | None = None  # (R, 1) whether each of them is a link
    names: Sequence[str] = ()  # what the file calls the nodes; empty where they are numbered
    pairs: Columns = field(default_factory=dict)  # of all pairs: (N, N) numbers or texts, or (N, N, F) numbers

    def columns(self, level: str) -> Columns:
        """Return the columns of the "node"s, of the listed "edge"s, or of all "pair"s: (N^2, ...), row by row."""
        match level:
            case "node":
                return self.nodes
            case "pair":
                return {name: matrix.reshape(-1, *matrix.shape[2:]) for name, matrix in self.pairs.items()}
            case _:
                return self.edge_columns


@dataclass(frozen=True, eq=False)
class RawData:
    """A whole data set before its columns have a meaning."""

    where: str  # the name of the data in messages
    format: str  # "molecules", "jsonl", "folder", "tu", "graphml", "networkx", "pyg" or "graphs"
    num_rows: int  # one per graph, bad ones included
    table: Columns  # of whole graphs
    graphs: Sequence[RawGraph | None] = ()  # None for a bad row; no graphs for molecules, whose SMILES are a column
    problems: Mapping[int, str] = field(default_factory=dict)  # row -> why it cannot be read
    declared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # level -> targets that the format declares
    inputs: tuple[str, ...] = ()  # columns of whole graphs that the format declares to be features
    digest: str = ""  # a hash of the content
    first_row: int = 0  # the place of row 0 in the file, where this is a part of one
    keeps_order: bool = True  # whether the atoms of molecules are in the order of the file
    placed: Column | None = None  # (R,) molecules with coordinates (CXSMILES), where the file has them
    numbers: Sequence[int] = ()  # the rows of the file, from 1, where some of them were merged
    changes: Sequence[tuple[int, str, str, str, str]] = ()  # what was cleaned: `egt.data.cleaning.Change`

    @property
    def is_molecules(self) -> bool:
        """Whether each row is a SMILES string."""
        return self.format == "molecules"

    def place(self, row: int) -> str:
        """Return the name of a row for messages, the same wherever its file lies: results hold it."""
        return f"{Path(self.where).name} row {self.number(row)}"

    def number(self, row: int) -> int:
        """Return the number of a row in its file, from 1."""
        return self.numbers[row] if self.numbers else self.first_row + row + 1

    def part(self, start: int, stop: int) -> RawData:
        """Return some rows of molecules, which know their place in the whole."""
        stop = min(stop, self.num_rows)
        return replace(
            self,
            num_rows=stop - start,
            table={name: column[start:stop] for name, column in self.table.items()},
            problems={row - start: why for row, why in self.problems.items() if start <= row < stop},
            first_row=self.first_row + start,
            placed=None if self.placed is None else self.placed[start:stop],
        )


@dataclass(frozen=True, eq=False)
class Table:
    """A file of rows: its columns (missing values in bad rows), and the bad rows with their reasons."""

    columns: Columns
    num_rows: int
    problems: Mapping[int, str]


class Format:
    """One kind of raw data."""

    what: ClassVar[str]
    """The data in words, for the message that lists what can be read."""

    suffixes: ClassVar[tuple[str, ...]] = ()
    """How the names of its files end, in small letters."""

    @classmethod
    def fits(cls, data: Any) -> bool:
        """Return whether this is the format of some data: a `Path` that exists, or Python objects."""
        return isinstance(data, Path) and data.is_file() and data.name.lower().endswith(cls.suffixes)

    @staticmethod
    def read(data: Any) -> RawData:
        """Return the columns of the data; raises a `DataError` if it cannot be read as a whole."""
        raise NotImplementedError

    @classmethod
    def blocks(cls, data: Any, size: int) -> Iterator[RawData]:
        """Yield a file of molecules in blocks of so many rows, at least one, which may have none.

        Formats of large files have no more in memory.
        """
        raw = cls.read(data)
        yield from (raw.part(start, start + size) for start in range(0, max(raw.num_rows, 1), size))


FORMATS: Registry[type[Format]] = Registry("file format", "egt.data.formats")


def read_each(items: Iterable[Any], read: Callable[[Any], RawGraph], name: Callable[[int], str]) -> dict[str, Any]:
    """Return the fields `graphs`, `num_rows` and `problems` of `RawData`; a graph that cannot be read is a problem.

    `read` gives the graph of an item or raises a `DataError`; `name` begins the message about the row of a number.
    """
    graphs: list[RawGraph | None] = []
    problems: dict[int, str] = {}
    for row, item in enumerate(items):
        try:
            graphs.append(read(item))
        except DataError as error:
            graphs.append(None)
            problems[row] = f"{name(row)}: {error}"
    return {"graphs": graphs, "num_rows": len(graphs), "problems": problems}


def check_header(header: list[str], where: str) -> None:
    """Raise a `DataError` where two columns have the same name."""
    twice = sorted(name for name, times in Counter(header).items() if times > 1)
    if twice:
        raise DataError(f"{where}: column names {twice} appear more than once; name each column differently")


def columns_at(raw: RawData, level: str) -> dict[str, Column]:
    """Return the columns of a level, those of nodes, edges and pairs joined over all graphs.

    A column that is a number in one graph and a text or a vector in another is left as the first graph has it;
    the graphs that differ are reported when they are read.
    """
    if level == "graph":
        return dict(raw.table)
    parts: dict[str, list[Column]] = {}
    for graph in raw.graphs:
        for name, column in () if graph is None else graph.columns(level).items():
            parts.setdefault(name, []).append(column)
    return {
        name: np.concatenate([each for each in columns if _shape(each) == _shape(columns[0])])
        for name, columns in parts.items()
    }


def _shape(column: Column) -> tuple[bool, tuple[int, ...]]:
    return column.dtype == object, column.shape[1:]


def matrix_of(given: Any, num_nodes: int, what: str) -> Column:
    """Return the entries of all pairs: (N, N) numbers or texts, or (N, N, F) numbers, from lists or arrays."""
    try:
        is_numbers = isinstance(given, np.ndarray) and given.dtype.kind in "biuf"
        entries = given if is_numbers else np.asarray(given, dtype=object)
        if entries.ndim not in (2, 3) or entries.shape[:2] != (num_nodes, num_nodes):
            raise DataError(
                f"{what} has the shape {entries.shape}; it must be a matrix with a row and a column for each of the "
                f"{num_nodes} nodes"
            )
        if not is_numbers and entries.ndim == 2 and any(isinstance(entry, str) for entry in entries.flat):
            return column_of_values(entries.reshape(-1).tolist(), what).reshape(entries.shape)
        return entries.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} is not a matrix of numbers or texts: {error}") from error


DISTANCE = "distance"  # the target of pairs that positions have
POSITION_NAMES = ("pos", "position", "positions", "coords", "coordinates", "xyz")
"""Vectors of nodes with such a name are where the nodes are."""


def position_columns(place: Sequence[int]) -> tuple[str, ...]:
    """Return what the columns of nodes with positions of a shape are called: one for each conformer."""
    return ("positions",)[: len(place)] if len(place) < 2 else tuple(f"positions.{k}" for k in range(place[0]))


def one_or_many(data: Any, kind: Callable[[Any], bool]) -> list[Any]:
    """Return the objects of a kind: the given one, or all items of a list or data set of them; else none."""
    if kind(data):
        return [data]
    is_single = isinstance(data, str | Mapping) or hasattr(data, "adj")  # a NetworkX graph lists its nodes, often texts
    items = list(data) if isinstance(data, Iterable) and not is_single else []
    return items if all(kind(item) for item in items) else []


def text_of(value: Any) -> str:
    """Return the one spelling of a category: 3, 3.0, "3" and True are "3", "3", "3" and "1"."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | np.integer):
        return str(int(value))  # exact, however many digits it has
    number = float(value)
    return str(int(number)) if number.is_integer() else repr(number)


def is_exact(number: int) -> bool:
    """Return whether a float64 holds a whole number as it is; an `OverflowError` where it is beyond all of them."""
    return int(float(number)) == number


def column_of_values(values: Sequence[Any], where: str) -> Column:
    """Return a column of Python values: numbers, texts, or lists of numbers of one length.

    Values that fit into no column are a `DataError` with `where` in front.
    """
    is_vectors = any(isinstance(value, list | tuple) for value in values)
    allowed = (bool, int, float, str, np.number, np.bool_, type(None))
    for value in () if is_vectors else values:
        if not isinstance(value, allowed):
            raise DataError(f"{where} holds {value!r:.80}; allowed are numbers, texts, null, and lists of numbers")
    try:
        if is_vectors:
            return _vectors(values, where)
        is_named = any(isinstance(value, int | np.integer) and not is_exact(int(value)) for value in values)
        if not is_named and not any(isinstance(value, str) for value in values):
            return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
        return objects([None if value is None or value != value else text_of(value) for value in values])
    except (OverflowError, ValueError) as error:
        raise DataError(f"{where} holds a number that is too large: {error}") from error


def _vectors(values: Sequence[Any], where: str) -> Column:
    widths = {len(value) for value in values if isinstance(value, list | tuple)}
    if len(widths) != 1 or not all(value is None or isinstance(value, list | tuple) for value in values):
        raise DataError(f"{where} mixes lists of lengths {sorted(widths)} with each other or with single values")
    missing = [None] * widths.pop()
    rows = [missing if value is None else value for value in values]
    if any(not isinstance(cell, int | float | None) for row in rows for cell in row):
        raise DataError(f"{where} holds lists with something else than numbers")
    return np.array([[np.nan if cell is None else cell for cell in row] for row in rows], dtype=np.float64)


def objects(values: Sequence[str | None]) -> Column:
    """Return a column of texts, None where one is missing."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def texts_in(column: Column) -> list[str]:
    """Return the cells as texts, "" where one is missing; a column without any text was read as numbers."""
    if column.dtype == object:
        return ["" if cell is None else cell for cell in column.tolist()]
    return ["" if cell != cell else text_of(cell) for cell in column.tolist()]


def holds_lists(column: Column) -> bool:
    """Return whether the cells of a column hold several values each: vectors, or texts such as `[0.1, 0.2]`."""
    if column.dtype != object:
        return column.ndim == 2
    cells = islice((cell for cell in column if cell is not None), _LISTS_TRIED)
    return any(_LIST.fullmatch(cell.strip()) for cell in cells)


def missing_in(column: Column) -> NDArray[np.bool_]:
    """(n,) True where a value is missing; a vector is missing where any part of it is."""
    if column.dtype == object:
        return np.array([value is None for value in column], dtype=bool)
    absent: NDArray[np.bool_] = np.isnan(column)
    return absent if column.ndim == 1 else np.logical_or.reduce(absent, axis=1)


def encode_target(column: Column, classes: Sequence[str]) -> tuple[NDArray[np.float64], list[str]]:
    """(n,) numbers or class ids, NaN where there is none, and the values that are neither number nor class.

    A number that no graph can hold, infinity for one, is none.
    """
    if not classes:
        numbers, strange = as_numbers(column)
        beyond = np.abs(numbers) > LARGEST
        return np.where(beyond, np.nan, numbers), [*strange, *(f"{number:g}" for number in numbers[beyond])]
    id_of = {name: float(number) for number, name in enumerate(classes)}
    encoded = np.full(len(column), np.nan)
    strange = []
    for row in np.flatnonzero(~missing_in(column)):
        name = text_of(column[row])
        if name in id_of:
            encoded[row] = id_of[name]
        else:
            strange.append(name)
    return encoded, strange


def encode_bounds(column: Column) -> tuple[NDArray[np.float64], list[str]]:
    """(n, 2) the lowest and the highest number that each label can be, and the values that say neither.

    A measured number is both; `>5` has no highest one and `<5` no lowest one, which are NaN, as both of a missing label
    are. `~5` is taken for 5.
    """
    plain, strange = encode_target(column, ())
    bounds = np.stack([plain, plain], axis=1)
    rest = []
    for row in np.flatnonzero(np.isnan(plain) & ~missing_in(column)) if strange else ():
        bounds[row] = bound_of(column[row]) or (np.nan, np.nan)
        if np.isnan(bounds[row]).all():
            rest.append(text_of(column[row]))
    return bounds, rest


def bound_of(value: Any) -> tuple[float, float] | None:
    """Return the lowest and the highest number that a text such as `>5`, `<= 0.1` or `~3` allows, NaN for none.

    None for everything else, plain numbers too.
    """
    found = _BOUND.fullmatch(value.strip()) if isinstance(value, str) else None
    try:
        number = float(found[2]) if found else np.nan
    except ValueError:
        return None
    if found is None or not abs(number) <= LARGEST:
        return None
    return np.nan if found[1][0] in "<≤" else number, np.nan if found[1][0] in ">≥" else number


def describe_unknown_label(name: str, value: str, classes: Sequence[str]) -> str:
    """Return the warning about a label that is neither a number nor a known class."""
    allowed = f"one of {', '.join(classes[:10])}" if classes else "a finite number"
    if not classes and bound_of(value):
        allowed = "a number (the model is not one of bounds, as --set overrides.kind=censored makes one)"
    return f"label {name!r} is {value!r}, not {allowed}: treated as missing"


def as_numbers(column: Column) -> tuple[NDArray[np.float64], list[str]]:
    """(n,) or (n, width) numbers, NaN where there is none, and the texts that are not numbers."""
    if column.dtype != object:
        return column, []
    numbers = np.full(len(column), np.nan)
    strange: list[str] = []
    for row in np.flatnonzero(~missing_in(column)):
        try:
            numbers[row] = float(column[row])
        except ValueError:
            strange.append(column[row])
    return numbers, strange


def sorted_texts(texts: set[str]) -> list[str]:
    """Numbers by size, then texts by letter."""

    def key(text: str) -> tuple[int, float, str]:
        try:
            return 0, float(text), text
        except ValueError:
            return 1, 0.0, text

    return sorted(texts, key=key)


def split_vectors(name: str, column: Column) -> dict[str, Column]:
    """Return a vector column as one column per part, named `name.0`, `name.1`, ...; any other column unchanged."""
    if column.ndim == 1:
        return {name: column}
    return {each: column[:, k] for k, each in enumerate(number_names(name, column.shape[1]))}


def number_names(name: str, count: int) -> list[str]:
    """Return the names of several columns of a kind: `name.0`, `name.1`, ...; `name` for a single one."""
    return [name] if count == 1 else [f"{name}.{k}" for k in range(count)]


def with_mask_split(columns: Columns, where: str) -> Columns:
    """Return columns whose `train_mask`, `val_mask`, `test_mask` are replaced by one `split` column.

    Masks of several columns, one for each of several splits, become `split.0`, `split.1`, ...
    """
    masks = {f"{split}_mask": split for split in ("train", "val", "test")}
    if "split" in columns or "train_mask" not in columns:
        return columns
    given = {name: split_vectors("split", columns[name]) for name in masks if name in columns}
    splits = {name: objects([None] * len(columns["train_mask"])) for name in given["train_mask"]}
    for mask, named in given.items():
        if columns[mask].dtype == object or not (named.keys() == splits.keys() or named.keys() == {"split"}):
            raise DataError(
                f"{where}: {mask} must be one column of 0 and 1 (true and false), or as many as train_mask has "
                f"({len(splits)})"
            )
        for name, split in splits.items():
            split[named.get(name, named.get("split")) == 1] = masks[mask]
    return {**{name: column for name, column in columns.items() if name not in masks}, **splits}


def digest_of_files(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of some files: their names and contents, in the order of the names."""
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(path.name.encode())
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def digest_of_graphs(table: Columns, graphs: Sequence[RawGraph | None]) -> str:
    """Return the SHA-256 of graphs that are in memory."""
    total = hashlib.sha256()
    groups: list[tuple[str, Columns]] = [("table", table)]
    for graph in filter(None, graphs):
        total.update(f"{graph.num_nodes} {graph.directed}".encode() + graph.edges.tobytes())
        for queries in (graph.queries, graph.query_targets):
            total.update(b"" if queries is None else queries.tobytes())
        groups += [("nodes", graph.nodes), ("edges", graph.edge_columns), ("pairs", graph.pairs)]
    for group, columns in groups:
        for name, column in columns.items():
            total.update(f"{group} {name} {column.shape}".encode())
            total.update(repr(column.tolist()).encode() if column.dtype == object else column.tobytes())
    return total.hexdigest()
