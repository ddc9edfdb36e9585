"""A first look at custom data: the sizes of its graphs and what is wrong with its rows, sampled from a large file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egt.sources.custom.custom_source import CustomSource
from egt.sources.source import ALL, Progress, Reading, read_all

SAMPLED = 10_000
"""Of a larger file about so many rows are read as graphs."""
_CHUNK = 1_000
"""How many rows are read between two steps of a bar."""


@dataclass(frozen=True)
class Survey:
    """What the rows of custom data hold.

    Attributes:
        num_rows: all of them.
        num_read: those that were read as graphs, evenly chosen among all.
        num_nodes: of each graph that could be read.
        num_edges: of each graph that could be read; an undirected edge counts twice.
        errors: of rows that cannot be read.
        warnings: of rows that can.
    """

    num_rows: int
    num_read: int
    num_nodes: tuple[int, ...]
    num_edges: tuple[int, ...]
    errors: tuple[str, ...]
    warnings: tuple[str, ...]


def survey(source: CustomSource, progress: Progress | None = None) -> Survey:
    """Read the rows of custom data, or a sample of many."""
    records = source.records(ALL)
    chosen = records if len(records) <= SAMPLED else records[:: -(-len(records) // SAMPLED)]
    readings: list[Reading] = []
    for start in range(0, len(chosen), _CHUNK):
        readings += read_all(source, chosen[start : start + _CHUNK])
        if progress is not None:
            progress("building graphs", len(readings), len(chosen))
    return _summary(len(records), readings)


def _summary(num_rows: int, readings: Sequence[Reading]) -> Survey:
    graphs = [reading.graph for reading in readings if reading.graph is not None]
    return Survey(
        num_rows=num_rows,
        num_read=len(readings),
        num_nodes=tuple(graph.num_nodes for graph in graphs),
        num_edges=tuple(graph.num_edges for graph in graphs),
        errors=tuple(reading.error for reading in readings if reading.error),
        warnings=tuple(f"{reading.id}: {reading.warning}" for reading in readings if reading.warning),
    )
