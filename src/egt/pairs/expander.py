"""Random links that bring any two nodes within a few steps of each other.

A union of random cycles through all nodes is a regular graph whose random walks mix fast, with high probability.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from egt.graph import Graph, IntArray
from egt.inputs.input import PairChoice
from egt.pairs.all import all_pairs
from egt.parts import register

Bits = NDArray[np.uint64]


@register
class Expander(PairChoice):
    """`degree` / 2 random cycles through all nodes, in both directions; all pairs where there are no more than that.

    The cycles depend on the content of the graph alone: they are the same in every epoch and process, and follow the
    nodes when these are renumbered, as far as features and degrees tell nodes apart.
    """

    kind: Literal["expander"] = "expander"
    degree: Annotated[int, Field(ge=2, multiple_of=2)] = 10

    @property
    def types(self) -> tuple[str, ...]:
        """See `Choice.types`."""
        return ("expander",)

    def choose(self, graph: Graph) -> tuple[IntArray, ...]:
        """See `Choice.choose`."""
        if graph.num_nodes <= self.degree + 1:
            return (all_pairs(graph.num_nodes),)
        nodes = _node_bits(graph)
        cycles = [np.argsort(_mixed(nodes + _mixed(np.uint64(number)))) for number in range(self.degree // 2)]
        forward = np.concatenate([np.stack([cycle, np.roll(cycle, -1)]) for cycle in cycles], axis=1)
        return (np.concatenate([forward, forward[::-1]], axis=1),)


def _node_bits(graph: Graph) -> Bits:
    """Return (N,) different random bits of the nodes: from a node's content, and its place among equal ones."""
    degrees = [np.bincount(ends, minlength=graph.num_nodes) for ends in graph.edge_index]
    values = np.ascontiguousarray(graph.node_values, np.float32).view(np.uint32)
    bits = np.zeros(graph.num_nodes, np.uint64)
    for column in (*graph.node_categories.T, *values.T, *degrees):
        bits = _mixed(bits + column.astype(np.uint64))
    bits = _mixed(bits + bits.sum())  # nodes of other graphs are others
    order = np.argsort(bits, kind="stable")
    ordered = bits[order]
    place = np.empty_like(order)
    place[order] = np.arange(graph.num_nodes) - np.searchsorted(ordered, ordered)
    return _mixed(bits + place.astype(np.uint64))


def _mixed(bits: Bits | np.uint64) -> Bits:
    """Return the finalizer of SplitMix64: bits that look random, another number for each number."""
    with np.errstate(over="ignore"):
        x = np.asarray(bits) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
