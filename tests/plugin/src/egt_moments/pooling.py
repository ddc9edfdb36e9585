"""The learned half of the readout `moments`."""

from __future__ import annotations

import torch
from torch import Tensor

from egt.nn.channels import Channels
from egt.nn.readout import Readout


class MomentReadout(Readout):
    """[mean, standard deviation] of the final node embeddings of each graph."""

    def forward(self, x: Channels) -> Tensor:
        """Returns (B, 2 d_h)."""
        h = self.norm(x.h)
        mean, square = x.layout.mean_nodes(h), x.layout.mean_nodes(h.square())
        return torch.cat([mean, (square - mean.square()).clamp(min=1e-6).sqrt()], dim=-1)
