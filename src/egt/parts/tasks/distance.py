"""The distance-prediction objective: hop distances of all pairs, read from the edge channel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from egt.data.encodings.distances import ShortestPaths
from egt.data.encodings.encoding import Encoding
from egt.parts.tasks.task import Objective
from egt.registry import register

if TYPE_CHECKING:
    from torch import Tensor

    from egt.data.batching.batch import GraphBatch
    from egt.nn.channels import Channels


@register
class DistanceObjective(Objective):
    """Auxiliary task: hop distances up to `max_hops` (nu) from the edge channel."""

    kind: Literal["distance"] = "distance"
    max_hops: Annotated[int, Field(ge=1, le=64)] = 3

    @property
    def num_outputs(self) -> int:
        """See `Objective.num_outputs`."""
        return self.max_hops + 1

    def encodings(self) -> tuple[Encoding, ...]:
        """See `Objective.encodings`."""
        return (ShortestPaths(self.max_hops),)

    def prepared(self, batch: GraphBatch) -> GraphBatch:
        """See `Objective.prepared`."""
        return replace(batch, scored={**batch.scored, self.kind: scored_pairs(batch, self.max_hops)})

    def loss(self, head: Callable[[Tensor], Tensor], x: Channels, batch: GraphBatch) -> Tensor:
        """See `Objective.loss`."""
        return self.weight * distance_loss(head, x.e, batch, self.max_hops, x.context.layout.num_virtual)


def scored_pairs(batch: GraphBatch, max_hops: int) -> Tensor:
    """(R,) flat rows of the real ordered pairs within nu hops, self pairs included."""
    near = batch.pair["distance"] <= max_hops
    if batch.layout.real_pairs is not None:
        near = near & batch.layout.real_pairs
    return near.flatten().nonzero().squeeze(-1)


def distance_targets(distance: Tensor, max_hops: int) -> Tensor:
    """Return the class of pairs within nu hops: at how many hop counts k in 1..nu one node is reachable from the other.

    DISCREPANCY: the paper's D^(nu) would tell a node from its neighbors; in the TensorFlow code, as here, distances 0
    and 1 share class nu, distance t in 2..nu is class nu + 1 - t, and the rest is ignored, so class 0 has no target.

    Args:
        distance: (R,) hops, at most nu.
        max_hops: nu.

    Returns:
        (R,) int64 in 1..nu.
    """
    import torch

    return max_hops + 1 - distance.to(torch.int64).clamp(min=1)


def distance_loss(
    head: Callable[[Tensor], Tensor], e: Tensor, batch: GraphBatch, max_hops: int, num_virtual: int = 0
) -> Tensor:
    """Cross-entropy summed over the `scored_pairs` of all graphs of a batch.

    The head reads only these pairs: in molecules they are a third of all.

    DISCREPANCY: the paper does not say how pairs are reduced. In the TensorFlow code the objective is kappa times
    the mean over graphs of this sum; whoever calls divides by the number of graphs.

    Args:
        head: (pairs, d_e) -> (pairs, nu + 1) logits.
        e: (pairs..., d_e), with the pairs of virtual nodes if there are any.
        batch: the graphs, with their encoding "distance".
        max_hops: nu.
        num_virtual: q, how many nodes the readout put in front of each graph.
    """
    from torch.nn import functional

    scored = batch.scored.get("distance")
    if scored is None:
        scored = scored_pairs(batch, max_hops)
    rows = scored
    if num_virtual:
        _, _, pair_rows = batch.layout.with_virtual(num_virtual)
        rows = pair_rows[scored]
    logits = head(e.flatten(0, -2).index_select(0, rows))
    classes = distance_targets(batch.pair["distance"].flatten()[scored], max_hops)
    return functional.cross_entropy(logits.float(), classes, reduction="sum")
