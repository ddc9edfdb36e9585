"""How many neighbors two nodes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from egt.encodings.encoding import Encoding
from egt.inputs.input import PairInput
from numpy.typing import NDArray

from egt.graph import Graph
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn


@register
class CommonNeighbors(PairInput):
    """The number of neighbors that two nodes share, clipped at `most`, as a share of it."""

    kind: Literal["common_neighbors"] = "common_neighbors"
    most: int = 4

    def encodings(self) -> tuple[Encoding, ...]:
        """See `Input.encodings`."""
        return (SharedNeighbors(self.most),)

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import PairProjection

        return PairProjection("common_neighbors", 1, width)


@dataclass(frozen=True)
class SharedNeighbors:
    """A A^T of the adjacency matrix, clipped."""

    most: int

    name: ClassVar[str] = "common_neighbors"
    level: ClassVar[Literal["pair"]] = "pair"
    stored: ClassVar[bool] = True

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """The shares (N, N, 1)."""
        A = graph.adjacency(self_loops=False)
        shared = np.minimum(A @ A.T, self.most) / self.most
        return shared[..., None].astype(np.float32)
