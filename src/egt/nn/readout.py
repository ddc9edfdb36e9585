"""Readouts: how the channels become one row per graph, node or query pair; and the heads behind them.

A readout first prepares the channels that enter the layers (virtual nodes add themselves), then reads what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from egt.data.batching.layout import Layout, Packed
from egt.data.batching.loader import graph_sizes
from egt.data.encodings.encoding import Sample
from egt.errors import ConfigError
from egt.nn.channels import Channels
from egt.nn.randomness import Dropout, Stream
from egt.nn.terms import rows_of


class Readout(nn.Module):
    """A readout that leaves the channels as they are before the layers; `norm` is the final LN of what is read."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def prepare(self, x: Channels) -> Channels:
        """Return the channels that enter the layers."""
        return x

    def embeddings(self) -> list[nn.Parameter]:
        """Return the parameters that enter the channels in `prepare`."""
        return []


class MeanReadout(Readout):
    """Global average pooling: the mean of the final node embeddings of each graph."""

    def forward(self, x: Channels) -> Tensor:
        """Return (B, d_h)."""
        return x.layout.mean_nodes(self.norm(x.h))


class VirtualNodeReadout(Readout):
    """q = `num_virtual` learned nodes that join every graph; their final embeddings, side by side, are the graph's.

    e_ij = e~_i between virtual node i and any node j, (e~_i + e~_j) / 2 between two virtual nodes.

    DISCREPANCY: the authors' PyTorch code lets virtual nodes attend padding, so an answer depends on the other graphs
    of its batch; here padding is never attended (`PaddingVirtualNodeReadout` repeats what they did).
    DISCREPANCY: the paper numbers virtual nodes N+1..N+q; here, as in both codes, they come first.
    """

    def __init__(self, num_virtual: int, node_width: int, edge_width: int, norm: nn.Module) -> None:
        super().__init__(norm)
        self.num_virtual = num_virtual
        self.nodes = nn.Parameter(torch.randn(num_virtual, node_width))
        self.edges = nn.Parameter(torch.randn(num_virtual, edge_width))

    def prepare(self, x: Channels) -> Channels:
        """Put the virtual nodes in front of each graph."""
        layout, node_rows, pair_rows = x.layout.with_virtual(self.num_virtual)
        _, i = torch.broadcast_tensors(layout.node_indices.graph, layout.node_indices.i)  # (nodes...)
        h = rows_of(self.nodes, i.clamp(max=self.num_virtual - 1))
        h = h.flatten(0, -2).index_copy_(0, node_rows, x.h.flatten(0, -2)).view(*i.shape, -1)
        e = self.with_virtual_edges(x.e.flatten(0, -2), layout, pair_rows)
        allowed, degree = self.allowed(x.context.allowed, layout, pair_rows), x.context.degree
        if degree is not None:
            wide = degree.new_zeros(i.numel(), 1).index_copy(0, node_rows, degree.flatten(0, -2))
            degree = wide.view(*i.shape, 1)  # no edge of the graph leaves a virtual node
        context = replace(x.context, layout=layout, allowed=allowed, degree=degree)
        return Channels(h, e.unflatten(0, layout.pair_shape), context, pair_rows[x.queries], pair_rows[x.edges])

    def embeddings(self) -> list[nn.Parameter]:
        """Return the embeddings of virtual nodes and of their edges."""
        return [self.nodes, self.edges]

    def with_virtual_edges(self, e: Tensor, layout: Layout, pair_rows: Tensor) -> Tensor:
        """Put the edges of virtual nodes among the others, (P, d_e). Returns the flat edge channel of the new layout.

        pair_rows: (P,) where each pair is in the layout that has virtual nodes.
        """
        table, q = self.virtual_edges(), self.num_virtual
        if isinstance(layout, Packed):
            return layout.with_virtual_pairs(e, table, pair_rows)
        pair = layout.pair_indices
        row = pair.i.clamp(max=q) * (q + 1) + pair.j.clamp(max=q)
        wide = rows_of(table.flatten(0, 1), row.expand(layout.pair_shape).flatten())
        return wide.index_copy_(0, pair_rows, e)

    def virtual_edges(self) -> Tensor:
        """Return the embeddings of pairs with a virtual node. Returns (q + 1, q + 1, d_e), index q for all others."""
        ends = functional.pad(self.edges, (0, 0, 0, 1))  # (q + 1, d_e)
        virtual = torch.arange(len(ends), device=ends.device) < self.num_virtual
        both = (virtual.unsqueeze(1) & virtual).unsqueeze(-1)
        table = ends.unsqueeze(1) + ends.unsqueeze(0)
        return torch.where(both, table / 2, table)

    def allowed(self, allowed: Tensor | None, layout: Layout, pair_rows: Tensor) -> Tensor | None:
        """Extend the mask by virtual nodes, which attend and are attended by every real node. (pairs..., 1) boolean."""
        if allowed is None:
            return None
        wide = _widened(allowed, layout, pair_rows)
        return wide if layout.real_pairs is None else wide & layout.real_pairs.unsqueeze(-1)

    def forward(self, x: Channels) -> Tensor:
        """Return (B, q d_h)."""
        final: Tensor = self.norm(x.layout.virtual_nodes(x.h))
        return final.flatten(1)


