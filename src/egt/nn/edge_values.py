"""Edge-to-node values: a node receives what its pairs hold, besides the values of the nodes it attends."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from egt.data.batching.layout import Layout
from egt.errors import ConfigError

EdgeValueForm = Literal["sliced", "full"]


class EdgeValues(nn.Module):
    """U^k sum_j A_tilde^k_ij e_hat_ij, added to sum_j A_tilde^k_ij V^k_j in front of the centrality scaler.

    The full form reads all channels of e_hat in each head. In the sliced one head k reads its own d_e / H of them.
    """

    def __init__(self, edge_width: int, num_heads: int, head_width: int, form: EdgeValueForm) -> None:
        super().__init__()
        if form == "sliced" and edge_width % num_heads:
            raise ConfigError(
                f"edge_width {edge_width} is not a multiple of num_heads {num_heads}; sliced edge values give each "
                "head an equal share of the edge channel, full ones give it all"
            )
        self.form: EdgeValueForm = form
        width = edge_width // num_heads if form == "sliced" else edge_width
        bound = width**-0.5  # as a linear map of this many inputs
        self.U = nn.Parameter(torch.empty(num_heads, width, head_width).uniform_(-bound, bound))

    def forward(self, A_tilde: Tensor, e_hat: Tensor, layout: Layout) -> Tensor:
        """Compute what nodes receive. A_tilde: (pairs..., H), e_hat: (pairs..., d_e). Returns (nodes..., H, d_k)."""
        return self.project(self.gather(A_tilde, e_hat, layout))

    def gather(self, A_tilde: Tensor, e_hat: Tensor, layout: Layout) -> Tensor:
        """Sum what each head reads over the keys. Returns (nodes..., H, width)."""
        read = self.read(e_hat).expand(*e_hat.shape[:-1], *self.U.shape[:2]).unbind(-2)  # (pairs..., width) each
        heads = A_tilde.split(1, -1)  # (pairs..., 1) each
        return torch.stack([layout.sum_keys(A * x) for A, x in zip(heads, read, strict=True)], -2)

    def read(self, x: Tensor) -> Tensor:
        """Return the channels that each head reads. x: (..., d_e). Returns (..., H or 1, width)."""
        return x.unflatten(-1, (len(self.U), -1)) if self.form == "sliced" else x.unsqueeze(-2)

    def project(self, gathered: Tensor) -> Tensor:
        """Apply U. gathered: (nodes..., H, width). Returns (nodes..., H, d_k)."""
        return torch.einsum("...kw,kwc->...kc", gathered, self.U)

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"form={self.form}"
