"""Degree scaling: what the heads gathered, scaled by how many edges leave a node (as in GRIT)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from egt.errors import ConfigError
from egt.nn.channels import AttentionContext


class DegreeScaling(nn.Module):
    """out_i * (t1 + t2 log(1 + deg_i)), channel by channel; 2 d_h parameters that start as the identity.

    deg_i counts the edges i -> j of the graph, whoever is attended; it is 0 for virtual nodes.

    DISCREPANCY: GRIT starts both factors at random; here t1 = 1 and t2 = 0.

    Args:
        node_width: d_h.
    """

    def __init__(self, node_width: int) -> None:
        super().__init__()
        self.t1 = nn.Parameter(torch.ones(node_width))
        self.t2 = nn.Parameter(torch.zeros(node_width))

    def forward(self, out: Tensor, context: AttentionContext) -> Tensor:
        """Scale what the heads gathered. out: (nodes..., d_h)."""
        if context.degree is None:
            raise ConfigError("degree scaling needs the degrees of the nodes; give the context its `degree`")
        return out * (self.t1 + self.t2 * torch.log1p(context.degree))