class PaddingVirtualNodeReadout(VirtualNodeReadout):
    """Virtual nodes that attend padding, bit for bit as the authors' PyTorch code; only on the padded layout."""

    def allowed(self, allowed: Tensor | None, layout: Layout, pair_rows: Tensor) -> Tensor | None:
        """As in `VirtualNodeReadout`, except that pairs of a virtual node and padding stay open."""
        if allowed is None or layout.real_nodes is None:
            raise ConfigError("virtual nodes can attend padding only on the padded layout; use layout 'padded'")
        return _widened(allowed, layout, pair_rows)


def _widened(allowed: Tensor, layout: Layout, pair_rows: Tensor) -> Tensor:
    """Return the mask of a layout with more pairs, which are all allowed. Returns (pairs..., 1)."""
    wide = allowed.new_ones(layout.num_pairs).index_copy(0, pair_rows, allowed.flatten())
    return wide.view(*layout.pair_shape, 1)


class HiddenReadout(VirtualNodeReadout):
    """One row per node, and then one per query pair, which a linear map brings to the width of the node channel.

    Virtual nodes join every graph, as they will in the model that starts from this one; they are not read.
    """

    def __init__(self, num_virtual: int, node_width: int, edge_width: int, norm: nn.Module, norm_e: nn.Module) -> None:
        super().__init__(num_virtual, node_width, edge_width, norm)
        self.norm_e = norm_e
        self.W = nn.Linear(edge_width, node_width)

    def forward(self, x: Channels) -> Tensor:
        """Return (M + R, d_h)."""
        e = x.e.flatten(0, -2)[x.queries]
        return torch.cat([x.layout.node_rows(self.norm(x.h)), self.W(self.norm_e(e))])


class NodeReadout(Readout):
    """One row per node: the final node embeddings of all graphs in order."""

    def forward(self, x: Channels) -> Tensor:
        """Return (M, d_h)."""
        return x.layout.node_rows(self.norm(x.h))


class EdgeReadout(Readout):
    """One row per query pair, from the edge channel; if `symmetric`, from the mean of e_ij and e_ji."""

    def __init__(self, norm: nn.Module, *, symmetric: bool = False) -> None:
        super().__init__(norm)
        self.symmetric = symmetric

    def forward(self, x: Channels) -> Tensor:
        """Return (R, d_e)."""
        e = x.layout.squarewise(_with_opposite, x.e) if self.symmetric else x.e
        return self.norm(e.flatten(0, -2)[x.queries])


def _with_opposite(e: Tensor, _: Tensor | None) -> Tensor:
    """Return the mean of both directions. e: (B, N, N, d_e)."""
    return (e + e.transpose(1, 2)) / 2


