"""The distance-prediction objective: hop distances of all pairs, read from the edge channel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from egt.batching.batch import GraphBatch
from egt.nn.channels import Channels

IGNORED = -100


def distance_targets(distance: Tensor, max_hops: int) -> Tensor:
    """The class of each pair: at how many hop counts k in 1..nu the one node is reachable from the other.

    DISCREPANCY: the paper's D^(nu) would tell a node from its neighbors; in the TensorFlow code, as here, distances 0
    and 1 share class nu, distance t in 2..nu is class nu + 1 - t, and the rest is ignored, so class 0 has no target.

    Args:
        distance: (pairs...) hops, larger than nu where farther or unreachable.
        max_hops: nu.

    Returns:
        (pairs...) int64 in 1..nu, or -100 where ignored.
    """
    hops = distance.to(torch.int64)
    return torch.where(hops <= max_hops, max_hops + 1 - hops.clamp(min=1), IGNORED)


def distance_loss(logits: Tensor, batch: GraphBatch, max_hops: int, num_virtual: int = 0) -> Tensor:
    """Cross-entropy summed over all real ordered pairs within nu hops, self pairs included, of all graphs of a batch.

    DISCREPANCY: the paper does not say how pairs are reduced. In the TensorFlow code the objective is kappa times
    the mean over graphs of this sum; who calls divides by the number of graphs.

    Args:
        logits: (pairs..., nu + 1), with the pairs of virtual nodes if there are any.
        batch: the graphs, with their encoding "distance".
        max_hops: nu.
        num_virtual: q, how many nodes the readout put in front of each graph.
    """
    classes = distance_targets(batch.pair["distance"], max_hops)
    if batch.layout.real_pairs is not None:
        classes = classes.masked_fill(~batch.layout.real_pairs, IGNORED)
    rows = logits.flatten(0, -2)
    if num_virtual:
        _, _, pair_rows = batch.layout.with_virtual(num_virtual)
        rows = rows[pair_rows]
    return functional.cross_entropy(rows.float(), classes.flatten(), ignore_index=IGNORED, reduction="sum")


@dataclass(frozen=True)
class DistanceObjective:
    """Hop distances up to nu as an auxiliary task.

    Args:
        max_hops: nu.
        weight: kappa.
    """

    max_hops: int
    weight: float
    name: str = "distance"

    def loss(self, logits: Tensor, x: Channels, batch: GraphBatch) -> Tensor:
        """The sum over the graphs times kappa; divide it by their number.

        Args:
            logits: (pairs..., nu + 1) of the objective's head.
            x: the channels that the head read.
            batch: the graphs.
        """
        return self.weight * distance_loss(logits, batch, self.max_hops, x.scope.layout.num_virtual)
