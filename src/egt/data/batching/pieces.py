"""Large graphs in pieces: some nodes (or edges, or pairs) that are asked about, and a neighborhood drawn around them.

A piece is a graph of its own: the nodes that were drawn, every edge between them, and the rows that they have in the
encodings of the whole graph. Labels are those of the rows that the piece asks about, so over all pieces each label
counts once. With all neighbors of enough hops a piece is the whole graph, array by array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from egt.data.batching.loader import permutation
from egt.data.encodings.encoding import Array, LabelsAround, Sample, neighbors_of
from egt.data.encodings.loops import draw_neighborhood, inner_pairs
from egt.data.source import OnDemand
from egt.graph import UNKNOWN, Graph, IntArray

ALL = -1  # the limit of a hop that takes every neighbor
RootLevel = Literal["node", "edge"]


@dataclass(frozen=True, eq=False)
class Asked:
    """What a piece is asked about."""

    graph: int  # the number of the whole graph
    rows: IntArray  # (R,) nodes, edges or query pairs of that graph
    places: IntArray  # (R,) where the output for the piece has them
    num_rows: int  # of that output


class Pieces(OnDemand[Sample]):
    """Prepared graphs cut into pieces, each made when it is asked for; the same piece at every time.

    Args:
        whole: the graphs, prepared for the edge-list layout.
        roots: how many nodes, edges or query pairs a piece is asked about.
        neighbors: for each hop, how many neighbors of a node come along; None for all. None alone is the
            whole graph.
        every: ask about every row, and not only about those that have labels (if there are any).
        labels: the encoding of known labels, if the model reads it: a piece is then asked about rows of one part of
            the labels, which is hidden from it, or about rows without a known label.

    Attributes:
        sizes: (pieces,) the most nodes that each piece can have.
    """

    def __init__(
        self,
        whole: Sequence[Sample],
        level: RootLevel,
        roots: int,
        neighbors: Sequence[int | None] | None,
        *,
        seed: int = 0,
        every: bool = False,
        labels: LabelsAround | None = None,
    ) -> None:
        self.level, self.roots, self.seed = level, roots, seed
        self.limits = None if neighbors is None else np.array([ALL if k is None else k for k in neighbors], np.int64)
        self.epoch: int | None = None
        self._graphs = [_Whole(sample, level, labels, seed) for sample in whole]
        rows = [graph.labeled_rows() for graph in self._graphs]
        if every or not any(map(len, rows)):
            rows = [np.arange(graph.num_rows) for graph in self._graphs]
        sets = [
            (number, part, some) for number, graph in enumerate(self._graphs) for part, some in graph.sets(rows[number])
        ]
        self._sets = [(number, part) for number, part, _ in sets]
        self._in_order = self._rows = [some for *_, some in sets]
        self._starts = [(k, start) for k, some in enumerate(self._rows) for start in range(0, len(some), roots)]
        self.sizes = np.array([self._most_nodes(self._sets[k][0]) for k, _ in self._starts], np.int64)

    def in_epoch(self, epoch: int) -> Pieces:
        """Return other pieces of the same graphs, those of an epoch: other roots together, other neighbors."""
        pieces = copy(self)
        pieces.epoch = epoch
        pieces._rows = [
            rows[permutation(len(rows), self.seed, epoch, number)] for number, rows in enumerate(self._in_order)
        ]
        return pieces

    def __len__(self) -> int:
        return len(self._starts)

    def item(self, index: int) -> Sample:
        """Return a piece."""
        number, part, rows = self._asked(index)
        return self._graphs[number].cut(self._nodes(index), rows, part)

    def asked(self, index: int) -> Asked:
        """Return what a piece is asked about."""
        number, _, rows = self._asked(index)
        return Asked(number, rows, *self._graphs[number].places(self._nodes(index), rows))

    def _asked(self, index: int) -> tuple[int, int, IntArray]:
        """Return the number of the graph, the part of its labels that is hidden, and what is asked about."""
        number, start = self._starts[index]
        return *self._sets[number], np.sort(self._rows[number][start : start + self.roots])

    def _nodes(self, index: int) -> IntArray:
        """(n,) the nodes of a piece, sorted."""
        number, _, rows = self._asked(index)
        if self.limits is None:
            return np.arange(self._graphs[number].num_nodes)
        key = np.random.SeedSequence((self.seed, 0 if self.epoch is None else self.epoch + 1, index))
        graph = self._graphs[number]
        seed = int(key.generate_state(1, np.uint64)[0])
        return draw_neighborhood(graph.start, graph.keys, graph.ends(rows), self.limits, seed)

    def _most_nodes(self, number: int) -> int:
        if self.limits is None:
            return self._graphs[number].num_nodes
        most, new = 0, self.roots * (1 if self.level == "node" else 2)
        for limit in (0, *self.limits.tolist()):
            new = self._graphs[number].num_nodes if limit == ALL else new * max(limit, 1)
            most += new
        return min(most, self._graphs[number].num_nodes)


class _Whole:
    """One whole graph with its encodings, and where its pairs are."""

    def __init__(self, sample: Sample, level: RootLevel, labels: LabelsAround | None, seed: int) -> None:
        self.sample, self.level, self.labels, self.seed = sample, level, labels, seed
        self.num_nodes = sample.graph.num_nodes
        self._without: dict[int, Array] = {}

    def sets(self, rows: IntArray) -> list[tuple[int, IntArray]]:
        """Return rows that can be asked about together, with the part of the labels that is hidden then."""
        if self.labels is None:
            return [(UNKNOWN, rows)]
        parts = self._parts[rows]
        return [(part, rows[parts == part]) for part in np.unique(parts).tolist()]

    @cached_property
    def _parts(self) -> IntArray:
        """(N,) the part of each known label."""
        assert self.labels is not None
        return self.labels.parts(self.sample.graph, self.seed)

    @cached_property
    def _neighbors(self) -> Any:
        return neighbors_of(self.sample.graph)

    def encodings(self, part: int) -> Mapping[str, Array]:
        """Return the encodings of all nodes while a part of the labels is hidden."""
        if self.labels is None or part == UNKNOWN:
            return self.sample.node
        if part not in self._without:
            self._without[part] = self.labels.without(self.sample.graph, self._parts == part, self._neighbors)
        return {**self.sample.node, self.labels.name: self._without[part]}

    @cached_property
    def _pairs(self) -> IntArray:
        return self.sample.listed_pairs

    @cached_property
    def start(self) -> IntArray:
        """(N + 1,) where the pairs of each node begin."""
        return np.searchsorted(self._pairs[0], np.arange(self.num_nodes + 1))

    @cached_property
    def keys(self) -> IntArray:
        """(P,) the second node of each pair."""
        return np.ascontiguousarray(self._pairs[1])

    @cached_property
    def _edge_of_pair(self) -> IntArray:
        """(P,) the number of the edge that a pair is, -1 for none."""
        edges = np.full(self._pairs.shape[1], -1)
        edges[self._row_of(self.sample.graph.edge_index)] = np.arange(self.sample.graph.num_edges)
        return edges

    @cached_property
    def _pair_of_query(self) -> IntArray | None:
        """(R,) the row of each query pair."""
        index = self.sample.graph.query_index
        return None if index is None else self._row_of(index)

    @cached_property
    def _is_query_alone(self) -> Array:
        """(P,) whether a pair is listed only because it is asked about."""
        alone = np.zeros(self._pairs.shape[1], bool)
        if self._pair_of_query is not None:
            alone[self._pair_of_query] = True
            alone &= (self._edge_of_pair < 0) & (self._pairs[0] != self._pairs[1])
            if (chosen := self.sample.listed.get("pairs")) is not None:
                alone &= chosen[:, 2] == 0
        return alone

    def _row_of(self, index: IntArray) -> IntArray:
        """Return the rows of listed pairs (2, R)."""
        listed, asked = (pairs[0] * self.num_nodes + pairs[1] for pairs in (self._pairs, index))
        order = np.argsort(asked)  # a search for sorted numbers is several times as fast
        rows = np.empty_like(order)
        rows[order] = np.searchsorted(listed, asked[order])
        return rows

    def labeled_rows(self) -> IntArray:
        """Return the nodes, edges or query pairs that have a label."""
        targets = self._targets
        return np.zeros(0, np.int64) if targets is None else np.flatnonzero(~np.isnan(targets).all(axis=1))

    @property
    def num_rows(self) -> int:
        """How many nodes, edges or query pairs there are."""
        return self.num_nodes if self.level == "node" else int(self._asked_pairs.shape[1])

    @property
    def _asked_pairs(self) -> IntArray:
        graph = self.sample.graph
        return graph.edge_index if graph.query_index is None else graph.query_index

    @property
    def _targets(self) -> Array | None:
        graph = self.sample.graph
        return graph.node_targets if self.level == "node" else graph.edge_targets

    def ends(self, rows: IntArray) -> IntArray:
        """Return the nodes of what is asked about."""
        return rows if self.level == "node" else np.unique(self._asked_pairs[:, rows])

    def places(self, nodes: IntArray, rows: IntArray) -> tuple[IntArray, int]:
        """Return where the output for a piece has the rows that are asked about, and how many rows it has."""
        if self.level == "node":
            return np.searchsorted(nodes, rows), len(nodes)
        if self._pair_of_query is not None:
            return np.arange(len(rows)), len(rows)
        edges = self._edges(inner_pairs(self.start, self.keys, nodes))
        return np.searchsorted(edges, rows), len(edges)

    def _edges(self, pairs: IntArray) -> IntArray:
        """Return the numbers of the edges among some pairs, in the order of the graph."""
        edges = self._edge_of_pair[pairs]
        return np.sort(edges[edges >= 0])

    def cut(self, nodes: IntArray, rows: IntArray, part: int) -> Sample:
        """Return the piece of some nodes that is asked about some rows while a part of the labels is hidden."""
        pairs = inner_pairs(self.start, self.keys, nodes)
        edges = self._edges(pairs)
        graph, queries = self.sample.graph, None
        if graph.query_index is not None and self._pair_of_query is not None:
            queries = graph.query_index[:, rows]
            pairs = np.union1d(pairs[~self._is_query_alone[pairs]], self._pair_of_query[rows])
        new = np.zeros(self.num_nodes, np.int64)  # the number of each node in the piece
        new[nodes] = np.arange(len(nodes))
        targets = self._cut_targets(nodes, rows)
        fields: dict[str, Any] = {
            "edge_index": new[graph.edge_index[:, edges]],
            "query_index": None if queries is None else new[queries],
            "edge_weight": None if graph.edge_weight is None else graph.edge_weight[edges],
            "node_targets": targets if self.level == "node" else None,
            "edge_targets": targets if self.level == "edge" else None,
            **{name: getattr(graph, name)[nodes] for name in ("node_categories", "node_values")},
            **graph.dense_features(nodes),
            "known_labels": None,  # they are in the encoding, but for those that are hidden
            **{name: getattr(graph, name)[edges] for name in ("edge_categories", "edge_values")},
        }
        piece = Graph.trusted(**{**vars(graph), "num_nodes": len(nodes), **fields})
        listed = {name: array[pairs] for name, array in self.sample.listed.items()}
        if "pairs" in listed:
            listed["pairs"][:, :2] = new[listed["pairs"][:, :2]]
        return Sample(piece, {name: array[nodes] for name, array in self.encodings(part).items()}, listed=listed)

    def _cut_targets(self, nodes: IntArray, rows: IntArray) -> Array | None:
        """Return the targets of a piece: those of the rows that are asked about, NaN elsewhere."""
        targets = self._targets
        if targets is None:
            return None
        places, num_rows = self.places(nodes, rows)
        cut = np.full((num_rows, targets.shape[1]), np.nan)
        cut[places] = targets[rows]
        return cut
