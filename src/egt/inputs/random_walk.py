"""Where a random walk is after 0, 1, 2, ... steps: relative random-walk probabilities (RRWP), on pairs and on nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from egt.encodings.encoding import Encoding
from egt.errors import ConfigError, GraphError
from egt.graph import Graph
from egt.inputs.input import NodeInput, PairInput
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn

NumSteps = Annotated[int, Field(gt=0, le=2048)]
_SMALL = 1 << 22
"""Numbers of all pairs that are computed to take some of them: rows at once, they are four times as fast."""


@register
class RandomWalk(PairInput):
    """Random-walk probabilities between each pair (RRWP) after 0 to `num_steps` - 1 steps.

    `weighted` steps follow the edge weights. `scaled` divides each step by its standard deviation over the training
    graphs, which is kept with the weights.
    Without `bias` a pair that no walk joins gets nothing.
    """

    kind: Literal["random_walk"] = "random_walk"
    num_steps: NumSteps = 16
    weighted: bool = False
    scaled: bool = False
    bias: bool = True

    def encodings(self) -> tuple[Encoding, ...]:
        """See `Input.encodings`."""
        return (RandomWalks(self.num_steps, self.weighted),)

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.walk_terms import PairWalks

        return PairWalks(self.num_steps, width, scaled=self.scaled, bias=self.bias)


@register
class WalkReturns(NodeInput):
    """Probabilities of a random walk to be back at its start, the diagonal of RRWP.

    `num_steps`, `weighted` and `scaled` as on pairs.
    """

    kind: Literal["random_walk"] = "random_walk"
    num_steps: NumSteps = 16
    weighted: bool = False
    scaled: bool = False

    def encodings(self) -> tuple[Encoding, ...]:
        """See `Input.encodings`."""
        return (RandomWalks(self.num_steps, self.weighted),)

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.walk_terms import NodeWalks

        return NodeWalks(self.num_steps, width, scaled=self.scaled)


@dataclass(frozen=True)
class RandomWalks:
    """The powers `[I, P, P^2, ..., P^(K-1)]` of `P = D^-1 A`, D the row sums of A; a row without edges is zero in P.

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

    def join(self, other: RandomWalks) -> RandomWalks:
        """Walk as far as either asks; who reads the probabilities takes the first ones."""
        if self.weighted != other.weighted:
            raise ConfigError("two inputs ask for random walks, one along edge weights and one not; make them agree")
        return RandomWalks(max(self.num_steps, other.num_steps), self.weighted)

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return the probabilities (N, N, K): [i, j, k] is that of standing on j after k steps from i."""
        from egt.encodings.walk_probabilities import walk_powers  # imports numba

        edges = graph.edge_index.copy()  # numba takes longer to recognize a read-only array than to work on it
        powers = np.asarray(walk_powers(graph.num_nodes, edges, self.weights(graph), self.num_steps))
        return np.ascontiguousarray(powers.transpose(1, 2, 0))

    def at(self, graph: Graph, pairs: NDArray[np.int64]) -> NDArray[np.float32]:
        """See `Listable.at`; the probabilities (P, K), in at most N E K operations."""
        from egt.encodings.walk_probabilities import walk_powers, walk_powers_at  # imports numba

        edges = graph.edge_index.copy()
        if graph.num_nodes**2 * self.num_steps <= _SMALL:
            powers = np.asarray(walk_powers(graph.num_nodes, edges, self.weights(graph), self.num_steps))
            return np.ascontiguousarray(powers[:, *pairs].T)
        return np.asarray(walk_powers_at(graph.num_nodes, edges, self.weights(graph), self.num_steps, pairs.copy()))

    def weights(self, graph: Graph) -> NDArray[np.float64]:
        """Return the weight of each edge (E,)."""
        if not self.weighted or graph.edge_weight is None:
            return np.ones(graph.num_edges)
        weights = graph.edge_weight.astype(np.float64)
        if weights.min(initial=0.0) < 0:
            raise GraphError(
                f"graph {graph.id!r}: edge_weight holds {weights.min()}; "
                "weighted random walks need weights of at least 0"
            )
        return weights
