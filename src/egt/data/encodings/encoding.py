"""The precomputed half of a model input: what it is called, whom it describes, how it is computed.

The encodings here are how many edges leave a node, how many steps it takes from one node to another (the structural
matrix of the paper), and the pairs that a sparse model has of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from egt.data.encodings.loops import hop_distances, pair_distances
from egt.errors import ConfigError, EgtError, GraphError
from egt.graph import DENSE_FEATURES, UNKNOWN, FeatureSchema, Graph, IntArray

Array = NDArray[Any]


class Encoding(Protocol):
    """A pure function of a graph. Implementations are frozen dataclasses, so equal settings are equal objects.

    `level` "node": the result is (N, width); "pair": (N, N) or (N, N, width); "listed": (P,) or (P, width), one row for
    each of the P `Sample.listed_pairs`.
    """

    @property
    def name(self) -> str:
        """The key of the result in the `Sample`; the same for every setting of an encoding."""

    @property
    def level(self) -> Literal["node", "pair", "listed"]:
        """Whether a row of the result describes a node, a pair of nodes, or a pair on the list of edges."""

    @property
    def stored(self) -> bool:
        """False for a result that is cheaper to compute than to keep on disk."""

    def __call__(self, graph: Graph) -> Array:
        """Return the encoding of one graph."""


@runtime_checkable
class Joinable(Protocol):
    """An encoding that can serve several inputs with different settings at once."""

    def join(self, other: Any) -> Encoding:
        """Return an encoding with what both give."""


@runtime_checkable
class Listable(Encoding, Protocol):
    """An encoding of pairs that can be computed for some of them, without anything of size N^2."""

    def at(self, graph: Graph, pairs: IntArray) -> Array:
        """Return the rows (P, ...) of the pairs (2, P), sorted as `Sample.listed_pairs` are."""


@dataclass(frozen=True)
class Listed:
    """An encoding of pairs at the pairs of a list of edges, and nowhere else."""

    encoding: Listable

    level: ClassVar[Literal["listed"]] = "listed"

    @property
    def name(self) -> str:
        return self.encoding.name

    @property
    def stored(self) -> bool:
        return self.encoding.stored

    def __call__(self, graph: Graph) -> Array:
        return self.encoding.at(graph, graph.listed_pairs)


def listed(encodings: Iterable[Encoding]) -> tuple[Encoding, ...]:
    """Return the encodings as a list of edges needs them: those of nodes, and those of pairs at its pairs."""
    return tuple(Listed(encoding) if isinstance(encoding, Listable) else encoding for encoding in encodings)


def merged(encodings: Iterable[Encoding]) -> tuple[Encoding, ...]:
    """Return one encoding for each name, whatever the number of inputs; a `ConfigError` if it cannot serve all."""
    by_name: dict[str, Encoding] = {}
    for encoding in encodings:
        known = by_name.setdefault(encoding.name, encoding)
        if known == encoding:
            continue
        if not isinstance(known, Joinable):
            raise ConfigError(
                f"two inputs ask for the encoding {encoding.name!r} with different settings: {known} and {encoding}; "
                "give both the same settings, or drop one"
            )
        by_name[encoding.name] = known.join(encoding)
    return tuple(by_name.values())


@runtime_checkable
class ManyAtOnce(Protocol):
    """An encoding that is computed for many graphs at once, in less time than for one after another."""

    def each(self, graphs: Sequence[Graph]) -> list[Any]:
        """Return what calling it gives for each graph; if that raises an error for one of them, so does this."""
        ...


@dataclass(frozen=True, eq=False)
class Sample:
    """A graph with its encodings, ready to be batched. Keys are the names of the encodings."""

    graph: Graph
    node: Mapping[str, Array] = field(default_factory=dict)
    pair: Mapping[str, Array] = field(default_factory=dict)
    listed: Mapping[str, Array] = field(default_factory=dict)

    @property
    def listed_pairs(self) -> IntArray:
        """(2, P) the pairs of a list: those that were chosen (`ChosenPairs`), else those of the graph."""
        chosen = self.listed.get("pairs")
        return self.graph.listed_pairs if chosen is None else chosen.T[:2].astype(np.int64)

    def with_encoding(self, encoding: Encoding) -> Sample:
        """Return the sample with one more encoding."""
        if isinstance(encoding, Listed):
            return self.with_array(encoding, encoding.encoding.at(self.graph, self.listed_pairs))
        return self.with_array(encoding, encoding(self.graph))

    def with_array(self, encoding: Encoding, array: Array) -> Sample:
        """Return the sample with one more encoding, which was computed elsewhere."""
        level: dict[str, Any] = {"node": self.node, "pair": self.pair, "listed": self.listed}
        level[encoding.level] = {**level[encoding.level], encoding.name: array}
        return Sample(self.graph, **level)


@dataclass(frozen=True)
class Preparation:
    """Graph -> Sample: checks the features against the schema, then computes every encoding."""

    schema: FeatureSchema
    encodings: Sequence[Encoding] = ()

    def __call__(self, graph: Graph) -> Sample:
        """Prepare one graph; raises `GraphError` when it does not fit the schema."""
        [result] = self.each([graph])
        if not isinstance(result, Sample):
            raise result
        return result

    def each(self, graphs: Sequence[Graph]) -> list[Sample | Exception]:
        """Prepare many graphs; one that cannot be prepared is replaced by the reason.

        One encoding is computed for all before the next: the processor's caches then hold its code and tables.
        """
        results: list[Sample | Exception] = [Sample(graph) for graph in graphs]

        def to_all(step: Callable[[Sample], Sample]) -> None:
            for number, sample in enumerate(results):
                if isinstance(sample, Sample):
                    try:
                        results[number] = step(sample)
                    except (EgtError, np.linalg.LinAlgError) as error:
                        results[number] = error

        if not self._all_fit(graphs):
            to_all(self._checked)
        for encoding in self.encodings:
            if not _at_once(encoding, results):
                to_all(partial(Sample.with_encoding, encoding=encoding))
        return results

    def _checked(self, sample: Sample) -> Sample:
        self.schema.check(sample.graph)
        return sample

    def _all_fit(self, graphs: Sequence[Graph]) -> bool:
        """Return whether the schema accepts all graphs: asked once for their features, one graph below another.

        Graphs with features of pairs or positions, and those whose known labels are read, are asked one by one.
        """
        if any(any(getattr(graph, name) is not None for name in DENSE_FEATURES) for graph in graphs):
            return False
        if self.schema.known_labels:
            return False
        names = ("node_categories", "node_values", "edge_categories", "edge_values")
        try:
            rows = {name: np.concatenate([getattr(graph, name) for graph in graphs]) for name in names}
            whole = np.stack([graph.graph_values for graph in graphs])
            self.schema.check(Graph.trusted(id="", graph_values=whole, **rows))
        except (GraphError, ValueError):  # ValueError: none, or not of one width
            return False
        return True


def _at_once(encoding: Encoding, samples: list[Sample | Exception]) -> bool:
    """Add an encoding to all samples if it can be computed for all at once, and return whether it was."""
    if not isinstance(encoding, ManyAtOnce):
        return False
    numbers = [number for number, sample in enumerate(samples) if isinstance(sample, Sample)]
    given = [sample for sample in samples if isinstance(sample, Sample)]
    try:
        arrays = encoding.each([sample.graph for sample in given])
    except (EgtError, np.linalg.LinAlgError):  # of one of them: asked one by one, the others are computed
        return False
    for number, sample, array in zip(numbers, given, arrays, strict=True):
        samples[number] = sample.with_array(encoding, array)
    return True


@dataclass(frozen=True)
class OutDegree:
    """The number of edges i -> j of each node i."""

    name: ClassVar[str] = "out_degree"
    level: ClassVar[Literal["node"]] = "node"
    stored: ClassVar[bool] = False

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        return np.bincount(graph.edge_index[0], minlength=graph.num_nodes).astype(np.float32)[:, None]


class Choice(Protocol):
    """One way to choose pairs."""

    @property
    def types(self) -> tuple[str, ...]:
        """What a pair can be chosen as."""

    def choose(self, graph: Graph) -> Sequence[IntArray]:
        """Return the pairs (2, P) of each type, in any order."""


@dataclass(frozen=True)
class ChosenPairs:
    """The pairs of a graph's list: node i, node j, and the types that the pair was chosen as.

    Each node has the pair with itself, of type 0; the types of the choices follow in order. Type t is bit t of the last
    column. A pair that several choices name has all their bits and one row. Edges and query pairs that no choice names
    are listed with no bit: they have a row to read and write, and are not attended.
    """

    choices: tuple[Choice, ...]

    name: ClassVar[str] = "pairs"
    level: ClassVar[Literal["listed"]] = "listed"
    stored: ClassVar[bool] = True

    @property
    def num_types(self) -> int:
        """How many types there are, that of a node with itself included."""
        return 1 + sum(len(choice.types) for choice in self.choices)

    def __call__(self, graph: Graph) -> NDArray[np.int32]:
        """Return (P, 3), sorted by i and j."""
        n = graph.num_nodes
        own = np.arange(n)
        of_types = [np.stack([own, own]), *(pairs for choice in self.choices for pairs in choice.choose(graph))]
        codes = [pairs[0] * n + pairs[1] for pairs in of_types]
        i, j = graph.listed_pairs
        every = np.unique(np.concatenate([i * n + j, *codes]))
        types = np.zeros(len(every), np.int64)
        for bit, code in enumerate(codes):
            types[np.searchsorted(every, code)] |= 1 << bit
        return np.stack([*np.divmod(every, n), types], axis=1).astype(np.int32)


LARGEST_MAX_HOPS = 254  # distances are kept in one byte, and one value is needed for farther nodes


@dataclass(frozen=True)
class ShortestPaths:
    """Hop distances of directed walks without self-loops; `max_hops + 1` stands for farther or unreachable."""

    max_hops: int = 16

    name: ClassVar[str] = "distance"
    level: ClassVar[Literal["pair"]] = "pair"
    stored: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 1 <= self.max_hops <= LARGEST_MAX_HOPS:
            raise ConfigError(f"ShortestPaths: max_hops is {self.max_hops}; it must be 1..{LARGEST_MAX_HOPS}")

    def join(self, other: ShortestPaths) -> ShortestPaths:
        """Search as far as either does; what reads the distances clips them."""
        return ShortestPaths(max(self.max_hops, other.max_hops))

    def __call__(self, graph: Graph) -> NDArray[np.uint8]:
        """Compute the distances (N, N): [i, j] is the length of the shortest walk from i to j, 0 on the diagonal."""
        return self.each([graph])[0]

    def each(self, graphs: Sequence[Graph]) -> list[NDArray[np.uint8]]:
        if self.max_hops == 1:
            return [_adjacent(graph) for graph in graphs]
        return hop_distances(graphs, self.max_hops)

    def at(self, graph: Graph, pairs: IntArray) -> NDArray[np.uint8]:
        """Return the distances (P,) of some pairs (2, P)."""
        i, j = pairs
        edges = graph.edge_index[0] * graph.num_nodes + graph.edge_index[1]
        distances = np.where(i == j, 0, np.where(np.isin(i * graph.num_nodes + j, edges), 1, 2)).astype(np.uint8)
        farther = np.flatnonzero(distances == 2)
        if self.max_hops > 1 and len(farther):
            distances[farther] = pair_distances(graph, pairs[:, farther], self.max_hops)
        return distances


def _adjacent(graph: Graph) -> NDArray[np.uint8]:
    """Distances up to one hop: the adjacency matrix says it all."""
    distances = np.full((graph.num_nodes, graph.num_nodes), 2, np.uint8)
    distances[graph.edge_index[0], graph.edge_index[1]] = 1
    np.fill_diagonal(distances, 0)
    return distances


_RETURN = 0.1  # the share of the start that stays in each step of `spread` (Zhou et al., 2004)
_HOPS = 50


def neighbors_of(graph: Graph) -> Any:
    """(N, N) D^-1/2 A D^-1/2 of the graph without directions and self-loops, as a sparse matrix."""
    from scipy.sparse import coo_array

    i, j = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
    i, j = np.concatenate([i, j]), np.concatenate([j, i])
    A = coo_array((np.ones(len(i)), (i, j)), shape=(graph.num_nodes, graph.num_nodes)).tocsr()
    A.data[:] = 1.0
    scale = 1 / np.sqrt(np.maximum(A.sum(1), 1))
    return A.multiply(scale[:, None]).multiply(scale).tocsr()


def spread(S: Any, start: NDArray[np.float64], hops: int) -> NDArray[np.float64]:
    """(N, T) rows averaged over neighbors again and again, of which a part stays what it was. S: (N, N) sparse."""
    state = start
    for _ in range(hops):
        state = (1 - _RETURN) * (S @ state) + _RETURN * start
    return state


@dataclass(frozen=True)
class LabelsAround:
    """The encoding of known labels of C = `num_classes`: shares of each among neighbors, and along long walks."""

    num_classes: int
    folds: int  # parts of the labels, one of which is hidden at a time (`without`)

    name: ClassVar[str] = "known_labels"
    level: ClassVar[Literal["node"]] = "node"
    stored: ClassVar[bool] = True

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return (N, 2 C); all zeros where there is no label."""
        return self.without(graph, np.zeros(graph.num_nodes, bool), neighbors_of(graph))

    def without(self, graph: Graph, hidden: NDArray[np.bool_], S: Any) -> NDArray[np.float32]:
        """Return what the encoding would be if the labels of some nodes (N,) were not known. S: `neighbors_of`."""
        assert graph.known_labels is not None
        labels = np.where(hidden, UNKNOWN, graph.known_labels)
        start = (labels[:, None] == np.arange(self.num_classes)).astype(np.float32)
        shares = []
        for state in (S @ start, spread(S, start, _HOPS)):
            total = state.sum(1, keepdims=True)
            shares.append(np.divide(state, total, out=np.zeros_like(state), where=total > 0))
        return np.concatenate(shares, axis=1).astype(np.float32)

    def parts(self, graph: Graph, seed: int) -> IntArray:
        """(N,) the part of each known label, from 0; `UNKNOWN` where there is no label."""
        assert graph.known_labels is not None
        known = np.flatnonzero(graph.known_labels != UNKNOWN)
        parts = np.full(graph.num_nodes, UNKNOWN)
        parts[known] = np.random.default_rng(seed).permutation(len(known)) % self.folds
        return parts
