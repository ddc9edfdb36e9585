"""What every source of graphs offers: a card that describes it, and readings of its rows."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from egt.errors import DataError
from egt.graph import DENSE_FEATURES, FeatureSchema, Graph, IntArray, Level

if TYPE_CHECKING:
    from egt.data.schema import CustomSchema, SplitPlan

TargetKind = Literal["regression", "censored", "binary", "multiclass", "mixed"]

NUMBERS: Collection[TargetKind] = ("regression", "censored")
"""Kinds of targets that are numbers; of censored ones, some labels are bounds such as `>5`; of mixed, some are not."""

Progress = Callable[[str, int, int | None], None]
"""Receives the progress of some work: the stage in words, how much is done, and of how much (None: unknown)."""

SPLITS = ("train", "val", "test")

ALL = "all"  # the split that holds every row in order; the only one of data that is not divided
Item = TypeVar("Item")


class OnDemand(Sequence[Item]):
    """A sequence whose items are made when they are taken."""

    @abstractmethod
    def item(self, index: int) -> Item:
        """Return the item of a number from 0."""

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self.item(k) for k in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"there is no item {index} of {len(self)}")
        return self.item(index % len(self))


@dataclass(frozen=True)
class TargetSchema:
    """What is predicted. `binary` with several names is multi-label; `multiclass` has one name.

    `class_names` are the raw values behind class 0, 1, ... where the data has names for them. `groups` are the targets
    of a mixed table by kind. With `row_weights` labels have a last column: what those of a row count.
    """

    level: Level
    kind: TargetKind
    names: tuple[str, ...]
    num_classes: int = 0
    class_names: tuple[str, ...] = ()
    groups: tuple[TargetSchema, ...] = field(default=(), repr=False)
    row_weights: bool = field(default=False, repr=False)

    @property
    def num_outputs(self) -> int:
        """How many numbers a model gives for one graph, node or pair."""
        return self.num_classes if self.kind == "multiclass" else len(self.names)

    @property
    def num_label_classes(self) -> int:
        """How many classes the labels of nodes have, where each has one label that neighbors may read; else 0."""
        if self.level != "node" or len(self.names) > 1 or self.row_weights:
            return 0
        return {"multiclass": self.num_classes, "binary": 2}.get(self.kind, 0)


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
    departures: Sequence[str] = ()
    """How this data differs from the published files, a few words each."""


@dataclass(frozen=True)
class Reading:
    """One row of a source: its graph, or the reason there is none; a warning if it was read with reservations."""

    row: int
    id: str
    graph: Graph | None = None
    warning: str = ""
    error: str = ""


class Source(ABC):
    """Raw data as graphs. `records` are cheap and picklable, so `read` can run in several processes.

    Four members make a source. The others say what only some data has: columns with a meaning, molecules, names of
    nodes, splits within graphs; their defaults are those of data without.
    """

    schema: CustomSchema | None = None
    """The meaning of the columns of the user's data."""

    @property
    @abstractmethod
    def card(self) -> DataCard:
        """The description of this data, with its true split sizes and schema; no graph is read for it."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a hash of the raw content and of every setting that changes the graphs; the key of the store."""

    @abstractmethod
    def records(self, split: str) -> Sequence[Any]:
        """Return the rows of a split, in order, before parsing."""

    @abstractmethod
    def read(self, record: Any) -> Reading:
        """Return the graph of one record. A bad row is a reading with an `error`, never an exception."""

    def read_all(self, records: Sequence[Any]) -> list[Reading]:
        """Return the graphs of some records."""
        return [self.read(record) for record in records]

    @property
    def is_divided_within(self) -> bool:
        """Whether the splits are nodes or edges of the same graphs (transductive learning)."""
        return False

    @property
    def is_generated(self) -> bool:
        """Whether graphs are made when they are read: their sizes are those of the card."""
        return False

    def warnings(self) -> list[str]:
        """Return what to look at before training; unknown labels are among it."""
        return self.unknown_labels()

    def unknown_labels(self) -> list[str]:
        """Return a warning for each target with labels that are not understood, in whatever split."""
        return []

    def changes(self) -> Sequence[tuple[Any, ...]]:
        """Return what was cleaned, on request, each as `egt.data.cleaning.Change`."""
        return ()

    def missing_targets(self) -> list[str]:
        """Return the names of the targets without labels in this data."""
        return []

    def has_same_content(self, known: Mapping[str, Any]) -> bool:
        """Return whether this is the data with the card and the fingerprint that an artifact keeps."""
        return bool(known.get("fingerprint") == self.fingerprint())

    def redivided(self, plan: SplitPlan) -> Source:
        """Return the same data with other splits; data with splits of its own keeps them."""
        return self

    def rows_in(self, split: str, row: int) -> NDArray[np.bool_] | None:
        """(N,) or (E,) the nodes or edges of a graph that a split is about; None where it is about whole graphs."""
        return None

    def smiles(self) -> Sequence[Any] | None:
        """Return the SMILES of all rows, to be read with `str`; "" where there is none, None for other graphs."""
        return None

    def components(self) -> dict[str, list[str]]:
        """Return column -> SMILES of all rows, where a row has several of them; else nothing."""
        return {}

    def names(self, row: int) -> Sequence[str]:
        """Return what the data calls the nodes of a graph; empty where they are only numbered."""
        return ()

    def columns(self, patterns: Sequence[str]) -> dict[str, list[str]]:
        """Return columns of the table as texts, "" for a missing value, by names or patterns (`*`: all there are)."""
        if {*patterns} - {"*"}:
            raise DataError(f"{', '.join(patterns)} cannot be kept: this data has no table of columns")
        return {}