class EdgeOfNodesReadout(Readout):
    """One row per query pair without an edge channel to read (EGT-Simple): [h_i, h_j, e0_ij]."""

    def forward(self, x: Channels) -> Tensor:
        """Return (R, 2 d_h + d_e)."""
        layout = x.layout
        i, j = (rows.flatten()[x.queries] for rows in layout.pair_nodes)
        h = self.norm(x.h).flatten(0, -2)
        return torch.cat([h[i], h[j], x.e.flatten(0, -2)[x.queries]], dim=-1)


class MLP(nn.Module):
    """Linear maps with a non-linearity between them, ELU in the paper, and none behind the last.

    `widths` are those of the input, each hidden layer and the output.
    """

    def __init__(self, widths: Sequence[int], activation: Callable[[], nn.Module] = nn.ELU) -> None:
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(inner, outer) for inner, outer in pairwise(widths))
        self.activation = activation()

    @property
    def last(self) -> nn.Linear:
        """The map to the output, which transfer learning re-initializes."""
        last = self.linears[-1]
        assert isinstance(last, nn.Linear)
        return last

    def forward(self, x: Tensor) -> Tensor:
        """x: (..., widths[0]). Returns (..., widths[-1])."""
        for linear in self.linears[:-1]:
            x = self.activation(linear(x))
        return self.last(x)


class PairHead(nn.Module):
    """A head on pairs of nodes, for auxiliary objectives such as distance prediction: mlp(LN(e)), d_e -> outputs."""

    def __init__(self, norm: nn.Module, mlp: MLP) -> None:
        super().__init__()
        self.norm = norm
        self.mlp = mlp

    def forward(self, e: Tensor) -> Tensor:
        """e: (rows..., d_e) of the edge channel. Returns (rows..., outputs)."""
        return self.mlp(self.norm(e))


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
    """Each head takes its share of the channels from the nodes it attends: `sum_i softmax_i(w^k h_i) h_i^k`."""

    def __init__(self, num_heads: int, width: int, norm: nn.Module) -> None:
        super().__init__(norm)
        self.W = nn.Linear(width, num_heads, bias=False)

    def forward(self, x: Channels) -> Tensor:
        """Return (B, d_h)."""
        h, graph, num_graphs = self.own_nodes(x), self.own_graphs(x), x.layout.num_graphs
        A = softmax_rows(self.W(h), graph, num_graphs)  # (M, H)
        heads = h.unflatten(-1, (A.shape[-1], -1)) * A.unsqueeze(-1)  # (M, H, d_k)
        return sum_rows(heads.flatten(1), graph, num_graphs)


class PropagatedReadout(Readout):
    """z_0 = dropout(LN(h)), z <- (1 - a) S z + a z_0, with S = D^-1/2 (A + I) D^-1/2: rows averaged over a walk.

    D counts the edges that leave a node, and the node itself; a node without edges keeps its row. The head behind it
    is best linear: propagated logits are then the same as propagated embeddings. a is `restart`.
    """

    def __init__(self, norm: nn.Module, steps: int, restart: float, dropout: float = 0.0) -> None:
        super().__init__(norm)
        self.steps, self.restart = steps, restart
        self.dropout = Dropout(dropout, Stream.READOUT, 0, "node")

    def forward(self, x: Channels) -> Tensor:
        """Return (M, d_h)."""
        start = self.dropout(self.norm(x.h), x.context).flatten(0, -2)  # (rows, d_h)
        i, j = (rows.expand(x.layout.pair_shape).flatten()[x.edges] for rows in x.layout.pair_nodes)
        degree = start.new_ones(len(start)).index_add(0, i, start.new_ones(len(i)))
        along = (degree[i] * degree[j]).rsqrt().unsqueeze(1)
        stay = degree.reciprocal().unsqueeze(1)
        z = start
        for _ in range(self.steps):
            passed = (stay * z).index_add(0, i, along * z[j])
            z = torch.lerp(passed, start, self.restart)
        return x.layout.node_rows(z.view(x.h.shape))
