"""`GraphBatch`: several graphs as tensors in one layout, and how samples become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from egt.data.batching.layout import Arrangement, Layout, PackedArrangement, PaddedArrangement
from egt.data.encodings.encoding import Array, Sample
from egt.errors import GraphError
from egt.graph import UNKNOWN

LayoutName = Literal["packed", "padded", "edge_list"]

_UNPINNED = ("cpu", "meta", "mps")
"""Devices that share the memory of the host, or have none: nothing is copied there behind its back."""


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """A batch of graphs. M is the number of nodes of all graphs, E of edges, R of query pairs, T of targets.

    Fields:
        layout: where each node and pair is stored.
        graph_ids: (B,) a number of each graph that stays the same for the whole run (keys of the randomness).
        node_categories: (nodes..., F) ids, -1 where unknown or padded.
        node_values: (nodes..., F).
        edge_categories: (E, F) ids of the edges of all graphs.
        edge_values: (E, F).
        graph_values: (B, F) continuous features of the graphs.
        edge_pairs: (E,) flat row of each edge in the edge channel.
        queries: (R,) flat row of each query pair.
        node: encodings of nodes by name, each (nodes..., width).
        pair: encodings of pairs by name, each (pairs...) or (pairs..., width).
        graph_targets: (B, T), node_targets: (M, T), edge_targets: (R, T); NaN where missing, None when there are none.
        scored: flat rows of the pairs that an auxiliary objective reads, by its name; see `Objective.prepared`.
        random_keys: (B, 2) keys of this training step, or of a draw of dropout at prediction; None otherwise.
    """

    layout: Layout
    graph_ids: Tensor
    node_categories: Tensor
    node_values: Tensor
    edge_categories: Tensor
    edge_values: Tensor
    graph_values: Tensor
    edge_pairs: Tensor
    queries: Tensor
    node: Mapping[str, Tensor] = field(default_factory=dict)
    pair: Mapping[str, Tensor] = field(default_factory=dict)
    graph_targets: Tensor | None = None
    node_targets: Tensor | None = None
    edge_targets: Tensor | None = None
    scored: Mapping[str, Tensor] = field(default_factory=dict)
    random_keys: Tensor | None = None

    @property
    def num_graphs(self) -> int:
        """B."""
        return self.layout.num_graphs

    def to(self, device: torch.device | str) -> GraphBatch:
        """Return the batch on another device; the host does not wait until it has arrived."""
        device = torch.device(device)
        pins = device.type not in _UNPINNED

        def send(tensor: Tensor) -> Tensor:
            if tensor.device.type != "cpu":
                return tensor.to(device)
            return (tensor.pin_memory() if pins else tensor).to(device, non_blocking=True)

        def move(value: Any) -> Any:
            if isinstance(value, Tensor):
                return send(value)
            if isinstance(value, Mapping):
                return {name: send(tensor) for name, tensor in value.items()}
            return value

        moved = {f.name: move(getattr(self, f.name)) for f in fields(self) if f.name != "layout"}
        return replace(self, layout=self.layout.moved(send), **moved)


def collate(
    samples: Sequence[Sample], layout: LayoutName = "packed", graph_ids: Sequence[int] | None = None
) -> GraphBatch:
    """Put samples side by side in one layout, in the order given.

    Args:
        samples: prepared graphs with the same features and encodings.
        layout: "packed" (no padding, best on CPU), "padded" (dense, best on GPU), or "edge_list" (chosen
            pairs only, by default edges and query pairs, for EGT-Constrained on large sparse graphs).
        graph_ids: a number for each graph; 0, 1, ... without it.
    """
    if not samples:
        raise GraphError("a batch needs at least one graph")
    graphs = [sample.graph for sample in samples]
    place: Arrangement
    if layout == "edge_list":
        from egt.data.batching.edge_list import EdgeListArrangement  # only a list of edges needs this file

        place = EdgeListArrangement(samples)
    else:
        place = PackedArrangement(samples) if layout == "packed" else PaddedArrangement(samples)

    def rows(arrays: Sequence[Array]) -> Tensor:
        return torch.from_numpy(np.concatenate(arrays))

    edge_pairs = queries = torch.from_numpy(place.rows([graph.edge_index for graph in graphs]))
    if any(graph.query_index is not None for graph in graphs):
        asked = [graph.edge_index if graph.query_index is None else graph.query_index for graph in graphs]
        queries = torch.from_numpy(place.rows(asked))
    return GraphBatch(
        layout=place.layout,
        graph_ids=torch.arange(len(graphs)) if graph_ids is None else torch.tensor(graph_ids, dtype=torch.int64),
        node_categories=place.nodes([graph.node_categories for graph in graphs], UNKNOWN),
        node_values=place.nodes([graph.node_values for graph in graphs], 0),
        edge_categories=rows([graph.edge_categories for graph in graphs]),
        edge_values=rows([graph.edge_values for graph in graphs]),
        graph_values=torch.from_numpy(np.stack([graph.graph_values for graph in graphs])),
        edge_pairs=edge_pairs,
        queries=queries,
        node={name: place.nodes([sample.node[name] for sample in samples], 0) for name in samples[0].node},
        pair=place.pairs(samples),
        graph_targets=_targets([graph.graph_targets for graph in graphs], "graph_targets", np.stack),
        node_targets=_targets([graph.node_targets for graph in graphs], "node_targets", np.concatenate),
        edge_targets=_targets([graph.edge_targets for graph in graphs], "edge_targets", np.concatenate),
    )


def _targets(arrays: Sequence[Array | None], name: str, join: Any) -> Tensor | None:
    given = [array for array in arrays if array is not None]
    if not given:
        return None
    if len(given) < len(arrays) or len({array.shape[-1] for array in given}) > 1:
        raise GraphError(f"{name}: all graphs of a batch need the same targets (use NaN for missing labels)")
    return torch.from_numpy(join(given)).to(torch.float32)
