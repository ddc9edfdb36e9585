"""The learned half of the baseline layers: h' = h + ReLU(norm(conv(h, e))), on the edge-list layout.

DISCREPANCY: the public benchmark normalizes over the batch; here, as in EGT, each node is normalized alone, since a
batch may be computed in parts.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from egt.config.run import ModelConfig
from egt.data.batching.layout import rows_where
from egt.errors import require_extra
from egt.nn.channels import AttentionContext
from egt.nn.randomness import Dropout, Stream


class MlpLayer(nn.Module):
    """A perceptron on each node."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.norm = model.norm(model.node_width)
        self.linear = nn.Linear(model.node_width, model.node_width)

    def forward(self, h: Tensor, e: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        """h: (M, d_h), e: (P, d_e); e stays unchanged."""
        return h + functional.relu(self.norm(self.linear(h))), e


class GcnLayer(nn.Module):
    """PyG's `GCNConv`; the loops of nodes to themselves are rows of the edge list already."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.norm = model.norm(model.node_width)
        self.conv = _require_pyg().GCNConv(model.node_width, model.node_width, add_self_loops=False)

    def forward(self, h: Tensor, e: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        """h: (M, d_h), e: (P, d_e); e stays unchanged."""
        i, j = context.layout.pair_nodes
        edges = torch.stack([j, i])
        if context.allowed is not None:
            edges = edges[:, _neighbors(context)]
        return h + functional.relu(self.norm(self.conv(h, edges))), e


class GinLayer(nn.Module):
    """PyG's `GINEConv`, with a trained epsilon."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        width = model.node_width
        self.norm = model.norm(width)
        perceptron = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.conv = _require_pyg().GINEConv(perceptron, train_eps=True, edge_dim=model.edge_width)

    def forward(self, h: Tensor, e: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        """h: (M, d_h), e: (P, d_e); e stays unchanged."""
        i, j = context.layout.pair_nodes
        # The node itself, which has one row, enters with its own weight, 1 + epsilon.
        apart = (i != j) & _neighbors(context)
        apart = rows_where(apart, len(i) - len(h)) if context.allowed is None else apart.nonzero().squeeze(-1)
        edges = torch.stack([j[apart], i[apart]])
        return h + functional.relu(self.norm(self.conv(h, edges, e[apart]))), e


class GatedGcnLayer(nn.Module):
    """e'_ij = C e_ij + D h_i + E h_j; h'_i = A h_i + sum_j eta_ij * B h_j with eta = sigmoid(e') / sum_j sigmoid(e').

    Both channels have the width d.
    """

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        width = model.node_width
        self.norm_h, self.norm_e = model.norm(width), model.norm(model.edge_width)
        self.A, self.B, self.C, self.D, self.E = (nn.Linear(width, width) for _ in range(5))

    def forward(self, h: Tensor, e: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        """h: (M, d), e: (P, d); both are updated."""
        layout = context.layout
        i, j = layout.pair_nodes
        e_hat = self.C(e) + self.D(h)[i] + self.E(h)[j]  # (P, d)
        gate = e_hat.sigmoid() * _neighbors(context).unsqueeze(-1)
        message = layout.sum_keys(gate * self.B(h)[j]) / (layout.sum_keys(gate) + 1e-6)  # (M, d)
        return (
            h + functional.relu(self.norm_h(self.A(h) + message)),
            e + functional.relu(self.norm_e(e_hat)),
        )


class SageLayer(nn.Module):
    """h'_i = h_i + dropout(ReLU(A LN(h_i) + B mean_j LN(h_j))): a node and its neighbors have maps of their own."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.norm = model.norm(model.node_width)
        self.A = nn.Linear(model.node_width, model.node_width)
        self.B = nn.Linear(model.node_width, model.node_width, bias=False)
        self.dropout = Dropout(model.node_dropout, Stream.NODE_DROPOUT, 0, "node")

    def forward(self, h: Tensor, e: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        """h: (M, d_h), e: (P, d_e); e stays unchanged."""
        layout = context.layout
        i, j = layout.pair_nodes
        sent = (_neighbors(context) & (i != j)).to(h.dtype).unsqueeze(-1)  # (P, 1)
        x = self.norm(h)
        mean = layout.aggregate(sent, x.unsqueeze(1)).squeeze(1) / layout.sum_keys(sent).clamp(min=1)
        return h + self.dropout(functional.relu(self.A(x) + self.B(mean)), context), e


def _neighbors(context: AttentionContext) -> Tensor:
    """(P,) True where a message is sent: along edges, not between the nodes of a query pair."""
    i, _ = context.layout.pair_nodes
    return torch.ones_like(i, dtype=torch.bool) if context.allowed is None else context.allowed.squeeze(-1)


def _require_pyg() -> Any:
    with require_extra("graph", "GCN and GIN need PyG"):
        from torch_geometric import nn as layers
    return layers
