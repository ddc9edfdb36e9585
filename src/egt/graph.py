"""`Graph`: one graph as arrays, frozen and validated once. Every field's shape is documented here and only here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from egt.errors import GraphError

IntArray = NDArray[np.int64]

FloatArray = NDArray[np.float32]

TargetArray = NDArray[np.float64]

Level = Literal["graph", "node", "edge", "link", "pair"]
"""What a target or a feature belongs to; links are predicted for pairs of nodes, most of which are no edges.

Targets of pairs are matrices: a number or a class for every pair of nodes, edge or not.
"""

UNKNOWN = -1  # the category id of a value that the vocabulary does not hold; it contributes nothing to an embedding
DENSE_FEATURES = ("pair_categories", "pair_values", "positions")
"""What is known of all pairs of nodes, edges or not; each is None where nothing is."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Graph:
    """One graph: nodes, directed edges, their features, and the targets to be learned.

    An undirected edge is stored as its two directions (`Graph.undirected` does it for you). There are no parallel
    edges. Features that are left out have width 0. N is the number of nodes, E of directed edges, R of query pairs.

    Fields:
        num_nodes: N, at least 1.
        edge_index: (2, E) source i (row 0) and target j (row 1) of each edge; `A[i, j] = 1` for each column.
        node_categories: (N, F) categorical node features, ids from 0; `UNKNOWN` where the category was never seen.
        node_values: (N, F) continuous node features.
        edge_categories: (E, F) categorical edge features, aligned with `edge_index`.
        edge_values: (E, F) continuous edge features, aligned with `edge_index`.
        graph_values: (F,) continuous features of the whole graph: conditions, descriptors.
        pair_categories: (N, N, F) categorical features of every pair, `[i, j]` of i -> j; `UNKNOWN` where missing.
        pair_values: (N, N, F) continuous features of every pair, whether an edge or not; NaN where missing. A matrix
            (N, N) is one feature. It may be symmetric or not. None where pairs have no features.
        positions: (N, D) where each node is, in D = 2 or 3 dimensions, or (N, C, D) in each of C conformers; NaN where
            that is not known. None where nodes are nowhere.
        edge_weight: (E,) weights of the edges, or None for an unweighted graph.
        graph_targets: (T,) targets of the whole graph; NaN marks a missing label; classes are stored as 0.0, 1.0, ...
        node_targets: (N, T) targets of the nodes; NaN marks a node that is not scored.
        edge_targets: (E, T) targets of the edges, or (R, T) of the pairs in `query_index` when that is given.
        query_index: (2, R) node pairs that are asked about (link prediction), or None: the edges themselves.
        ranks: (N,) a numbering of the nodes that stays the same however the graph is written down, each of 0..N-1 once.
            Encodings whose basis would follow the order of the nodes are computed in it. None where none is known.
        known_labels: (N,) the class of each node whose class a model may read, from 0; `UNKNOWN` for others. None where
            none is known.
        id: a name for messages and predictions, unique in its data set.
    """

    num_nodes: int
    edge_index: IntArray
    node_categories: IntArray = None  # type: ignore[assignment]
    node_values: FloatArray = None  # type: ignore[assignment]
    edge_categories: IntArray = None  # type: ignore[assignment]
    edge_values: FloatArray = None  # type: ignore[assignment]
    graph_values: FloatArray = None  # type: ignore[assignment]
    pair_categories: IntArray | None = None
    pair_values: FloatArray | None = None
    positions: FloatArray | None = None
    edge_weight: FloatArray | None = None
    graph_targets: TargetArray | None = None
    node_targets: TargetArray | None = None
    edge_targets: TargetArray | None = None
    query_index: IntArray | None = None
    ranks: IntArray | None = None
    known_labels: IntArray | None = None
    id: str = ""

    if TYPE_CHECKING:  # what may be given is wider than what is kept: anything that `__post_init__` can turn into it

        def __init__(
            self,
            *,
            num_nodes: int,
            edge_index: ArrayLike,
            node_categories: ArrayLike | None = None,
            node_values: ArrayLike | None = None,
            edge_categories: ArrayLike | None = None,
            edge_values: ArrayLike | None = None,
            graph_values: ArrayLike | None = None,
            pair_categories: ArrayLike | None = None,
            pair_values: ArrayLike | None = None,
            positions: ArrayLike | None = None,
            edge_weight: ArrayLike | None = None,
            graph_targets: ArrayLike | None = None,
            node_targets: ArrayLike | None = None,
            edge_targets: ArrayLike | None = None,
            query_index: ArrayLike | None = None,
            ranks: ArrayLike | None = None,
            known_labels: ArrayLike | None = None,
            id: str = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        where = f"graph {self.id!r}" if self.id else "graph"
        if not isinstance(self.num_nodes, int | np.integer) or isinstance(self.num_nodes, bool) or self.num_nodes < 1:
            raise GraphError(f"{where}: num_nodes is {self.num_nodes!r}; a graph needs at least one node")
        num_nodes = int(self.num_nodes)
        edge_index = _pairs(self.edge_index, num_nodes, f"{where}: edge_index")
        num_edges = edge_index.shape[1]
        _refuse_parallel(edge_index, num_nodes, where)
        query_index = None if self.query_index is None else _pairs(self.query_index, num_nodes, f"{where}: query_index")
        num_queries = num_edges if query_index is None else query_index.shape[1]

        values: dict[str, Any] = {
            "num_nodes": num_nodes,
            "edge_index": edge_index,
            "query_index": query_index,
            "node_categories": _categories(self.node_categories, num_nodes, f"{where}: node_categories"),
            "edge_categories": _categories(self.edge_categories, num_edges, f"{where}: edge_categories"),
            "node_values": _values(self.node_values, num_nodes, f"{where}: node_values"),
            "edge_values": _values(self.edge_values, num_edges, f"{where}: edge_values"),
            "graph_values": _graph_values(self.graph_values, f"{where}: graph_values"),
            "pair_categories": _pair_categories(self.pair_categories, num_nodes, f"{where}: pair_categories"),
            "pair_values": _pair_values(self.pair_values, num_nodes, f"{where}: pair_values"),
            "positions": _positions(self.positions, num_nodes, f"{where}: positions"),
            "edge_weight": _weight(self.edge_weight, num_edges, f"{where}: edge_weight"),
            "graph_targets": target_array(self.graph_targets, None, f"{where}: graph_targets"),
            "node_targets": target_array(self.node_targets, num_nodes, f"{where}: node_targets"),
            "edge_targets": target_array(self.edge_targets, num_queries, f"{where}: edge_targets"),
            "ranks": None if self.ranks is None else _permutation(self.ranks, num_nodes, f"{where}: ranks"),
            "known_labels": _labels(self.known_labels, num_nodes, f"{where}: known_labels"),
        }
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                value = value.view()
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    @property
    def num_edges(self) -> int:
        """E, the number of directed edges."""
        return int(self.edge_index.shape[1])

    @property
    def is_symmetric(self) -> bool:
        """True when every edge has its opposite with the same weight: the adjacency matrix is symmetric."""
        i, j = self.edge_index
        weight = np.ones(self.num_edges, np.float32) if self.edge_weight is None else self.edge_weight
        forward, backward = i * self.num_nodes + j, j * self.num_nodes + i
        order, opposite = np.argsort(forward), np.argsort(backward)
        return bool(
            np.array_equal(forward[order], backward[opposite]) and np.array_equal(weight[order], weight[opposite])
        )

    @property
    def listed_pairs(self) -> IntArray:
        """(2, P) what a list of edges holds: edges, each node with itself, and query pairs; once each, sorted."""
        own = np.arange(self.num_nodes) * (self.num_nodes + 1)
        asked = [] if self.query_index is None else [self.query_index]
        codes = [index[0] * self.num_nodes + index[1] for index in (self.edge_index, *asked)]
        every = np.sort(np.concatenate([own, *codes]))  # `np.unique` takes ten times as long for millions
        once = np.concatenate([[True], every[1:] != every[:-1]])
        return np.stack(np.divmod(every[once], self.num_nodes))

    @classmethod
    def undirected(cls, *, num_nodes: int, edge_index: ArrayLike, **fields: Any) -> Graph:
        """Return a graph from undirected edges, each given once: both directions are stored with the same features.

        Arguments are those of `Graph`; `edge_*` fields have one row per undirected edge. The opposite of edge k is
        stored at row k + (number of edges that are not self-loops before it), behind all given edges.
        """
        edges = _pairs(edge_index, num_nodes, "edge_index")
        both = np.flatnonzero(edges[0] != edges[1])
        for name in ("edge_categories", "edge_values", "edge_weight", "edge_targets"):
            if fields.get(name) is not None and not (name == "edge_targets" and fields.get("query_index") is not None):
                rows = np.asarray(fields[name])
                if len(rows) != edges.shape[1]:
                    raise GraphError(f"{name} has {len(rows)} rows for {edges.shape[1]} edges; give one row per edge")
                fields[name] = np.concatenate([rows, rows[both]])
        return cls(num_nodes=num_nodes, edge_index=np.concatenate([edges, edges[::-1, both]], axis=1), **fields)

    @classmethod
    def trusted(cls, **fields: Any) -> Graph:
        """Return a graph from arrays that are valid and read-only already: all fields are given, nothing is checked."""
        graph = object.__new__(cls)
        graph.__dict__.update(fields)
        return graph

    def adjacency(self, *, weighted: bool = False, self_loops: bool = True) -> NDArray[np.float64]:
        """Return the dense adjacency matrix (N, N), with `A[i, j]` for the edge i -> j.

        Entries are 1 or, if `weighted`, the edge weights; `self_loops` sets the diagonal to 1 (never 2).
        """
        matrix = np.zeros((self.num_nodes, self.num_nodes))
        i, j = self.edge_index
        matrix[i, j] = self.edge_weight if weighted and self.edge_weight is not None else 1.0
        if self_loops:
            np.fill_diagonal(matrix, 1.0)
        return matrix

    def permuted(self, permutation: ArrayLike) -> Graph:
        """Return the same graph with its nodes renumbered: new node k is old node `permutation[k]`."""
        order = _permutation(permutation, self.num_nodes, "permutation")
        new_of_old = np.argsort(order)
        return replace(
            self,
            edge_index=new_of_old[self.edge_index],
            node_categories=self.node_categories[order],
            node_values=self.node_values[order],
            **self.dense_features(order),
            node_targets=None if self.node_targets is None else self.node_targets[order],
            query_index=None if self.query_index is None else new_of_old[self.query_index],
            ranks=None if self.ranks is None else self.ranks[order],
            known_labels=None if self.known_labels is None else self.known_labels[order],
        )

    def dense_features(self, nodes: IntArray) -> dict[str, Any]:
        """Return the features of pairs and the positions of some nodes (n,), by field; None for what there is none."""
        return {
            "pair_categories": None if self.pair_categories is None else self.pair_categories[np.ix_(nodes, nodes)],
            "pair_values": None if self.pair_values is None else self.pair_values[np.ix_(nodes, nodes)],
            "positions": None if self.positions is None else self.positions[nodes],
        }

    def in_rank_order(self) -> Graph:
        """Return the structure alone, numbered by `ranks`: row k of `ranks` is where node k has gone."""
        if self.ranks is None:
            return self
        is_sparse = all(getattr(self, name) is None for name in DENSE_FEATURES)
        return Graph.trusted(
            num_nodes=self.num_nodes,
            edge_index=self.ranks[self.edge_index],
            edge_weight=self.edge_weight,
            **({} if is_sparse else self.dense_features(np.argsort(self.ranks))),
        )


@dataclass(frozen=True)
class FeatureSchema:
    """The features that every graph of a data set has: vocabulary sizes and numbers of continuous columns."""

    node_categories: tuple[int, ...] = ()
    num_node_values: int = 0
    edge_categories: tuple[int, ...] = ()
    num_edge_values: int = 0
    num_graph_values: int = 0
    pair_categories: tuple[int, ...] = ()
    num_pair_values: int = 0
    positions: tuple[int, ...] = ()
    """(D,) or (C, D), the shape of the place of a node; () for none."""
    known_labels: int = 0
    """How many classes the labels have that are read; 0 where none are."""

    def draw_features(self, num_nodes: int, num_edges: int, random: np.random.Generator) -> dict[str, Any]:
        """Return random features of a graph of so many nodes and edges, by field of `Graph`."""

        def ids(sizes: tuple[int, ...], *rows: int) -> IntArray:
            columns = [random.integers(0, max(size, 1), rows) for size in sizes]
            return np.stack(columns, axis=-1) if columns else np.zeros((*rows, 0), np.int64)

        pairs = (num_nodes, num_nodes)
        fields: dict[str, Any] = {
            "node_categories": ids(self.node_categories, num_nodes),
            "node_values": random.normal(size=(num_nodes, self.num_node_values)),
            "edge_categories": ids(self.edge_categories, num_edges),
            "edge_values": random.normal(size=(num_edges, self.num_edge_values)),
            "graph_values": random.normal(size=self.num_graph_values),
        }
        if self.pair_categories:
            fields["pair_categories"] = ids(self.pair_categories, *pairs)
        if self.num_pair_values:
            fields["pair_values"] = random.normal(size=(*pairs, self.num_pair_values))
        if self.positions:
            fields["positions"] = random.normal(size=(num_nodes, *self.positions))
        if self.known_labels:
            fields["known_labels"] = random.integers(UNKNOWN, self.known_labels, num_nodes)
        return fields

    def check(self, graph: Graph) -> None:
        """Raise a `GraphError` unless the graph has these features with ids inside their vocabularies."""
        where = f"graph {graph.id!r}" if graph.id else "graph"
        for level in ("node", "edge", "pair"):
            self._check_ids(f"{where}: {level}_categories", getattr(graph, f"{level}_categories"), level)
        for level in ("node", "edge", "pair", "graph"):
            values, expected = getattr(graph, f"{level}_values"), getattr(self, f"num_{level}_values")
            given = 0 if values is None else values.shape[-1]
            if given != expected:
                raise GraphError(f"{where}: {level}_values has {given} columns, the model reads {expected}")
        place = () if graph.positions is None else graph.positions.shape[1:]
        if place != self.positions:
            raise GraphError(
                f"{where}: positions are {_place_text(place)} for each node, "
                f"the model reads {_place_text(self.positions)}"
            )
        labels = graph.known_labels
        if self.known_labels and (labels is None or labels.max() >= self.known_labels):
            there = "none is given" if labels is None else f"there is class {labels.max()}"
            raise GraphError(
                f"{where}: the model reads which labels of neighbors are known, of {self.known_labels} classes, and "
                f"{there}; keep the target column of the training data, empty where a label is not known"
            )

    def _check_ids(self, where: str, ids: IntArray | None, level: str) -> None:
        sizes: tuple[int, ...] = getattr(self, f"{level}_categories")
        given = 0 if ids is None else ids.shape[-1]
        if given != len(sizes):
            raise GraphError(f"{where} has {given} columns, the model reads {len(sizes)}")
        if ids is not None and (over := ids >= _as_row(sizes)).any():
            place = tuple(np.argwhere(over)[0].tolist())
            raise GraphError(
                f"{where}{list(place)} is {ids[place]}; the vocabulary has ids 0..{sizes[place[-1]] - 1} "
                f"(use {UNKNOWN} for a category that was never seen)"
            )


def _place_text(shape: tuple[int, ...]) -> str:
    return f"{' x '.join(map(str, shape))} coordinates" if shape else "no coordinates"


@lru_cache(maxsize=64)
def _as_row(sizes: tuple[int, ...]) -> IntArray:
    return np.array(sizes, dtype=np.int64)


def _pairs(given: ArrayLike, num_nodes: int, where: str) -> IntArray:
    pairs = np.asarray(given)
    if pairs.size == 0:
        return np.zeros((2, 0), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise GraphError(f"{where} has shape {pairs.shape}; it must be (2, E): row 0 sources, row 1 targets")
    if not np.issubdtype(pairs.dtype, np.integer):
        raise GraphError(f"{where} holds {pairs.dtype}; node numbers must be integers")
    pairs = pairs.astype(np.int64)
    if pairs.min() < 0 or pairs.max() >= num_nodes:
        bad = int(pairs.min()) if pairs.min() < 0 else int(pairs.max())
        raise GraphError(f"{where} names node {bad}, but nodes are numbered 0..{num_nodes - 1}")
    return np.ascontiguousarray(pairs)


def _permutation(given: ArrayLike, num_nodes: int, where: str) -> IntArray:
    order = np.asarray(given, dtype=np.int64)
    if not np.array_equal(np.sort(order, axis=None), np.arange(num_nodes)):
        raise GraphError(f"{where} must hold each of 0..{num_nodes - 1} once")
    return order


def _refuse_parallel(edge_index: IntArray, num_nodes: int, where: str) -> None:
    keys = np.sort(edge_index[0] * num_nodes + edge_index[1])
    repeated = keys[1:][keys[1:] == keys[:-1]]
    if len(repeated):
        i, j = divmod(int(repeated[0]), num_nodes)
        raise GraphError(f"{where}: edge {i} -> {j} is given more than once; merge parallel edges first")


def _rows(given: ArrayLike | None, num_rows: int, where: str) -> NDArray[Any]:
    if given is None:
        return np.zeros((num_rows, 0))
    rows = np.asarray(given)
    if rows.ndim == 1:
        rows = rows.reshape(-1, 1)
    if rows.ndim != 2 or rows.shape[0] != num_rows:
        raise GraphError(f"{where} has shape {np.shape(given)}; it must be ({num_rows}, number of columns)")
    return rows


def _categories(given: ArrayLike | None, num_rows: int, where: str) -> IntArray:
    rows = _rows(given, num_rows, where)
    if rows.size and not np.issubdtype(rows.dtype, np.integer):
        raise GraphError(f"{where} holds {rows.dtype}; category ids must be integers")
    ids = np.ascontiguousarray(rows, dtype=np.int64)
    if ids.size and ids.min() < UNKNOWN:
        raise GraphError(f"{where} holds {int(ids.min())}; ids start at 0 ({UNKNOWN} marks an unknown category)")
    return ids


def _numbers(given: ArrayLike, dtype: type[np.floating[Any]], where: str) -> NDArray[Any]:
    try:
        return np.ascontiguousarray(given, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise GraphError(f"{where} cannot be read as numbers: {error}") from error


def _values(given: ArrayLike | None, num_rows: int, where: str) -> FloatArray:
    values = _numbers(_rows(given, num_rows, where), np.float32, where)
    if not np.isfinite(values).all():
        row, column = (int(k) for k in np.argwhere(~np.isfinite(values))[0])
        raise GraphError(
            f"{where}[{row}, {column}] is {values[row, column]}; features must be finite, fill it in first"
        )
    return values


def _graph_values(given: ArrayLike | None, where: str) -> FloatArray:
    row = np.asarray([] if given is None else given)
    if row.ndim > 1:
        raise GraphError(f"{where} has shape {row.shape}; it must be (F,), one number per feature")
    return _values(row.reshape(1, -1), 1, where).reshape(-1)


def _pair_rows(given: ArrayLike, num_nodes: int, where: str) -> NDArray[Any]:
    rows = np.asarray(given)
    rows = rows[:, :, None] if rows.ndim == 2 else rows
    if rows.ndim != 3 or rows.shape[:2] != (num_nodes, num_nodes):
        raise GraphError(
            f"{where} has shape {np.shape(given)}; it must be ({num_nodes}, {num_nodes}), a matrix with an entry for "
            f"each pair of nodes, or ({num_nodes}, {num_nodes}, number of features)"
        )
    return rows


def _pair_categories(given: ArrayLike | None, num_nodes: int, where: str) -> IntArray | None:
    if given is None:
        return None
    rows = _pair_rows(given, num_nodes, where)
    return _categories(rows.reshape(-1, rows.shape[-1]), num_nodes**2, where).reshape(rows.shape)


def _pair_values(given: ArrayLike | None, num_nodes: int, where: str) -> FloatArray | None:
    return None if given is None else _known(_numbers(_pair_rows(given, num_nodes, where), np.float32, where), where)


def _positions(given: ArrayLike | None, num_nodes: int, where: str) -> FloatArray | None:
    if given is None:
        return None
    places = _numbers(given, np.float32, where)
    if places.ndim not in (2, 3) or len(places) != num_nodes or places.shape[-1] not in (2, 3) or 0 in places.shape:
        raise GraphError(
            f"{where} has shape {places.shape}; it must be ({num_nodes}, 2 or 3), a place for each node, or "
            f"({num_nodes}, conformers, 2 or 3)"
        )
    return _known(places, where)


def _known(values: FloatArray, where: str) -> FloatArray:
    """Return numbers of which some may be missing, NaN, but none infinite."""
    if np.isinf(values).any():
        at = ", ".join(str(int(k)) for k in np.argwhere(np.isinf(values))[0])
        raise GraphError(f"{where}[{at}] is infinite; give a finite number, or NaN where it is missing")
    return values


def _labels(given: ArrayLike | None, num_nodes: int, where: str) -> IntArray | None:
    return None if given is None else _categories(np.asarray(given).reshape(-1, 1), num_nodes, where)[:, 0]


def _weight(given: ArrayLike | None, num_edges: int, where: str) -> FloatArray | None:
    if given is None:
        return None
    weight = np.asarray(given)
    if weight.shape != (num_edges,):
        raise GraphError(f"{where} has shape {weight.shape}; it must be ({num_edges},), one weight per edge")
    return _values(weight, num_edges, where).reshape(-1)


def target_array(given: ArrayLike | None, num_rows: int | None, where: str) -> TargetArray | None:
    """Targets (T,), or (num_rows, T), as they are kept; raises a `GraphError` unless they are numbers or NaN."""
    if given is None:
        return None
    targets = _numbers(given, np.float64, where)
    if num_rows is not None:
        targets = np.ascontiguousarray(_rows(targets, num_rows, where))
    elif targets.ndim > 1:
        raise GraphError(f"{where} has shape {targets.shape}; it must be (T,), one number per target")
    if np.isinf(targets).any():
        raise GraphError(f"{where} holds an infinite number; targets must be finite, or NaN where a label is missing")
    return targets
