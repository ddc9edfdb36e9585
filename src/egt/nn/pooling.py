"""Readouts of a graph from all its nodes, besides their mean: sums and attention."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from egt.batching.loader import graph_sizes
from egt.encodings.encoding import Sample
from egt.nn.channels import Channels
from egt.nn.readout import Readout


def sum_rows(rows: Tensor, graph: Tensor, num_graphs: int) -> Tensor:
    """Return the sum of the rows of each graph. rows: (M, d), graph: (M,). Returns (B, d)."""
    return rows.new_zeros(num_graphs, rows.shape[1]).index_add(0, graph, rows)


def softmax_rows(logits: Tensor, graph: Tensor, num_graphs: int) -> Tensor:
    """Return the softmax over the nodes of each graph. logits: (M, H), graph: (M,). Returns (M, H)."""
    top = logits.detach().new_full((num_graphs, logits.shape[1]), -torch.inf)
    top = top.scatter_reduce(0, graph.unsqueeze(1).expand_as(logits), logits.detach(), "amax")
    weights = (logits - top[graph]).exp()
    return weights / sum_rows(weights, graph, num_graphs)[graph]


class SumReadout(Readout):
    """The sum of the final node embeddings of each graph: it grows with the graph, as extensive targets do."""

    def forward(self, x: Channels) -> Tensor:
        """Return (B, d_h)."""
        return sum_rows(self.own_nodes(x), self.own_graphs(x), x.layout.num_graphs)

    def own_nodes(self, x: Channels) -> Tensor:
        """Return the normalized real nodes of all graphs, virtual ones left out. Returns (M, d_h)."""
        return x.layout.node_rows(self.norm(x.h))

    def own_graphs(self, x: Channels) -> Tensor:
        """Return the graph of each of these nodes. Returns (M,)."""
        graph = x.layout.node_indices.graph.expand(x.h.shape[:-1])
        return x.layout.node_rows(graph.unsqueeze(-1)).squeeze(-1)


class ScaledSumReadout(SumReadout):
    """`sum_i h_i / n`, n the mean size of the training graphs: a sum, on the scale of a mean."""

    mean_size: Tensor

    def __init__(self, norm: nn.Module) -> None:
        super().__init__(norm)
        self.register_buffer("mean_size", torch.ones(()))

    def fit(self, samples: Sequence[Sample]) -> None:
        """Take the mean size from the training graphs."""
        self.mean_size.fill_(float(graph_sizes(samples).mean()))

    def forward(self, x: Channels) -> Tensor:
        """Return (B, d_h)."""
        return super().forward(x) / self.mean_size


class AttentionReadout(SumReadout):
    """Each head takes its share of the channels from the nodes it attends: `sum_i softmax_i(w^k h_i) h_i^k`.

    Args:
        num_heads: H, a divisor of the node width.
        width: d_h.
        norm: final LN of the node channel.
    """

    def __init__(self, num_heads: int, width: int, norm: nn.Module) -> None:
        super().__init__(norm)
        self.W = nn.Linear(width, num_heads, bias=False)

    def forward(self, x: Channels) -> Tensor:
        """Return (B, d_h)."""
        h, graph, num_graphs = self.own_nodes(x), self.own_graphs(x), x.layout.num_graphs
        A = softmax_rows(self.W(h), graph, num_graphs)  # (M, H)
        heads = h.unflatten(-1, (A.shape[-1], -1)) * A.unsqueeze(-1)  # (M, H, d_k)
        return sum_rows(heads.flatten(1), graph, num_graphs)