def check_split(split: str, splits: Iterable[str], name: str) -> None:
    """Raise a `DataError` for a split that the data called `name` does not have."""
    if split not in splits:
        raise DataError(f"{name} has no split {split!r}; it has {', '.join(splits)}")


def rows_of(splits: Mapping[str, IntArray], split: str, name: str) -> list[int]:
    """Return the row numbers of a split: the records of a source that reads its rows by number."""
    check_split(split, splits, name)
    rows: list[int] = splits[split].tolist()
    return rows


@dataclass(frozen=True)
class Derived(Source):
    """A source that is made of another one."""

    whole: Source

    @property
    def is_generated(self) -> bool:
        return self.whole.is_generated

    def read(self, record: Any) -> Reading:
        return self.whole.read(record)

    def read_all(self, records: Sequence[Any]) -> list[Reading]:
        return self.whole.read_all(records)

    def smiles(self) -> Sequence[Any] | None:
        return self.whole.smiles()


@dataclass(frozen=True)
class TrainShare(Derived):
    """A source with a share of its training graphs, drawn at random but always the same; at least one is left."""

    share: float

    @cached_property
    def card(self) -> DataCard:
        card = self.whole.card
        notes = f"Only a share of {self.share:g} of the training graphs. {card.notes}".strip()
        return replace(card, split_sizes={**card.split_sizes, "train": len(self._chosen)}, notes=notes)

    @cached_property
    def _chosen(self) -> list[int]:
        """Numbers of the training records that are left, ascending."""
        count = self.whole.card.split_sizes["train"]
        order = np.random.default_rng(0).permutation(count)
        return sorted(order[: max(1, round(self.share * count))].tolist())

    def fingerprint(self) -> str:
        return hashlib.sha256(repr((self.whole.fingerprint(), "train share", self.share)).encode()).hexdigest()

    def records(self, split: str) -> Sequence[Any]:
        records = self.whole.records(split)
        return [records[number] for number in self._chosen] if split == "train" else records


