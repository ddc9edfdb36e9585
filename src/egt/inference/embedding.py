"""What a model makes of a graph before its head: the channels of a layer, and the rows that the readout gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from egt.config.run import RunConfig
from egt.config.run_data import in_pieces
from egt.data.batching.batch import collate
from egt.data.batching.loader import evaluation_batches, graph_sizes
from egt.data.batching.pieces import Asked, Pieces
from egt.data.encodings.encoding import Sample
from egt.errors import ConfigError
from egt.graph import Graph, IntArray
from egt.inference.backends import execution
from egt.inference.forward import evaluation_budget, evaluation_mode, graphs_at_once, rows_per_graph, split_rows
from egt.nn.channels import Channels
from egt.nn.model import EGT

FloatRows = NDArray[np.float32]
Rows = tuple[FloatRows, IntArray]
"""The embeddings of one graph, (rows, width), and the nodes that each row belongs to, (0, 1 or 2, rows)."""

EmbeddingLevel = Literal["graph", "node", "pair"]


@dataclass(frozen=True, eq=False)
class Embedding:
    """The embeddings of one graph; N nodes, P pairs.

    Fields:
        nodes: (N, d_h) node channel after the layer.
        pairs: (P, d_e) edge channel after the layer.
        pair_index: (2, P) the nodes i and j of each pair: all N^2 pairs, or the edges on the edge-list layout.
        readout: what the readout makes of them, after the last layer what the head reads: one row for the graph, one
            per node, or one per edge or query pair.
    """

    id: str
    nodes: FloatRows
    pairs: FloatRows
    pair_index: IntArray
    readout: FloatRows


def embeddings(model: EGT, config: RunConfig, samples: Sequence[Sample], layer: int | None = None) -> list[Embedding]:
    """Return the embeddings of prepared graphs, in their order. Virtual nodes are left out of nodes and pairs.

    `layer` says after how many layers, 0 for what enters the first; by default after the last one.
    """
    found: dict[int, Embedding] = {}
    for numbers, channels in _encode(model, config, samples, layer):
        counts = rows_per_graph(samples, numbers, config.model.level)
        parts = split_rows(model.readout(channels)[: sum(counts)], counts)  # pre-training reads pairs behind the nodes
        nodes, pairs = _nodes(channels), _pairs(channels)
        for k, number in enumerate(numbers.tolist()):
            found[number] = Embedding(samples[number].graph.id, nodes[k], *pairs[k], parts[k])
    return [found[number] for number in range(len(samples))]


def embedding_rows(
    model: EGT, config: RunConfig, samples: Sequence[Sample], level: EmbeddingLevel, layer: int | None = None
) -> list[Rows]:
    """Return the embeddings of one level, for each graph in order; arguments as in `embeddings`.

    A graph is what the readout makes of the layer; where a model predicts nodes or edges, the mean of the nodes.
    """
    found: dict[int, Rows] = {}
    for numbers, channels in _encode(model, config, samples, layer):
        rows = _rows_of(level, model, config, channels)
        found |= dict(zip(numbers.tolist(), rows, strict=True))
    return [found[number] for number in range(len(samples))]


def answered_rows(model: EGT, config: RunConfig, samples: Sequence[Sample]) -> list[Rows]:
    """Return what the head reads for each answer of each whole graph: a row for it, its nodes, edges or query pairs."""
    level = config.model.level
    counts = rows_per_graph(samples, np.arange(len(samples)), level)
    found = [np.empty((count, config.model.readout.width(config.model)), np.float32) for count in counts]
    whole = [Asked(k, np.arange(count), np.arange(count), count) for k, count in enumerate(counts)]
    pieces = in_pieces(config, samples, every=True)
    for numbers, channels in _encode(model, config, pieces, None):
        asked = [pieces.asked(k) if isinstance(pieces, Pieces) else whole[k] for k in numbers.tolist()]
        num_rows = [each.num_rows for each in asked]
        for each, rows in zip(asked, split_rows(model.readout(channels)[: sum(num_rows)], num_rows), strict=True):
            found[each.graph][each.rows] = rows[each.places]
    return [(rows, _places(level, sample.graph)) for rows, sample in zip(found, samples, strict=True)]


def _places(level: str, graph: Graph) -> IntArray:
    """(0, 1 or 2, rows) the nodes that each answer is about."""
    if level == "graph":
        return np.zeros((0, 1), np.int64)
    if level == "node":
        return np.arange(graph.num_nodes)[None]
    return np.array(graph.edge_index if graph.query_index is None else graph.query_index)


def check_layer(layer: int | None, config: RunConfig) -> None:
    """Raise a `ConfigError` for a layer that the model does not have."""
    if layer is not None and not 0 <= layer <= config.model.num_layers:
        raise ConfigError(
            f"layer {layer} does not exist: the model has {config.model.num_layers}; 0 is what enters the first one"
        )


def _rows_of(level: EmbeddingLevel, model: EGT, config: RunConfig, x: Channels) -> list[Rows]:
    match level:
        case "graph":
            pooled = model.readout(x) if config.model.level == "graph" else x.layout.mean_nodes(x.h)
            return [(row[None], np.zeros((0, 1), np.int64)) for row in pooled.float().cpu().numpy()]
        case "node":
            return [(rows, np.arange(len(rows))[None]) for rows in _nodes(x)]
        case "pair":
            return _pairs(x)


def _encode(
    model: EGT, config: RunConfig, samples: Sequence[Sample], layer: int | None
) -> Iterator[tuple[IntArray, Channels]]:
    """Yield the numbers of the graphs of each batch, and their channels after a layer."""
    check_layer(layer, config)
    sizes = graph_sizes(samples)
    if not len(sizes):
        return
    device = next(model.parameters()).device
    layout = execution(config, device, training=False).layout
    budget = evaluation_budget(config.data.pair_budget, sizes)
    most = graphs_at_once(config.data.batch_size, layout)
    with evaluation_mode(model):
        for numbers in evaluation_batches(sizes, most, layout, pair_budget=budget):
            batch = collate([samples[k] for k in numbers.tolist()], layout, numbers.tolist())
            yield numbers, model.encode(batch.to(device), layer)


def _nodes(x: Channels) -> list[FloatRows]:
    """(N, d_h) of each graph."""
    layout = x.layout
    graph, i = flat_indices(layout.node_indices.graph, layout.node_indices.i, like=x.h)
    real = i >= layout.num_virtual
    if layout.real_nodes is not None:
        real &= layout.real_nodes.flatten()
    return of_each(x.h.flatten(0, -2)[real], graph[real], layout.num_graphs)


def _pairs(x: Channels) -> list[Rows]:
    """(P, d_e) and (2, P) of each graph."""
    layout, q = x.layout, x.layout.num_virtual
    at = layout.pair_indices
    graph, i, j = flat_indices(at.graph, at.i, at.j, like=x.e)
    real = (i >= q) & (j >= q)
    if layout.real_pairs is not None:
        real &= layout.real_pairs.flatten()
    rows = of_each(x.e.flatten(0, -2)[real], graph[real], layout.num_graphs)
    index = of_each(torch.stack([i[real], j[real]], dim=1) - q, graph[real], layout.num_graphs)
    return [(row, pairs.T) for row, pairs in zip(rows, index, strict=True)]


def flat_indices(*indices: Tensor, like: Tensor) -> list[Tensor]:
    """Return indices that broadcast to the rows of a channel, one for each row."""
    return [index.expand(like.shape[:-1]).flatten() for index in indices]


def of_each(rows: Tensor, graph: Tensor, num_graphs: int) -> list[NDArray[Any]]:
    """Return the rows of each graph; they are in the order of the graphs."""
    counts = torch.bincount(graph, minlength=num_graphs).tolist()
    return [part.cpu().numpy() for part in rows.split(counts)]
