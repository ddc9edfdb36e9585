"""What every source of graphs offers: a card that describes it, and readings of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from egt.errors import DataError
from egt.graph import FeatureSchema, Graph, IntArray, Level

TargetKind = Literal["regression", "binary", "multiclass"]

Progress = Callable[[str, int, int | None], None]
"""Is told how far some work is: the stage in words, how much is done, and of how much (None where nobody knows)."""

SPLITS = ("train", "val", "test")

ALL = "all"
"""The split that holds every row in order; the only one of data that is not divided."""


@dataclass(frozen=True)
class TargetSchema:
    """What is predicted: at which level, of which kind, and the name of each target column.

    `binary` with several names is multi-label. `num_classes` is for `multiclass`, which has one name.
    `class_names` are the raw values behind class 0, 1, ... where the data has names for them.
    """

    level: Level
    kind: TargetKind
    names: tuple[str, ...]
    num_classes: int = 0
    class_names: tuple[str, ...] = ()

    @property
    def num_outputs(self) -> int:
        """How many numbers a model gives for one graph, node or pair."""
        return self.num_classes if self.kind == "multiclass" else len(self.names)


@dataclass(frozen=True)
class DataCard:
    """The facts about a data set that need no data: what it holds, where it is from, how it may be used."""

    name: str
    title: str
    schema: FeatureSchema
    target: TargetSchema
    split_sizes: Mapping[str, int]
    num_nodes: tuple[int, float, int]
    """Smallest, mean and largest number of nodes of a graph."""
    mean_edges: float
    license: str = ""
    citation: str = ""
    target_meaning: str = ""
    metric: str = ""
    vocabulary: Mapping[str, Sequence[str]] = field(default_factory=dict)
    urls: Sequence[str] = ()
    checksums: Mapping[str, str] = field(default_factory=dict)
    notes: str = ""


@dataclass(frozen=True)
class Reading:
    """One row of a source: its graph, or the reason there is none; a warning if it was read with reservations."""

    row: int
    id: str
    graph: Graph | None = None
    warning: str = ""
    error: str = ""


class Source(Protocol):
    """Raw data as graphs. `records` are cheap and picklable, so `read` can run in several processes."""

    @property
    def card(self) -> DataCard:
        """The description of this data, with its true split sizes and schema; no graph is read for it."""

    def fingerprint(self) -> str:
        """Return a hash of the raw content and of every setting that changes the graphs; the key of the store."""

    def records(self, split: str) -> Sequence[Any]:
        """Return the rows of a split, in order, before parsing."""

    def read(self, record: Any) -> Reading:
        """Return the graph of one record. A bad row is a reading with an `error`, never an exception."""


@runtime_checkable
class BulkSource(Source, Protocol):
    """A source that reads many records faster than one by one."""

    def read_all(self, records: Sequence[Any]) -> list[Reading]:
        """Return what `read` gives for each of the records."""


def read_all(source: Source, records: Sequence[Any]) -> list[Reading]:
    """Return the readings of some records, the fast way if the source has one."""
    if isinstance(source, BulkSource):
        return source.read_all(records)
    return [source.read(record) for record in records]


def check_split(split: str, splits: Iterable[str], name: str) -> None:
    """Raise a `DataError` for a split that the data called `name` does not have."""
    if split not in splits:
        raise DataError(f"{name} has no split {split!r}; it has {', '.join(splits)}")


def rows_of(splits: Mapping[str, IntArray], split: str, name: str) -> list[int]:
    """Return the row numbers of a split: the records of a source that reads its rows by number."""
    check_split(split, splits, name)
    rows: list[int] = splits[split].tolist()
    return rows
