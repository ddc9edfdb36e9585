"""How a sample lies in flat arrays: one array per field, and for each graph where its part of each array begins.

`data[f][offsets[k, f] : offsets[k + 1, f]]` holds field f of graph k in C order. Shapes follow from the numbers of
nodes and edges of the graph and from the trailing shape of the field, which is the same for all graphs.
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
Shape = tuple[int, ...]

FORMAT_VERSION: Final = 1
"""Part of every key: raise it when the layout or the numbers of a stored encoding change."""

GRAPH_FIELDS: Final[Mapping[str, type[np.generic]]] = {
    "id": np.uint8,
    "edge_index": np.int64,
    "node_categories": np.int64,
    "node_values": np.float32,
    "edge_categories": np.int64,
    "edge_values": np.float32,
    "edge_weight": np.float32,
    "graph_targets": np.float64,
    "node_targets": np.float64,
    "edge_targets": np.float64,
    "query_index": np.int64,
}
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
    """The fields of a sample that are not None, by name."""
    graph = sample.graph
    arrays: dict[str, Array] = {"id": np.frombuffer(graph.id.encode(), np.uint8)}
    arrays |= {name: getattr(graph, name) for name in GRAPH_FIELDS if name != "id"}
    arrays |= {f"node.{name}": array for name, array in sample.node.items()}
    arrays |= {f"pair.{name}": array for name, array in sample.pair.items()}
    return {name: array for name, array in arrays.items() if array is not None}


def presence(arrays: Mapping[str, Array]) -> int:
    """The `present` byte of a sample that was taken apart."""
    return sum(1 << bit for bit, name in enumerate(OPTIONAL) if name in arrays)


def trailing_shape(name: str, array: Array) -> Shape:
    """The part of a field's shape that does not depend on the numbers of nodes and edges."""
    if name in ("id", "edge_index", "query_index", "graph_targets"):
        return ()
    return array.shape[2:] if name.startswith("pair.") else array.shape[1:]


def put_together(
    num_nodes: int, present: int, parts: dict[str, Any], trailing: Mapping[str, Shape], stored: Sequence[Encoding]
) -> Sample:
    """The opposite of `take_apart`.

    Args:
        num_nodes: N.
        present: the `present` byte.
        parts: the flat array of each field, which become views in the shape of the field.
        trailing: the trailing shape of each field.
        stored: the encodings among the fields.
    """
    node: dict[str, Array] = {}
    pair: dict[str, Array] = {}
    for encoding in stored:
        name = f"{encoding.level}.{encoding.name}"
        if encoding.level == "node":
            node[encoding.name] = parts.pop(name).reshape(num_nodes, *trailing[name])
        else:
            pair[encoding.name] = parts.pop(name).reshape(num_nodes, num_nodes, *trailing[name])

    for bit, name in enumerate(OPTIONAL):
        if not present >> bit & 1:
            parts[name] = None
    num_rows = {"node": num_nodes, "edge": len(parts["edge_index"]) // 2}
    for name in ("node_categories", "node_values", "edge_categories", "edge_values", "node_targets"):
        if parts[name] is not None:
            parts[name] = parts[name].reshape(num_rows[name[:4]], *trailing[name])
    num_asked = num_rows["edge"]
    parts["edge_index"] = parts["edge_index"].reshape(2, -1)
    if parts["query_index"] is not None:
        num_asked = len(parts["query_index"]) // 2
        parts["query_index"] = parts["query_index"].reshape(2, -1)
    if parts["edge_targets"] is not None:
        parts["edge_targets"] = parts["edge_targets"].reshape(num_asked, *trailing["edge_targets"])
    parts["id"] = parts["id"].tobytes().decode()
    return Sample(Graph.trusted(num_nodes=num_nodes, **parts), node, pair)
