"""Where a random walk is after 0, 1, 2, ... steps: relative random-walk probabilities (RRWP)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from egt.encodings.encoding import Encoding
from egt.errors import ConfigError, GraphError
from egt.graph import Graph
from egt.inputs.input import PairInput
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn


@register
class RandomWalk(PairInput):
    """Random-walk probabilities between each pair (RRWP); `weighted` steps follow the edge weights."""

    kind: Literal["random_walk"] = "random_walk"
    num_steps: Annotated[int, Field(gt=0, le=2048)] = 16
    weighted: bool = False

    def encodings(self) -> tuple[Encoding, ...]:
        """See `Input.encodings`."""
        return (RandomWalks(self.num_steps, self.weighted),)

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import PairProjection

        return PairProjection("random_walk", self.num_steps, width)


@dataclass(frozen=True)
class RandomWalks:
    """The powers `[I, M, M^2, ..., M^(K-1)]` of `M = D^-1 A`, D the row sums of A; a row without edges is zero in M.

    Args:
        num_steps: K, the number of powers, the zeroth included.
        weighted: steps are taken in proportion to the edge weights, which then must not be negative.
    """

    num_steps: int = 16
    weighted: bool = False

    name: ClassVar[str] = "random_walk"
    level: ClassVar[Literal["pair"]] = "pair"
    stored: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.num_steps < 1:
            raise ConfigError(f"RandomWalks: num_steps is {self.num_steps}; it must be at least 1")

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return the probabilities (N, N, K): [i, j, k] is that of standing on j after k steps from i."""
        A = graph.adjacency(weighted=self.weighted, self_loops=False)
        if A.min() < 0:
            raise GraphError(
                f"graph {graph.id!r}: edge_weight holds {A.min()}; weighted random walks need weights of at least 0"
            )
        degree = A.sum(axis=1, keepdims=True)
        M = np.divide(A, degree, out=np.zeros_like(A), where=degree > 0)
        powers = np.empty((self.num_steps, graph.num_nodes, graph.num_nodes))
        powers[0] = np.eye(graph.num_nodes)
        for k in range(1, self.num_steps):
            powers[k] = powers[k - 1] @ M
        return np.ascontiguousarray(powers.transpose(1, 2, 0), dtype=np.float32)
