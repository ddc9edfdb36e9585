"""How the edge channel changes from layer to layer, for edges and for all other pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egt.analysis.hops import TO_VIRTUAL
from egt.analysis.numbers import Columns
from egt.graph import IntArray
from egt.inference.attention_capture import Attention

KINDS = ("self", "edge", "other")
"""A node with itself, an edge, and any other pair of nodes; virtual nodes count nowhere."""


@dataclass(eq=False)
class EdgeEvolution:
    """Sums over the pairs of all graphs, each (D + 1, kinds); D layers.

    Fields:
        norm: |e_l|.
        change: |e_l - e_(l-1)|, 0 before the first layer.
        likeness: cosine of e_l and e_0.
        pairs: (kinds) how many.
    """

    norm: NDArray[np.float64]
    change: NDArray[np.float64]
    likeness: NDArray[np.float64]
    pairs: NDArray[np.int64]

    @classmethod
    def empty(cls, num_layers: int) -> EdgeEvolution:
        """Return the sums of no graph."""
        shape = num_layers + 1, len(KINDS)
        return cls(np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(len(KINDS), np.int64))

    def add(self, found: Attention, hops: IntArray) -> None:
        """Add a graph; `hops` are its `pair_hops`."""
        real = hops < TO_VIRTUAL
        kind = np.minimum(hops[real], 2)
        of_kind = np.equal.outer(kind, np.arange(len(KINDS)))  # (P, kinds)
        e = found.edges[:, real]  # (D + 1, P, d_e)
        norm = np.linalg.norm(e, axis=-1)
        safe = np.maximum(norm, 1e-12)
        self.norm += norm @ of_kind
        self.change[1:] += np.linalg.norm(np.diff(e, axis=0), axis=-1) @ of_kind
        self.likeness += ((e * e[:1]).sum(-1) / (safe * safe[:1])) @ of_kind
        self.pairs += of_kind.sum(0)

    def mean(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean over pairs of each kind, (D + 1, kinds)."""
        return sums / np.maximum(self.pairs, 1)

    def relative_change(self) -> NDArray[np.float64]:
        """Return the change in each layer as a part of the length that entered it, (D, kinds)."""
        found: NDArray[np.float64] = self.change[1:] / np.maximum(self.norm[:-1], 1e-12)
        return found

    def columns(self) -> Columns:
        """Return a row for each layer (0 is what enters the first) and kind of pair."""
        places = [(layer, kind) for layer in range(len(self.norm)) for kind in range(len(KINDS))]
        change = np.concatenate([np.zeros((1, len(KINDS))), self.relative_change()])
        values = {"norm": self.mean(self.norm), "change": change, "likeness_to_input": self.mean(self.likeness)}
        return {
            "layer": [layer for layer, _ in places],
            "pairs": [KINDS[kind] for _, kind in places],
            **{name: [float(value[place]) for place in places] for name, value in values.items()},
        }
