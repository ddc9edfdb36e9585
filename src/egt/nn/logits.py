"""The logits of attention, H_hat."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from egt.batching.layout import Layout

Clip = tuple[float, float] | None


class Logits(nn.Module):
    """The clipped, scaled dot product of queries and keys, biased by the edge channel.

    H_hat_ij = clip(Q_i K_j / sqrt(d_k)) + E e_hat_ij,  e_hat = LN(e)

    `H_hat` is not masked: it feeds the edge update of every pair.

    Args:
        edge_width: d_e.
        num_heads: H.
        scale: factor of the dot product, 1 / sqrt(d_k) in the paper.
        clip: range of the scaled dot product, None for no clip.
        norm_e: LN, or nn.Identity() where the edge channel enters unchanged (EGT-Simple of the paper).
    """

    def __init__(self, edge_width: int, num_heads: int, scale: float, clip: Clip, norm_e: nn.Module) -> None:
        super().__init__()
        self.norm_e = norm_e
        self.E = nn.Linear(edge_width, num_heads)
        self.scale, self.clip = scale, clip

    def forward(self, Q: Tensor, K: Tensor, e: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Compute H_hat (pairs..., H) and e_hat (pairs..., d_e). Q, K: (nodes..., H, d_k), e: (pairs..., d_e)."""
        e_hat = self.norm_e(e)
        scores = layout.dot(Q, K) * self.scale
        clipped = scores if self.clip is None else torch.clamp(scores, *self.clip)
        return clipped + self.E(e_hat), e_hat

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"scale={self.scale:.4g}, clip={self.clip}"
