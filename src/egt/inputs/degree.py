"""How many edges leave and enter each node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from egt.encodings.encoding import Encoding
from egt.errors import ConfigError
from egt.graph import Graph
from egt.inputs.input import NodeInput
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn


@register
class Degree(NodeInput):
    """In- and out-degree tables; degrees above `max_degree` share a row."""

    kind: Literal["degree"] = "degree"
    max_degree: PositiveInt = 64

    def encodings(self) -> tuple[Encoding, ...]:
        """See `Input.encodings`."""
        return (Degrees(self.max_degree),)

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import DegreeTables

        return DegreeTables(self.max_degree, width)


@dataclass(frozen=True)
class Degrees:
    """Out- and in-degree of each node, clipped, as ids for an embedding table of `max_degree + 1` rows.

    Args:
        max_degree: stands for this degree and every larger one.
    """

    max_degree: int = 16

    name: ClassVar[str] = "degree"
    level: ClassVar[Literal["node"]] = "node"
    stored: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.max_degree < 1:
            raise ConfigError(f"Degrees: max_degree is {self.max_degree}; it must be at least 1")

    def __call__(self, graph: Graph) -> NDArray[np.int64]:
        """Return the degrees (N, 2): column 0 counts edges i -> j, column 1 edges j -> i."""
        counts = [np.bincount(ends, minlength=graph.num_nodes) for ends in graph.edge_index]
        return np.minimum(np.stack(counts, axis=1), self.max_degree)
