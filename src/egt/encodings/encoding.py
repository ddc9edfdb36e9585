"""The precomputed half of a model input: what it is called, whom it describes, how it is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from numpy.typing import NDArray

from egt.graph import FeatureSchema, Graph

Array = NDArray[Any]


class Encoding(Protocol):
    """A pure function of a graph. Implementations are frozen dataclasses, so equal settings are equal objects.

    `level` "node": the result is (N, width); "pair": (N, N) or (N, N, width).
    """

    @property
    def name(self) -> str:
        """The key of the result in `Sample.node` or `Sample.pair`; the same for every setting of an encoding."""

    @property
    def level(self) -> Literal["node", "pair"]:
        """Whether a row of the result describes a node or a pair of nodes."""

    @property
    def stored(self) -> bool:
        """False for a result that is cheaper to compute than to keep on disk."""

    def __call__(self, graph: Graph) -> Array:
        """The encoding of one graph."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A graph with its encodings, ready to be batched. Keys are the names of the encodings."""

    graph: Graph
    node: Mapping[str, Array] = field(default_factory=dict)
    pair: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Preparation:
    """Graph -> Sample: checks the features against the schema, then computes every encoding."""

    schema: FeatureSchema
    encodings: Sequence[Encoding] = ()

    def __call__(self, graph: Graph) -> Sample:
        """Prepare one graph; raises `GraphError` when it does not fit the schema."""
        self.schema.check(graph)
        results = {encoding: encoding(graph) for encoding in self.encodings}
        return Sample(
            graph,
            node={encoding.name: result for encoding, result in results.items() if encoding.level == "node"},
            pair={encoding.name: result for encoding, result in results.items() if encoding.level == "pair"},
        )
