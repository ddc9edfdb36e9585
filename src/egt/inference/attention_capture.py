"""What a model looks at, graph by graph: attention matrices, gates, edge channels and scalers of all layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from egt.config.run import RunConfig
from egt.data.batching.batch import collate
from egt.data.encodings.encoding import Sample
from egt.errors import ConfigError
from egt.graph import Graph, IntArray
from egt.inference.backends import PLAIN, execution, on_backend
from egt.inference.embedding import flat_indices, of_each
from egt.inference.forward import evaluation_mode
from egt.nn.attention_record import LayerAttention, attending, watch
from egt.nn.channels import Channels
from egt.nn.model import EGT

FloatArray = NDArray[np.float32]
BYTES_AT_ONCE = 64 * 2**20  # how much is captured at once; a graph that needs more is captured alone


@dataclass(frozen=True, eq=False)
class Attention:
    """What the layers of a model made of one graph. L layers attend, of D in all; q virtual nodes come first.

    n = q + N nodes; P pairs: all n^2, row after row, or on the edge-list layout those that exist.

    Fields:
        layers: (L) numbers of the layers that attend, from 0.
        num_virtual: q; node k of the graph stands at q + k.
        pair_index: (2, P) positions of i, who looks, ascending, and j, who is looked at.
        softmax: (L, H, P) softmax of the logits.
        gates: (L, H, P) between 0 and 1; ones without gates.
        product: (L, H, P) A_tilde, softmax times gates: what the values are weighted with.
        scalers: (L, H, n) centrality scalers; ones without them.
        edges: (D + 1, P, d_e) the edge channel that enters each layer, and the one that leaves the last.
    """

    graph: Graph
    layers: tuple[int, ...]
    num_virtual: int
    pair_index: IntArray
    softmax: FloatArray
    gates: FloatArray
    product: FloatArray
    scalers: FloatArray
    edges: FloatArray

    @property
    def num_nodes(self) -> int:
        """Count the nodes n, virtual ones included."""
        return self.num_virtual + self.graph.num_nodes

    def matrix(self, values: NDArray[Any], size: int | None = None) -> NDArray[Any]:
        """Return values of pairs, (..., P), as matrices (..., n, n); zero where there is no pair.

        `size` keeps the first nodes, virtual ones included: a large graph has lists of pairs, but no matrix.
        """
        n = self.num_nodes if size is None else min(size, self.num_nodes)
        kept = slice(None) if n == self.num_nodes else np.flatnonzero((self.pair_index < n).all(0))
        i, j = self.pair_index[:, kept]
        found = np.zeros((*values.shape[:-1], n, n), values.dtype)
        found[..., i, j] = values[..., kept]
        return found


def attentions(model: EGT, config: RunConfig, samples: Sequence[Sample]) -> Iterator[Attention]:
    """Yield the attention of prepared graphs in their order, as the plain backend computes it.

    Only one batch is in memory at a time. The model may be on any backend; its weights are not copied.
    """
    plain = on_backend(model, config, PLAIN)
    if not attending(plain.layers):
        raise ConfigError("this model has no attention: none of its layers is an EGTLayer that moves nodes")
    device = next(model.parameters()).device
    layout = execution(config, device, training=False).layout
    with evaluation_mode(plain):
        for some in _batches(samples, config):
            with watch(*plain.layers) as seen, _record_edges(plain.layers) as edges:
                final = plain.encode(collate(some, layout).to(device))
            yield from _split([sample.graph for sample in some], seen, [*edges, final.e], final)


def _batches(samples: Sequence[Sample], config: RunConfig) -> Iterator[list[Sample]]:
    """Yield neighbors in the data whose captured numbers fit into memory together."""
    model = config.model
    per_pair = 4 * model.num_layers * (3 * model.num_heads + model.edge_width)
    added, some, largest = model.readout.added_nodes(), list[Sample](), 0
    for sample in samples:
        largest = max(largest, sample.graph.num_nodes + added)
        if some and (len(some) + 1) * largest**2 * per_pair > BYTES_AT_ONCE:  # as if padded
            yield some
            some, largest = [], sample.graph.num_nodes + added
        some.append(sample)
    if some:
        yield some


@contextmanager
def _record_edges(layers: nn.ModuleList) -> Iterator[list[Tensor]]:
    """Yield a list that gets the edge channel entering each layer."""
    edges: list[Tensor] = []
    with ExitStack() as hooks:
        for layer in layers:
            handle = layer.register_forward_pre_hook(lambda _, given: edges.append(given[1]))
            hooks.callback(handle.remove)
        yield edges


def _split(
    graphs: Sequence[Graph], seen: Sequence[LayerAttention], edges: Sequence[Tensor], final: Channels
) -> Iterator[Attention]:
    """Yield the part of each graph of a batch."""
    layout = final.layout
    node, pair = layout.node_indices, layout.pair_indices
    node_graph, _ = flat_indices(node.graph, node.i, like=final.h)
    pair_graph, i, j = flat_indices(pair.graph, pair.i, pair.j, like=final.e)

    def of_nodes(x: Tensor) -> list[NDArray[Any]]:
        return _cut(x.flatten(0, -3), node_graph, layout.real_nodes, layout.num_graphs)

    def of_pairs(x: Tensor) -> list[NDArray[Any]]:
        return _cut(x.flatten(0, -3), pair_graph, layout.real_pairs, layout.num_graphs)

    index = _cut(torch.stack([i, j], dim=1), pair_graph, layout.real_pairs, layout.num_graphs)
    matrices = [of_pairs(_stack(seen, name)) for name in ("softmax", "gates", "product")]
    scalers = of_nodes(_stack(seen, "scalers"))
    states = of_pairs(torch.stack(list(edges), dim=-2))  # (P, D + 1, d_e)
    layers = tuple(each.layer for each in seen)
    for k, graph in enumerate(graphs):
        softmax, gates, product, of_node = (part[k].transpose(1, 2, 0) for part in (*matrices, scalers))
        where = layers, layout.num_virtual, index[k].T
        yield Attention(graph, *where, softmax, gates, product, of_node, states[k].transpose(1, 0, 2))


def _stack(seen: Sequence[LayerAttention], name: str) -> Tensor:
    """(rows..., L, H)."""
    return torch.stack([getattr(each, name) for each in seen], dim=-2)


def _cut(rows: Tensor, graph: Tensor, real: Tensor | None, num_graphs: int) -> list[NDArray[Any]]:
    """Return the rows of each graph, without padding."""
    if real is not None:
        rows, graph = rows[real.flatten()], graph[real.flatten()]
    return of_each(rows, graph, num_graphs)
