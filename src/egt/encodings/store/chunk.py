"""A run of consecutive records, read and prepared: what a worker process hands to the writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.encodings.encoding import Preparation
from egt.encodings.store.layout import Array, Shape, field_names, presence, take_apart, trailing_shape
from egt.errors import DataError, EgtError
from egt.sources.source import Reading, Source


@dataclass(frozen=True)
class Chunk:
    """The graphs of some records in the layout of the store, and the records that have none.

    Fields:
        num_records: how many records were read.
        num_nodes, rows, present: (graphs,) one number for each graph.
        lengths: (graphs, fields) number of entries of each field of each graph.
        data: the entries of each field that has any, one graph after another.
        trailing: the trailing shape of each field.
        problems: readings with an error or a warning, without their graphs.
    """

    num_records: int
    num_nodes: NDArray[np.int64]
    rows: NDArray[np.int64]
    present: NDArray[np.uint8]
    lengths: NDArray[np.int64]
    data: Mapping[str, Array]
    trailing: Mapping[str, Shape]
    problems: Sequence[Reading]


def make_chunk(source: Source, preparation: Preparation, records: Sequence[Any]) -> Chunk:
    """Read the records and compute the stored encodings of their graphs."""
    fields = field_names(preparation.encodings)
    stored = Preparation(preparation.schema, [encoding for encoding in preparation.encodings if encoding.stored])
    samples: list[dict[str, Array]] = []
    num_nodes: list[int] = []
    rows: list[int] = []
    problems: list[Reading] = []
    for record in records:
        reading = source.read(record)
        if reading.graph is not None and not reading.error:
            try:
                samples.append(take_apart(stored(reading.graph)))
                num_nodes.append(reading.graph.num_nodes)
                rows.append(reading.row)
            except (EgtError, np.linalg.LinAlgError) as error:
                reading = replace(reading, error=str(error))
        if reading.error or reading.warning:
            problems.append(replace(reading, graph=None))
    trailing: dict[str, Shape] = {}
    for sample in samples:
        told = {
            name: array for name, array in sample.items() if len(array) or name != "edge_targets"
        }  # [] has no width
        merge_trailing(trailing, {name: trailing_shape(name, array) for name, array in told.items()})
    parts = {name: [sample[name] for sample in samples if name in sample] for name in fields}
    return Chunk(
        num_records=len(records),
        num_nodes=np.array(num_nodes, np.int64),
        rows=np.array(rows, np.int64),
        present=np.array([presence(sample) for sample in samples], np.uint8),
        lengths=np.array(
            [[sample[name].size if name in sample else 0 for name in fields] for sample in samples], np.int64
        ).reshape(len(samples), len(fields)),
        data={name: np.concatenate([a.ravel() for a in arrays]) for name, arrays in parts.items() if arrays},
        trailing=trailing,
        problems=problems,
    )


def merge_trailing(known: dict[str, Shape], more: Mapping[str, Shape]) -> None:
    """Add the trailing shapes of more graphs to the known ones, which they must agree with."""
    for name, shape in more.items():
        if known.setdefault(name, shape) != shape:
            raise DataError(
                f"{name}: rows of shape {known[name]} in one graph and {shape} in another; "
                "every graph of a data set needs the same number of columns"
            )
