"""Which pairs of nodes a sparse model computes: all, the edges, random links (an expander), nearest neighbors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from egt.data.fingerprints import mix_bits
from egt.graph import Graph, IntArray
from egt.parts.inputs import PairChoice
from egt.registry import register

if TYPE_CHECKING:
    from egt.config.run import RunConfig

Bits = NDArray[np.uint64]


@register
class All(PairChoice):
    """Every pair of nodes."""

    kind: Literal["all"] = "all"

    @property
    def types(self) -> tuple[str, ...]:
        return ("other",)

    def choose(self, graph: Graph) -> tuple[IntArray, ...]:
        return (all_pairs(graph.num_nodes),)


def all_pairs(num_nodes: int) -> IntArray:
    """Return the pairs (2, N (N - 1)) of different nodes."""
    pairs = np.indices((num_nodes, num_nodes)).reshape(2, -1)
    return pairs[:, pairs[0] != pairs[1]]


@register
class Edges(PairChoice):
    """Every edge; with `reverse` also its opposite, where the graph has none."""

    kind: Literal["edges"] = "edges"
    reverse: bool = True

    @property
    def types(self) -> tuple[str, ...]:
        return ("edge", "reverse") if self.reverse else ("edge",)

    def choose(self, graph: Graph) -> tuple[IntArray, ...]:
        """Return edges and their opposites; both directions of an undirected edge have both types."""
        return (graph.edge_index, graph.edge_index[::-1])[: len(self.types)]


@register
class Expander(PairChoice):
    """`degree` / 2 random cycles through all nodes, in both directions; all pairs where there are no more than that.

    The union of the cycles is a regular graph that joins any two nodes within a few steps, with high probability. They
    depend on the content of the graph alone: they are the same in every epoch and process, and follow the nodes when
    these are renumbered, as far as features and degrees make nodes different.
    """

    kind: Literal["expander"] = "expander"
    degree: Annotated[int, Field(ge=2, multiple_of=2)] = 10

    @property
    def types(self) -> tuple[str, ...]:
        return ("expander",)

    def choose(self, graph: Graph) -> tuple[IntArray, ...]:
        if graph.num_nodes <= self.degree + 1:
            return (all_pairs(graph.num_nodes),)
        nodes = _node_bits(graph)
        salts = mix_bits(np.arange(self.degree // 2, dtype=np.uint64))
        cycles = [np.argsort(mix_bits(nodes + salt)) for salt in salts]
        forward = np.concatenate([np.stack([cycle, np.roll(cycle, -1)]) for cycle in cycles], axis=1)
        return (np.concatenate([forward, forward[::-1]], axis=1),)


def _node_bits(graph: Graph) -> Bits:
    """Return (N,) different random bits of the nodes: from a node's content, and its place among equal ones."""
    degrees = [np.bincount(ends, minlength=graph.num_nodes) for ends in graph.edge_index]
    values = np.ascontiguousarray(graph.node_values, np.float32).view(np.uint32)
    bits = np.zeros(graph.num_nodes, np.uint64)
    for column in (*graph.node_categories.T, *values.T, *degrees):
        bits = mix_bits(bits + column.astype(np.uint64))
    bits = mix_bits(bits + bits.sum())  # nodes of other graphs are others
    order = np.argsort(bits, kind="stable")
    ordered = bits[order]
    place = np.empty_like(order)
    place[order] = np.arange(graph.num_nodes) - np.searchsorted(ordered, ordered)
    return mix_bits(bits + place.astype(np.uint64))


@register
class Nearest(PairChoice):
    """Each node with the `k` nearest others; `columns` says which continuous node features are the coordinates."""

    kind: Literal["nearest"] = "nearest"
    k: PositiveInt = 8
    columns: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)]

    @property
    def types(self) -> tuple[str, ...]:
        return ("nearest",)

    def check(self, run: RunConfig) -> None:
        super().check(run)
        width = max(term.features().get("num_node_values", 0) for term in run.model.node_inputs)
        if max(self.columns) >= width:
            raise ValueError(
                f"model.pairs: nearest reads the columns {list(self.columns)} of node_values, and the model has "
                f"{width} of them, counted from 0; name those that hold coordinates"
            )

    def choose(self, graph: Graph) -> tuple[IntArray, ...]:
        """Return the nearest others; of nodes at the same place any may be the nearest."""
        places = graph.node_values[:, list(self.columns)]
        found = min(self.k + 1, graph.num_nodes)  # a node is mostly the nearest to itself
        _, near = scipy.spatial.KDTree(places).query(places, k=range(1, found + 1))
        own = np.arange(graph.num_nodes)
        last = np.argsort(near == own[:, None], axis=1, kind="stable")
        others = np.take_along_axis(near, last, axis=1)[:, : found - 1]
        return (np.stack([own.repeat(found - 1), others.reshape(-1)]),)


@register
class Within(PairChoice):
    """Each node with those that are at most `cutoff` away from it, by their `positions`; in any of the conformers."""

    kind: Literal["within"] = "within"
    cutoff: PositiveFloat

    @property
    def types(self) -> tuple[str, ...]:
        return ("within",)

    def check(self, run: RunConfig) -> None:
        super().check(run)
        if not any("positions" in term.features() for term in run.model.pair_inputs):
            raise ValueError("model.pairs: within reads positions; add the pair input positions to model.pair_inputs")

    def choose(self, graph: Graph) -> tuple[IntArray, ...]:
        """Return both directions of each pair; a node at an unknown place has none."""
        assert graph.positions is not None
        near = [np.zeros((0, 2), np.int64)]
        for places in graph.positions.reshape(graph.num_nodes, -1, graph.positions.shape[-1]).swapaxes(0, 1):
            known = np.flatnonzero(~np.isnan(places).any(axis=1))
            if len(known):
                tree = scipy.spatial.KDTree(places[known])
                near.append(known[tree.query_pairs(self.cutoff, output_type="ndarray")])
        pairs = np.concatenate(near).T
        return (np.concatenate([pairs, pairs[::-1]], axis=1),)
