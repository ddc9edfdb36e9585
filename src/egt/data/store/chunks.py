"""Samples as flat arrays: the rows of all graphs one after another, and for each graph where its rows begin.

`data[f][offsets[k, f] : offsets[k + 1, f]]` holds field f of graph k. Rows are nodes, edges or targets, as the shape of
the field says; an edge index (2, E) lies there as 2 E numbers, and a pair encoding (N, N, ...) as N^2 rows, or as those
of the listed pairs alone.
A `Chunk` holds consecutive records this way: what a worker process hands over.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from egt.data.encodings.encoding import Encoding, Listed, Preparation, Sample
from egt.data.source import Reading, Source
from egt.errors import ConfigError, DataError
from egt.graph import Graph
from egt.registry import Section

Array = NDArray[Any]

FORMAT_VERSION: Final = 1
"""Part of every key: raise it when the layout or the numbers of a stored encoding change."""

GRAPH_FIELDS: Final = (
    *("id", "edge_index", "node_categories", "node_values", "edge_categories", "edge_values"),
    *("edge_weight", "graph_targets", "node_targets", "edge_targets", "query_index"),
)

GRAPH_VALUES: Final = "graph_values"

OPTIONAL: Final = ("edge_weight", "graph_targets", "node_targets", "edge_targets", "query_index")
"""Fields that may be None; bit k of a graph's `present` byte says whether the k-th is there."""

_NO_VALUES = np.zeros(0, np.float32)


def field_names(preparation: Preparation) -> tuple[str, ...]:
    """List the columns of `offsets`: the fields of a graph, then its encodings as `node.svd` or `pair.distance`.

    Graph values have a column only where graphs have any, so that earlier stores stay readable.
    """
    encoded = (f"{encoding.level}.{encoding.name}" for encoding in preparation.encodings if encoding.stored)
    return (*GRAPH_FIELDS, *((GRAPH_VALUES,) if preparation.schema.num_graph_values else ()), *encoded)


def stored_settings(preparation: Preparation) -> dict[str, Any]:
    """Everything about a preparation that decides what is stored, as plain JSON values."""
    encodings = [_settings(encoding) for encoding in preparation.encodings if encoding.stored]
    schema = dataclasses.asdict(preparation.schema)
    if not schema["num_graph_values"]:  # earlier stores do not name it
        del schema["num_graph_values"]
    settings = {"schema": schema, "encodings": encodings}
    plain: dict[str, Any] = json.loads(json.dumps(settings, default=Section.model_dump))
    return plain


def _settings(encoding: Encoding) -> dict[str, Any]:
    kind: type[Any] = type(encoding)
    if not dataclasses.is_dataclass(kind):
        raise ConfigError(
            f"encoding {encoding.name!r}: {kind.__name__} must be a dataclass, whose fields are its settings"
        )
    fields = {field.name: getattr(encoding, field.name) for field in dataclasses.fields(kind)}
    if isinstance(encoding, Listed):
        fields = {"encoding": _settings(encoding.encoding)}
    return {"kind": f"{kind.__module__}.{kind.__qualname__}", **fields}


def take_apart(sample: Sample) -> dict[str, Array]:
    """Return the rows of each field of a sample that is not None."""
    graph = sample.graph
    fields: dict[str, Array] = {name: getattr(graph, name) for name in (*GRAPH_FIELDS, GRAPH_VALUES)}
    fields["id"] = np.frombuffer(graph.id.encode(), np.uint8)
    fields["edge_index"] = graph.edge_index.reshape(-1)
    if graph.query_index is not None:
        fields["query_index"] = graph.query_index.reshape(-1)
    for name, array in sample.node.items():
        fields[f"node.{name}"] = array
    for name, array in sample.pair.items():
        fields[f"pair.{name}"] = array.reshape(graph.num_nodes**2, *array.shape[2:])
    for name, array in sample.listed.items():
        fields[f"listed.{name}"] = array
    return {name: array for name, array in fields.items() if array is not None}


def presence(arrays: Mapping[str, Array]) -> int:
    """Return the `present` byte of a sample that was taken apart."""
    return sum(1 << bit for bit, name in enumerate(OPTIONAL) if name in arrays)


