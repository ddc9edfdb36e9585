"""The nearest neighbors in space, for graphs whose nodes have coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from egt.graph import Graph, IntArray
from egt.inputs.input import PairChoice
from egt.parts import register

if TYPE_CHECKING:
    from egt.config.run import RunConfig


@register
class Nearest(PairChoice):
    """Each node with the `k` nearest others; `columns` says which continuous node features are the coordinates."""

    kind: Literal["nearest"] = "nearest"
    k: PositiveInt = 8
    columns: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)]

    @property
    def types(self) -> tuple[str, ...]:
        """See `Choice.types`."""
        return ("nearest",)

    def check(self, run: RunConfig) -> None:
        """Refuse columns that the graphs do not have."""
        super().check(run)
        width = max(term.features().get("num_node_values", 0) for term in run.model.node_inputs)
        if max(self.columns) >= width:
            raise ValueError(
                f"model.pairs: nearest reads the columns {list(self.columns)} of node_values, and the model has "
                f"{width} of them, counted from 0; name those that hold coordinates"
            )

    def choose(self, graph: Graph) -> tuple[IntArray, ...]:
        """See `Choice.choose`; of nodes at the same place any may be the nearest."""
        from scipy.spatial import KDTree

        places = graph.node_values[:, list(self.columns)]
        found = min(self.k + 1, graph.num_nodes)  # a node is mostly the nearest to itself
        _, near = KDTree(places).query(places, k=range(1, found + 1))
        own = np.arange(graph.num_nodes)
        last = np.argsort(near == own[:, None], axis=1, kind="stable")
        others = np.take_along_axis(near, last, axis=1)[:, : found - 1]
        return (np.stack([own.repeat(found - 1), others.reshape(-1)]),)
