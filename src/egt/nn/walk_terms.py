"""The learned half of random walks: W (s * r_ij) on pairs, W (s * r_ii) on nodes, s fitted to the training graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from egt.batching.batch import GraphBatch
from egt.encodings.encoding import Array, Sample

_NAME = "random_walk"
_MOST_FITTED = 1000
"""How many training graphs the scale is taken from, evenly spread over them."""


class WalkTerm(nn.Module):
    """What both terms share: the linear map and the scale of each step.

    Args:
        num_steps: K.
        width: of the channel.
        scaled: divide step k by its standard deviation over the training graphs; mean 0 stays where it is.
        bias: whether the map has one.
    """

    scale: Tensor | None

    def __init__(self, num_steps: int, width: int, *, scaled: bool, bias: bool) -> None:
        super().__init__()
        self.num_steps = num_steps
        self.W = nn.Linear(num_steps, width, bias=bias)
        self.register_buffer("scale", torch.ones(num_steps) if scaled else None)

    def fit(self, samples: Sequence[Sample]) -> None:
        """Take the scale from training graphs; a step without any spread keeps 1."""
        if self.scale is None:
            return
        chosen = range(0, len(samples), -(-len(samples) // _MOST_FITTED))
        sums = np.zeros((3, self.num_steps))
        for k in chosen:
            rows = self.rows(samples[k])
            sums += (np.full(self.num_steps, len(rows)), rows.sum(0, np.float64), np.square(rows).sum(0, np.float64))
        mean, square = sums[1:] / np.maximum(sums[0], 1)
        std = np.sqrt(np.maximum(square - mean**2, 0.0))
        scale = np.divide(1.0, std, out=np.ones_like(std), where=std > 1e-6)
        self.scale.copy_(torch.from_numpy(scale))

    def rows(self, sample: Sample) -> Array:
        """Return the probabilities (rows, K) of a graph that the scale is taken over."""
        raise NotImplementedError

    def project(self, probabilities: Tensor) -> Tensor:
        """probabilities: (..., K or more). Returns (..., width)."""
        weight = self.W.weight if self.scale is None else self.W.weight * self.scale
        return nn.functional.linear(probabilities[..., : self.num_steps], weight, self.W.bias)


def _rows(sample: Sample, num_steps: int) -> Array:
    """Return the probabilities of all pairs of a graph, or of its listed ones. Returns (pairs, K)."""
    values = sample.pair[_NAME] if _NAME in sample.pair else sample.listed[_NAME]
    return values.reshape(-1, values.shape[-1])[:, :num_steps]


class PairWalks(WalkTerm):
    """e0_ij += W (s * r_ij) with r_ij = [I, P, ..., P^(K-1)]_ij; arguments as in `WalkTerm`."""

    def rows(self, sample: Sample) -> Array:
        """See `WalkTerm.rows`."""
        return _rows(sample, self.num_steps)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (pairs..., d_e)."""
        return self.project(batch.pair[_NAME])


class NodeWalks(WalkTerm):
    """h0_i += W (s * r_ii), without a bias: r_ii holds a one; arguments as in `WalkTerm`."""

    def __init__(self, num_steps: int, width: int, *, scaled: bool) -> None:
        super().__init__(num_steps, width, scaled=scaled, bias=False)

    def rows(self, sample: Sample) -> Array:
        """See `WalkTerm.rows`; a pair of a node with itself is where the walk of no steps is."""
        rows = _rows(sample, self.num_steps)
        own: Array = rows[rows[:, 0] == 1]
        return own

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return (nodes..., d_h)."""
        pair = batch.layout.pair_indices
        own = (pair.i == pair.j).expand(batch.layout.pair_shape)
        diagonal = batch.pair[_NAME][own]  # (nodes, K), in the order of the node channel
        return self.project(diagonal).view(*batch.node_categories.shape[:-1], -1)