def put_together(num_nodes: int, present: int, rows: dict[str, Any], stored: Sequence[Encoding]) -> Sample:
    """Return the opposite of `take_apart`; turns the rows of each field into a sample of views."""
    encoded: dict[str, dict[str, Array]] = {"node": {}, "pair": {}, "listed": {}}
    for encoding in stored:
        array = rows.pop(f"{encoding.level}.{encoding.name}")
        if encoding.level == "pair":
            array = array.reshape(num_nodes, num_nodes, *array.shape[1:])
        encoded[encoding.level][encoding.name] = array
    for bit, name in enumerate(OPTIONAL):
        if not present >> bit & 1:
            rows[name] = None
    rows.setdefault(GRAPH_VALUES, _NO_VALUES)
    rows["id"] = rows["id"].tobytes().decode()
    rows["edge_index"] = rows["edge_index"].reshape(2, -1)
    if rows["query_index"] is not None:
        rows["query_index"] = rows["query_index"].reshape(2, -1)
    return Sample(Graph.trusted(num_nodes=num_nodes, **rows), **encoded)


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


@dataclass(frozen=True, eq=False)
class Prepared:
    """Some consecutive records of a split, prepared in memory.

    Fields:
        rows: the row of the source that each sample came from.
        problems: the rows with an error or a warning, without their graphs.
    """

    samples: list[Sample]
    rows: list[int]
    problems: list[Reading]
    num_records: int


def prepare_records(source: Source, preparation: Preparation, records: Sequence[Any]) -> Prepared:
    """Read the records and compute the encodings of their graphs."""
    readings = source.read_all(records)
    found = iter(preparation.each([reading.graph for reading in readings if reading.graph is not None]))
    prepared = Prepared([], [], [], len(records))
    for reading in readings:
        if reading.graph is not None:
            sample = next(found)
            if isinstance(sample, Sample):
                prepared.samples.append(sample)
                prepared.rows.append(reading.row)
            else:
                reading = replace(reading, error=str(sample))
        if reading.error or reading.warning:
            prepared.problems.append(replace(reading, graph=None))
    return prepared


def make_chunk(source: Source, preparation: Preparation, records: Sequence[Any]) -> Chunk:
    """Read the records and compute the stored encodings of their graphs."""
    fields = field_names(preparation)
    stored = Preparation(preparation.schema, [encoding for encoding in preparation.encodings if encoding.stored])
    prepared = prepare_records(source, stored, records)
    samples = [take_apart(sample) for sample in prepared.samples]
    return Chunk(
        num_records=len(records),
        num_nodes=np.array([sample.graph.num_nodes for sample in prepared.samples], np.int64),
        rows=np.array(prepared.rows, np.int64),
        present=np.array([presence(sample) for sample in samples], np.uint8),
        lengths=np.array(
            [[len(sample[name]) if name in sample else 0 for name in fields] for sample in samples], np.int64
        ).reshape(len(samples), len(fields)),
        data={name: join_rows(name, samples) for name in fields if any(name in sample for sample in samples)},
        problems=prepared.problems,
    )


def join_rows(name: str, samples: Sequence[Mapping[str, Array]]) -> Array:
    """Join the rows of one field, graph after graph. Graphs without rows (no edges) do not count for the width."""
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


def samples_of(chunk: Chunk, preparation: Preparation) -> list[Sample]:
    """Return the samples of a chunk, with all encodings of the preparation."""
    fields = field_names(preparation)
    ends = np.cumsum(chunk.lengths, axis=0)
    starts = ends - chunk.lengths
    stored = [encoding for encoding in preparation.encodings if encoding.stored]
    samples = []
    for k, (begin, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        rows = {name: chunk.data[name][begin[c] : end[c]] for c, name in enumerate(fields) if name in chunk.data}
        sample = put_together(int(chunk.num_nodes[k]), int(chunk.present[k]), rows, stored)
        samples.append(with_computed(sample, preparation))
    return samples


def with_computed(sample: Sample, preparation: Preparation) -> Sample:
    """Return the sample with the encodings that are not stored."""
    for encoding in preparation.encodings:
        if not encoding.stored:
            sample = sample.with_encoding(encoding)
    return sample
