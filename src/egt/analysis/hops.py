"""How far nodes look: attention by the number of hops between who looks and who is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from egt.analysis.numbers import Columns
from egt.encodings.distances import LARGEST_MAX_HOPS, ShortestPaths
from egt.graph import IntArray
from egt.inference.attention_capture import Attention

UNREACHABLE = LARGEST_MAX_HOPS + 1
TO_VIRTUAL, FROM_VIRTUAL = UNREACHABLE + 1, UNREACHABLE + 2
_CODES = FROM_VIRTUAL + 1
_NAMES = {UNREACHABLE: "unreachable", TO_VIRTUAL: "to virtual", FROM_VIRTUAL: "from virtual"}
Floats = NDArray[np.float64]


def pair_hops(found: Attention) -> IntArray:
    """Return the hops of each pair, (P,), along edges from i to j; one of the codes above where there are none."""
    pairs = found.pair_index - found.num_virtual
    i, j = pairs
    paths, real = ShortestPaths(LARGEST_MAX_HOPS), (i >= 0) & (j >= 0)
    hops: IntArray = np.where(i < 0, FROM_VIRTUAL, TO_VIRTUAL)
    if len(i) < found.num_nodes**2:  # a list of pairs, of a graph that may be too large for a matrix
        hops[real] = paths.at(found.graph, pairs[:, real])
    else:
        hops[real] = paths(found.graph)[i[real], j[real]]
    return hops


@dataclass(eq=False)
class HopProfile:
    """Sums over all nodes of all graphs, from which the profile is made.

    Fields:
        softmax: (L, H, codes) sum of the softmax over all pairs at a hop.
        product: (L, H, codes) the same of A_tilde.
        even: (codes) the same if every node looked at all nodes alike.
        nodes: number of nodes i that look, virtual ones left out.
        virtual: number of virtual ones.
    """

    softmax: Floats
    product: Floats
    even: Floats
    nodes: int = 0
    virtual: int = 0

    @classmethod
    def empty(cls, num_layers: int, num_heads: int) -> HopProfile:
        """Return the profile of no graph."""
        shape = num_layers, num_heads, _CODES
        return cls(np.zeros(shape), np.zeros(shape), np.zeros(_CODES))

    def add(self, found: Attention, hops: IntArray) -> None:
        """Add a graph; `hops` are its `pair_hops`."""
        codes, place = np.unique(hops, return_inverse=True)
        of_code = np.equal.outer(place, np.arange(len(codes))).astype(np.float32)  # (P, codes)
        self.softmax[..., codes] += found.softmax @ of_code
        self.product[..., codes] += found.product @ of_code
        keys = np.bincount(found.pair_index[0], minlength=found.num_nodes)[found.pair_index[0]]
        self.even[codes] += (1 / keys) @ of_code
        self.nodes += found.graph.num_nodes
        self.virtual += found.num_virtual

    @cached_property
    def codes(self) -> list[int]:
        """The hops that occur, in order."""
        return np.flatnonzero(self.even).tolist()

    @property
    def hops(self) -> list[int]:
        """The numbers of hops that occur."""
        return [code for code in self.codes if code < UNREACHABLE]

    def mean(self, sums: Floats) -> Floats:
        """Return the sum over nodes j at each hop, (..., codes), averaged over the nodes i that look."""
        lookers = np.full(_CODES, max(self.nodes, 1))
        lookers[FROM_VIRTUAL] = max(self.virtual, 1)
        found: Floats = sums / lookers
        return found

    def reach(self, sums: Floats) -> Floats:
        """Return the mean number of hops of the weight that goes to nodes within reach. sums: (..., codes)."""
        within = sums[..., self.hops]
        total: Floats = within.sum(-1)
        reached: Floats = within @ np.array(self.hops, np.float64) / np.where(total > 0, total, 1.0)
        return reached

    def within(self, sums: Floats, hops: int) -> Floats:
        """Return the share of the weight to nodes within reach that goes at most so many hops. sums: (..., codes)."""
        total = sums[..., self.hops].sum(-1)
        near: Floats = sums[..., [hop for hop in self.hops if hop <= hops]].sum(-1)
        return near / np.where(total > 0, total, 1.0)

    def columns(self, layers: tuple[int, ...]) -> Columns:
        """Return the profile as a table: a row for each layer and hop, layers from 1."""
        rows = [(number, code) for number in range(len(layers)) for code in self.codes]
        product, softmax = self.mean(self.product.mean(1)), self.mean(self.softmax.mean(1))
        even = self.mean(self.even)
        return {
            "layer": [layers[number] + 1 for number, _ in rows],
            "hop": [_NAMES.get(code, str(code)) for _, code in rows],
            "product": [float(product[row]) for row in rows],
            "softmax": [float(softmax[row]) for row in rows],
            "even": [float(even[code]) for _, code in rows],
        }