@dataclass(frozen=True)
class SomeRows(Derived):
    """A source of which every split has only the rows from `start` on, before `stop`."""

    start: int
    stop: int

    @property
    def card(self) -> DataCard:
        card = self.whole.card
        sizes = {name: len(range(size)[self.start : self.stop]) for name, size in card.split_sizes.items()}
        return replace(card, split_sizes=sizes)

    def fingerprint(self) -> str:
        return hashlib.sha256(repr((self.whole.fingerprint(), "rows", self.start, self.stop)).encode()).hexdigest()

    def records(self, split: str) -> Sequence[Any]:
        return self.whole.records(split)[self.start : self.stop]


class GraphsSource(Source):
    """Graphs made in Python as a source: the splits are given, the features are taken as they are.

    Without a schema there are as many categories as the largest id of any graph asks for. The splits are
    {"train": [...], "val": [...], "test": [...]}.
    """

    def __init__(
        self,
        splits: Mapping[str, Sequence[Graph]],
        target: TargetSchema,
        schema: FeatureSchema | None = None,
        name: str = "graphs",
    ) -> None:
        graphs = [graph for part in splits.values() for graph in part]
        if not graphs:
            raise DataError(f"{name}: there is no graph in splits {list(splits)}")
        features = schema or _features_of(graphs)
        for graph in graphs:
            features.check(graph)
        self._splits = {split: list(part) for split, part in splits.items()}
        nodes = [graph.num_nodes for graph in graphs]
        self._card = DataCard(
            name=name,
            title=name,
            schema=features,
            target=target,
            split_sizes={split: len(part) for split, part in self._splits.items()},
            num_nodes=(min(nodes), float(np.mean(nodes)), max(nodes)),
            mean_edges=float(np.mean([graph.num_edges for graph in graphs])),
        )

    @property
    def card(self) -> DataCard:
        return self._card

    def fingerprint(self) -> str:
        total = hashlib.sha256(repr((self.card.schema, self.card.target)).encode())
        for split, part in self._splits.items():
            total.update(f"{split} {len(part)}".encode())
            for graph in part:
                for entry in fields(graph):
                    value = getattr(graph, entry.name)
                    if value is None and entry.name in (*DENSE_FEATURES, "known_labels"):
                        continue  # as before there were such features
                    if isinstance(value, np.ndarray):
                        total.update(f"{entry.name} {value.shape}".encode() + value.tobytes())
                    else:
                        total.update(f"{entry.name} {value!r}".encode())
        return total.hexdigest()

    def records(self, split: str) -> Sequence[tuple[int, Graph]]:
        check_split(split, self._splits, self.card.name)
        return list(enumerate(self._splits[split]))

    def read(self, record: tuple[int, Graph]) -> Reading:
        row, graph = record
        return Reading(row, graph.id or str(row), graph=graph)


def _features_of(graphs: Sequence[Graph]) -> FeatureSchema:
    first = graphs[0]

    def sizes(level: str) -> tuple[int, ...]:
        width = getattr(first, f"{level}_categories").shape[1]
        ids = [getattr(graph, f"{level}_categories") for graph in graphs]
        alike = [part for part in ids if part.shape[1] == width and len(part)]
        return tuple(int(size) + 1 for size in np.concatenate(alike).max(axis=0)) if alike else (0,) * width

    return FeatureSchema(
        node_categories=sizes("node"),
        num_node_values=first.node_values.shape[1],
        edge_categories=sizes("edge"),
        num_edge_values=first.edge_values.shape[1],
        num_graph_values=len(first.graph_values),
        **_dense_features_of(graphs),
    )


def _dense_features_of(graphs: Sequence[Graph]) -> dict[str, Any]:
    first, dense = graphs[0], {}
    if first.pair_categories is not None:
        ids = [graph.pair_categories.max(axis=(0, 1)) for graph in graphs if graph.pair_categories is not None]
        alike = [part for part in ids if part.shape == ids[0].shape]
        dense["pair_categories"] = tuple(int(size) + 1 for size in np.max(alike, axis=0))
    if first.pair_values is not None:
        dense["num_pair_values"] = first.pair_values.shape[-1]
    if first.positions is not None:
        dense["positions"] = first.positions.shape[1:]
    return dense
