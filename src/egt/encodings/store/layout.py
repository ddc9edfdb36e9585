"""How a sample lies in flat arrays: one array per field, and for each graph where its part of each array begins.

`data[f][offsets[k, f] : offsets[k + 1, f]]` holds field f of graph k in C order. Shapes follow from the numbers of
nodes and edges of the graph and from the trailing shape of the field, which is the same for all graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from egt.encodings.encoding import Encoding, Sample
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
    num_nodes: int,
    present: int,
    part: Callable[[str], Array],
    trailing: Mapping[str, Shape],
    stored: Sequence[Encoding],
) -> Sample:
    """The sample whose flat fields are `part(name)`; the opposite of `take_apart`."""
    edge_index = part("edge_index").reshape(2, -1)
    rows = {"node": num_nodes, "edge": edge_index.shape[1]}
    optional: dict[str, Array | None] = {
        name: part(name) if present >> bit & 1 else None for bit, name in enumerate(OPTIONAL)
    }
    if optional["query_index"] is not None:
        optional["query_index"] = optional["query_index"].reshape(2, -1)
    for name in ("node_targets", "edge_targets"):
        array = optional[name]
        if array is not None:
            asked = optional["query_index"] if name == "edge_targets" else None
            num_rows = rows[name[:4]] if asked is None else asked.shape[1]
            optional[name] = array.reshape(num_rows, *trailing[name])
    features = {
        name: part(name).reshape(rows[name[:4]], *trailing[name])
        for name in ("node_categories", "node_values", "edge_categories", "edge_values")
    }
    graph = Graph.trusted(
        num_nodes=num_nodes, edge_index=edge_index, id=part("id").tobytes().decode(), **features, **optional
    )
    sides: dict[str, Shape] = {"node": (num_nodes,), "pair": (num_nodes, num_nodes)}
    encodings: dict[str, dict[str, Array]] = {"node": {}, "pair": {}}
    for encoding in stored:
        name = f"{encoding.level}.{encoding.name}"
        encodings[encoding.level][encoding.name] = part(name).reshape(*sides[encoding.level], *trailing[name])
    return Sample(graph, **encodings)
