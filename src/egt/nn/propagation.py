"""Personalized PageRank on the node channel, behind the layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from egt.nn.channels import Channels
from egt.nn.dropout import Dropout
from egt.nn.randomness import Stream
from egt.nn.readout import Readout


class PropagatedReadout(Readout):
    """z_0 = dropout(LN(h)), z <- (1 - a) S z + a z_0, with S = D^-1/2 (A + I) D^-1/2: rows averaged over a walk.

    D counts the edges that leave a node, and the node itself; a node without edges keeps its row. The head behind it
    is best linear: propagated logits are then the same as propagated embeddings.

    Args:
        norm: final LN of the node channel.
        steps: how often the rows are passed along the edges.
        restart: a, the share of a node's own row that each step puts back.
        dropout: chance of an entry of z_0 to be 0 in a training step.
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
