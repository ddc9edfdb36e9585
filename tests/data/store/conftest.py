"""A source of random graphs of every kind, with good, doubtful and bad rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from egt.data.encodings.encoding import Preparation, Sample, ShortestPaths
from egt.data.source import DataCard, Reading, Source, TargetSchema
from egt.graph import FeatureSchema, Graph
from egt.parts.inputs import Degrees, SvdEncoding

SCHEMA = FeatureSchema(node_categories=(5, 3), num_node_values=1, edge_categories=(2,), num_edge_values=2)
GRAPH_ARRAYS = (
    *("edge_index", "node_categories", "node_values", "edge_categories", "edge_values"),
    *("edge_weight", "graph_targets", "node_targets", "edge_targets", "query_index"),
)


@dataclass(frozen=True)
class ToySource(Source):
    """Row k holds a graph drawn from seed k; row 5 cannot be read, row 7 is doubtful, row 11 breaks the schema."""

    num_rows: int = 300
    seconds_per_row: float = 0.0
    name: str = "toy: graphs/of every kind"

    @property
    def card(self) -> DataCard:
        target = TargetSchema("graph", "regression", ("y",))
        return DataCard(self.name, "Toys", SCHEMA, target, {"train": self.num_rows}, (1, 6.0, 12), 12.0)

    def fingerprint(self) -> str:
        return f"toy-{self.num_rows}"

    def records(self, split: str) -> Sequence[int]:
        return range(self.num_rows)

    def read(self, record: Any) -> Reading:
        time.sleep(self.seconds_per_row)
        if record == 5:
            return Reading(record, "row-5", error="cannot be parsed")
        warning = "read with reservations" if record == 7 else ""
        return Reading(record, f"row-{record}", graph=toy_graph(record), warning=warning)


def toy_graph(seed: int) -> Graph:
    """A graph with every field; the optional ones come and go, and some graphs have no edge."""
    rng = np.random.default_rng(seed)
    num_nodes = int(rng.integers(1, 12))
    edges = np.array(np.nonzero(rng.random((num_nodes, num_nodes)) < 0.25))
    num_edges = edges.shape[1]
    asked = rng.integers(0, num_nodes, (2, seed % 4)) if seed % 2 else None
    num_asked = num_edges if asked is None else asked.shape[1]
    return Graph(
        num_nodes=num_nodes,
        edge_index=edges,
        node_categories=np.full((num_nodes, 2), 4) if seed == 11 else rng.integers(-1, 3, (num_nodes, 2)),
        node_values=rng.standard_normal((num_nodes, 1)),
        edge_categories=rng.integers(0, 2, (num_edges, 1)),
        edge_values=rng.standard_normal((num_edges, 2)),
        edge_weight=rng.random(num_edges) if seed % 3 else None,
        graph_targets=[float(seed), np.nan],
        node_targets=rng.random((num_nodes, 1)) if seed % 5 else None,
        edge_targets=rng.random((num_asked, 3)),
        query_index=asked,
        id=f"gräph {seed}" if seed % 4 else "",
    )


def same_sample(one: Sample, other: Sample) -> bool:
    """Whether all arrays agree in value, shape and type."""
    pairs = [(getattr(one.graph, name), getattr(other.graph, name)) for name in GRAPH_ARRAYS]
    if (one.node.keys(), one.pair.keys()) != (other.node.keys(), other.pair.keys()):
        return False
    pairs += [(one.node[name], other.node[name]) for name in one.node]
    pairs += [(one.pair[name], other.pair[name]) for name in one.pair]
    return (one.graph.num_nodes, one.graph.id) == (other.graph.num_nodes, other.graph.id) and all(
        (a is None and b is None) or (a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
        for a, b in pairs
    )


def folder_bytes(path: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


@pytest.fixture
def source() -> ToySource:
    return ToySource()


@pytest.fixture
def preparation() -> Preparation:
    return Preparation(SCHEMA, [SvdEncoding(3), ShortestPaths(4), Degrees(6)])


class Toys(NamedTuple):
    """The comparisons of this file, for tests that cannot import it."""

    same_sample: Callable[[Sample, Sample], bool]
    folder_bytes: Callable[[Path], dict[str, bytes]]


@pytest.fixture
def toys() -> Toys:
    return Toys(same_sample, folder_bytes)
