"""A run of consecutive records, read and prepared: what a worker process hands to the writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.encodings.encoding import Preparation, Sample
from egt.encodings.store.layout import Array, field_names, presence, take_apart
from egt.errors import DataError
from egt.sources.source import Reading, Source, read_all


@dataclass(frozen=True)
class Chunk:
    """The graphs of some records in the layout of the store, and the records that have none.

    Fields:
        num_records: how many records were read.
        num_nodes, rows, present: (graphs,) one number for each graph.
        lengths: (graphs, fields) number of rows of each field of each graph.
        data: the rows of each field that any of the graphs has, one graph after another.
        problems: readings with an error or a warning, without their graphs.
    """

    num_records: int
    num_nodes: NDArray[np.int64]
    rows: NDArray[np.int64]
    present: NDArray[np.uint8]
    lengths: NDArray[np.int64]
    data: Mapping[str, Array]
    problems: Sequence[Reading]


def make_chunk(source: Source, preparation: Preparation, records: Sequence[Any]) -> Chunk:
    """Read the records and compute the stored encodings of their graphs."""
    fields = field_names(preparation.encodings)
    readings = read_all(source, records)
    stored = Preparation(preparation.schema, [encoding for encoding in preparation.encodings if encoding.stored])
    prepared = iter(stored.each([reading.graph for reading in readings if reading.graph is not None]))
    samples: list[dict[str, Array]] = []
    num_nodes: list[int] = []
    rows: list[int] = []
    problems: list[Reading] = []
    for reading in readings:
        if reading.graph is not None:
            sample = next(prepared)
            if isinstance(sample, Sample):
                samples.append(take_apart(sample))
                num_nodes.append(sample.graph.num_nodes)
                rows.append(reading.row)
            else:
                reading = replace(reading, error=str(sample))
        if reading.error or reading.warning:
            problems.append(replace(reading, graph=None))
    return Chunk(
        num_records=len(records),
        num_nodes=np.array(num_nodes, np.int64),
        rows=np.array(rows, np.int64),
        present=np.array([presence(sample) for sample in samples], np.uint8),
        lengths=np.array(
            [[len(sample[name]) if name in sample else 0 for name in fields] for sample in samples], np.int64
        ).reshape(len(samples), len(fields)),
        data={name: join_rows(name, samples) for name in fields if any(name in sample for sample in samples)},
        problems=problems,
    )


def join_rows(name: str, samples: Sequence[Mapping[str, Array]]) -> Array:
    """The rows of one field, one graph after another. Graphs without rows (no edges) do not count for the width."""
    arrays = [sample[name] for sample in samples if name in sample]
    with_rows = [array for array in arrays if len(array)]
    for array in with_rows[1:]:
        check_width(name, with_rows[0].shape[1:], array.shape[1:])
    return np.concatenate(with_rows) if with_rows else arrays[0]


def check_width(name: str, one: tuple[int, ...], other: tuple[int, ...]) -> None:
    """Raise a `DataError` unless the rows of two graphs have the same shape."""
    if one != other:
        raise DataError(
            f"{name}: rows of shape {one} in one graph and {other} in another; "
            "every graph of a data set needs the same number of columns"
        )
