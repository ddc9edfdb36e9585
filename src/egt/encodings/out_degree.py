"""How many edges leave each node, as a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from egt.graph import Graph


@dataclass(frozen=True)
class OutDegree:
    """The number of edges i -> j of each node i."""

    name: ClassVar[str] = "out_degree"
    level: ClassVar[Literal["node"]] = "node"
    stored: ClassVar[bool] = False

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return the degrees, (N, 1)."""
        return np.bincount(graph.edge_index[0], minlength=graph.num_nodes).astype(np.float32)[:, None]
