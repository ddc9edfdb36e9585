"""`GraphBatch`: several graphs as tensors in one layout, and how samples become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from egt.batching.layout import Layout
from egt.batching.packed import Packed
from egt.batching.padded import Padded
from egt.encodings.encoding import Array, Sample
from egt.errors import GraphError
from egt.graph import UNKNOWN

LayoutName = Literal["packed", "padded"]


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """A batch of graphs. M is the number of nodes of all graphs, E of edges, R of asked pairs, T of targets.

    Fields:
        layout: where each node and pair is stored.
        graph_ids: (B,) a number of each graph that stays the same for the whole run (keys of the randomness).
        node_categories: (nodes..., F) ids, -1 where unknown or padded.
        node_values: (nodes..., F).
        edge_categories: (E, F) ids of the edges of all graphs.
        edge_values: (E, F).
        edge_pairs: (E,) flat row of each edge in the edge channel.
        queries: (R,) flat row of each pair that is asked about.
        query_graphs: (R,) the graph (position in the batch) of each asked pair.
        node: encodings of nodes by name, each (nodes..., width).
        pair: encodings of pairs by name, each (pairs...) or (pairs..., width).
        graph_targets: (B, T), node_targets: (M, T), edge_targets: (R, T); NaN where missing, None when there are none.
        noise: (B, 2) keys of this training step, None outside of training.
    """

    layout: Layout
    graph_ids: Tensor
    node_categories: Tensor
    node_values: Tensor
    edge_categories: Tensor
    edge_values: Tensor
    edge_pairs: Tensor
    queries: Tensor
    query_graphs: Tensor
    node: Mapping[str, Tensor] = field(default_factory=dict)
    pair: Mapping[str, Tensor] = field(default_factory=dict)
    graph_targets: Tensor | None = None
    node_targets: Tensor | None = None
    edge_targets: Tensor | None = None
    noise: Tensor | None = None

    @property
    def num_graphs(self) -> int:
        """B."""
        return self.layout.num_graphs

    def to(self, device: torch.device | str, non_blocking: bool = False) -> GraphBatch:
        """The batch on another device."""
        device = torch.device(device)

        def move(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value.to(device, non_blocking=non_blocking)
            if isinstance(value, Mapping):
                return {name: move(tensor) for name, tensor in value.items()}
            return value

        moved = {f.name: move(getattr(self, f.name)) for f in fields(self) if f.name != "layout"}
        return replace(self, layout=self.layout.to(device), **moved)


def collate(
    samples: Sequence[Sample], layout: LayoutName = "packed", graph_ids: Sequence[int] | None = None
) -> GraphBatch:
    """Put samples side by side in one layout, in the order given.

    Args:
        samples: prepared graphs with the same features and encodings.
        layout: "packed" (no padding, best on CPU) or "padded" (dense, best on GPU).
        graph_ids: a number for each graph; 0, 1, ... without it.
    """
    if not samples:
        raise GraphError("a batch needs at least one graph")
    graphs = [sample.graph for sample in samples]
    sizes = np.array([graph.num_nodes for graph in graphs])
    width = int(sizes.max())
    packed = layout == "packed"
    # Strides of the flat edge channel: row = start + i * stride + j.
    stride = sizes if packed else np.full_like(sizes, width)
    start = np.cumsum(stride * stride) - stride * stride

    def flat(index: Array, k: int) -> Array:
        rows: Array = start[k] + index[0] * stride[k] + index[1]
        return rows

    def nodes(arrays: Sequence[Array], fill: int) -> Tensor:
        if packed:
            return torch.from_numpy(np.concatenate(arrays))
        out = np.full((len(arrays), width, *arrays[0].shape[1:]), fill, arrays[0].dtype)
        for k, array in enumerate(arrays):
            out[k, : len(array)] = array
        return torch.from_numpy(out)

    def pairs(arrays: Sequence[Array]) -> Tensor:
        if packed:
            return torch.from_numpy(np.concatenate([array.reshape(-1, *array.shape[2:]) for array in arrays]))
        out = np.zeros((len(arrays), width, width, *arrays[0].shape[2:]), arrays[0].dtype)
        for k, array in enumerate(arrays):
            out[k, : len(array), : len(array)] = array
        return torch.from_numpy(out)

    def rows(arrays: Sequence[Array]) -> Tensor:
        return torch.from_numpy(np.concatenate(arrays))

    queries = [graph.edge_index if graph.query_index is None else graph.query_index for graph in graphs]
    num_queries = [index.shape[1] for index in queries]
    return GraphBatch(
        layout=Packed(sizes.tolist()) if packed else Padded(torch.from_numpy(sizes), width),
        graph_ids=torch.arange(len(graphs)) if graph_ids is None else torch.tensor(graph_ids, dtype=torch.int64),
        node_categories=nodes([graph.node_categories for graph in graphs], UNKNOWN),
        node_values=nodes([graph.node_values for graph in graphs], 0),
        edge_categories=rows([graph.edge_categories for graph in graphs]),
        edge_values=rows([graph.edge_values for graph in graphs]),
        edge_pairs=rows([flat(graph.edge_index, k) for k, graph in enumerate(graphs)]),
        queries=rows([flat(index, k) for k, index in enumerate(queries)]),
        query_graphs=torch.from_numpy(np.repeat(np.arange(len(graphs)), num_queries)),
        node={name: nodes([sample.node[name] for sample in samples], 0) for name in samples[0].node},
        pair={name: pairs([sample.pair[name] for sample in samples]) for name in samples[0].pair},
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
