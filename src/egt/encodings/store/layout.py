"""How samples lie in arrays: the rows of all graphs one after another, and for each graph where its rows begin.

`data[f][offsets[k, f] : offsets[k + 1, f]]` holds field f of graph k. Rows are nodes, edges or targets, as the shape of
the field says; an edge index (2, E) lies there as 2 E numbers, and a pair encoding (N, N, ...) as N^2 rows.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from egt.encodings.encoding import Encoding, Preparation, Sample
from egt.errors import ConfigError
from egt.graph import Graph

Array = NDArray[Any]

FORMAT_VERSION: Final = 1
"""Part of every key: raise it when the layout or the numbers of a stored encoding change."""

GRAPH_FIELDS: Final = (
    *("id", "edge_index", "node_categories", "node_values", "edge_categories", "edge_values"),
    *("edge_weight", "graph_targets", "node_targets", "edge_targets", "query_index"),
)
OPTIONAL: Final = ("edge_weight", "graph_targets", "node_targets", "edge_targets", "query_index")
"""Fields that may be None; bit k of a graph's `present` byte says whether the k-th is there."""


def field_names(encodings: Sequence[Encoding]) -> tuple[str, ...]:
    """The columns of `offsets`: the fields of a graph, then its stored encodings as `node.svd` or `pair.distance`."""
    return (*GRAPH_FIELDS, *(f"{encoding.level}.{encoding.name}" for encoding in encodings if encoding.stored))


def stored_settings(preparation: Preparation) -> dict[str, Any]:
    """Everything about a preparation that decides what is stored, as plain JSON values."""
    encodings = [_settings(encoding) for encoding in preparation.encodings if encoding.stored]
    settings = {"schema": dataclasses.asdict(preparation.schema), "encodings": encodings}
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain


def _settings(encoding: Encoding) -> dict[str, Any]:
    kind: type[Any] = type(encoding)
    if not dataclasses.is_dataclass(kind):
        raise ConfigError(
            f"encoding {encoding.name!r}: {kind.__name__} must be a dataclass, whose fields are its settings"
        )
    fields = {field.name: getattr(encoding, field.name) for field in dataclasses.fields(kind)}
    return {"kind": f"{kind.__module__}.{kind.__qualname__}", **fields}


def take_apart(sample: Sample) -> dict[str, Array]:
    """The rows of each field of a sample that is not None."""
    graph = sample.graph
    fields: dict[str, Array] = {name: getattr(graph, name) for name in GRAPH_FIELDS}
    fields["id"] = np.frombuffer(graph.id.encode(), np.uint8)
    fields["edge_index"] = graph.edge_index.reshape(-1)
    if graph.query_index is not None:
        fields["query_index"] = graph.query_index.reshape(-1)
    for name, array in sample.node.items():
        fields[f"node.{name}"] = array
    for name, array in sample.pair.items():
        fields[f"pair.{name}"] = array.reshape(graph.num_nodes**2, *array.shape[2:])
    return {name: array for name, array in fields.items() if array is not None}


def presence(arrays: Mapping[str, Array]) -> int:
    """The `present` byte of a sample that was taken apart."""
    return sum(1 << bit for bit, name in enumerate(OPTIONAL) if name in arrays)


def put_together(num_nodes: int, present: int, rows: dict[str, Any], stored: Sequence[Encoding]) -> Sample:
    """The opposite of `take_apart`; turns the rows of each field into a sample of views."""
    node: dict[str, Array] = {}
    pair: dict[str, Array] = {}
    for encoding in stored:
        array = rows.pop(f"{encoding.level}.{encoding.name}")
        if encoding.level == "node":
            node[encoding.name] = array
        else:
            pair[encoding.name] = array.reshape(num_nodes, num_nodes, *array.shape[1:])
    for bit, name in enumerate(OPTIONAL):
        if not present >> bit & 1:
            rows[name] = None
    rows["id"] = rows["id"].tobytes().decode()
    rows["edge_index"] = rows["edge_index"].reshape(2, -1)
    if rows["query_index"] is not None:
        rows["query_index"] = rows["query_index"].reshape(2, -1)
    return Sample(Graph.trusted(num_nodes=num_nodes, **rows), node, pair)
