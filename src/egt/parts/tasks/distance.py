"""The distance-prediction objective: hop distances of all pairs, read from the edge channel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

import egt.nn as nn
from egt.data.encodings.encoding import Encoding, ShortestPaths
from egt.parts.tasks.task import Objective
from egt.registry import register

if TYPE_CHECKING:
    from torch import Tensor

    from egt.data.batching.batch import GraphBatch
    from egt.nn.channels import Channels


@register
class DistanceObjective(Objective):
    """Auxiliary task: hop distances up to `max_hops` (nu) from the edge channel (`egt.nn.losses.distance_loss`)."""

    kind: Literal["distance"] = "distance"
    max_hops: Annotated[int, Field(ge=1, le=64)] = 3

    @property
    def num_outputs(self) -> int:
        return self.max_hops + 1

    def encodings(self) -> tuple[Encoding, ...]:
        return (ShortestPaths(self.max_hops),)

    def prepared(self, batch: GraphBatch) -> GraphBatch:
        return replace(batch, scored={**batch.scored, self.kind: nn.losses.scored_pairs(batch, self.max_hops)})

    def loss(self, head: Callable[[Tensor], Tensor], x: Channels, batch: GraphBatch) -> Tensor:
        return self.weight * nn.losses.distance_loss(head, x.e, batch, self.max_hops, x.layout.num_virtual)
