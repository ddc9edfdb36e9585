"""Inputs: the terms that are summed into the node and the edge channel, each with the encoding that it reads.

An input is settings, the features and encodings that it needs of each graph, and the module that embeds them
(`egt.nn.terms`). The slot of `egt.parts.pairs` is here too: which pairs there are for the inputs to describe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt
from threadpoolctl import threadpool_limits

import egt.nn as nn
from egt.data.encodings.encoding import Encoding, LabelsAround, ShortestPaths, listed, neighbors_of
from egt.data.encodings.loops import (
    canonical_signs,
    encode_eigenvectors,
    encode_triplets,
    encode_undirected,
    pair_walks,
    walk_powers,
    walk_powers_at,
)
from egt.errors import ConfigError, GraphError
from egt.graph import FeatureSchema, Graph, IntArray
from egt.registry import Part, Registry, register

if TYPE_CHECKING:
    from torch.nn import Module

    from egt.config.run import RunConfig

Absent = Literal["zero", "learned"]
Hops = Annotated[int, Field(ge=1, le=254)]
Sizes = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]


class Input(Part):
    """One term of the sum that enters a channel."""

    def features(self) -> Mapping[str, Any]:
        """Return the fields of `FeatureSchema` that a graph must have."""
        return {}

    def encodings(self) -> tuple[Encoding, ...]:
        """Return what is computed for each graph beforehand."""
        return ()

    def module(self, width: int) -> Module:
        """Return the learned half: a module from a `GraphBatch` to rows of this width."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is embedded (method `module`)")


class NodeInput(Input):
    """A term of the node channel; its module gives (nodes..., d_h)."""

    registry: ClassVar[Registry[type[NodeInput]]] = Registry("node input", __name__)


class PairInput(Input):
    """A term of the edge channel; its module gives (pairs..., d_e)."""

    registry: ClassVar[Registry[type[PairInput]]] = Registry("pair input", __name__)

    def check(self, run: RunConfig) -> None:
        """Refuse a layout that lacks pairs which the input describes."""
        if run.data.layout != "edge_list":
            return
        if any(encoding.level == "pair" for encoding in listed(self.encodings())):
            raise ValueError(
                f"data.layout edge_list holds no pairs except edges, and the input {self.kind} describes all of them; "
                "drop it, or use the packed layout"
            )


class PairChoice(Part):
    """A way to choose the pairs of a sparse model (`egt.data.encodings.encoding.Choice`)."""

    registry: ClassVar[Registry[type[PairChoice]]] = Registry("choice of pairs", "egt.parts.pairs")

    @property
    def types(self) -> tuple[str, ...]:
        """What a pair can be chosen as; each type is a learned term of the edge channel."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its pairs are (property `types`)")

    def choose(self, graph: Graph) -> Sequence[IntArray]:
        """Return the pairs (2, P) of each type."""
        raise NotImplementedError(f"{type(self).__name__} does not say which pairs it chooses (method `choose`)")

    def check(self, run: RunConfig) -> None:
        """Refuse a layout with all pairs."""
        if run.data.layout != "edge_list":
            raise ValueError("model.pairs chooses the pairs of a list; set data.layout to edge_list")


@register
class Constant(NodeInput):
    """The same learned vector for every node, for graphs without node features."""

    kind: Literal["constant"] = "constant"

    def module(self, width: int) -> Module:
        return nn.terms.SharedVector(width)


@register
class Degree(NodeInput):
    """In- and out-degree tables; degrees above `max_degree` share a row."""

    kind: Literal["degree"] = "degree"
    max_degree: PositiveInt = 64

    def encodings(self) -> tuple[Encoding, ...]:
        return (Degrees(self.max_degree),)

    def module(self, width: int) -> Module:
        return nn.terms.DegreeTables(self.max_degree, width)


@dataclass(frozen=True)
class Degrees:
    """Out- and in-degree of each node, as ids for an embedding table; `max_degree` stands for every larger one too."""

    max_degree: int = 16

    name: ClassVar[str] = "degree"
    level: ClassVar[Literal["node"]] = "node"
    stored: ClassVar[bool] = False

    def __call__(self, graph: Graph) -> NDArray[np.int64]:
        """Return the degrees (N, 2): column 0 counts edges i -> j, column 1 edges j -> i."""
        counts = [np.bincount(ends, minlength=graph.num_nodes) for ends in graph.edge_index]
        return np.minimum(np.stack(counts, axis=1), self.max_degree)


@register
class Distance(PairInput):
    """Shortest-path distance clipped at `max_hops`, from a table with a row of its own for "farther"."""

    kind: Literal["distance"] = "distance"
    max_hops: Hops = 16

    def encodings(self) -> tuple[Encoding, ...]:
        return (ShortestPaths(self.max_hops),)

    def module(self, width: int) -> Module:
        return nn.terms.DistanceTable(self.max_hops, width)


@register
class Reachability(PairInput):
    """Stacked "reachable in at most k steps" for k up to `num_hops`; 1 is the adjacency matrix with self-loops."""

    kind: Literal["reachability"] = "reachability"
    num_hops: Hops = 16

    def encodings(self) -> tuple[Encoding, ...]:
        return (ShortestPaths(self.num_hops),)

    def module(self, width: int) -> Module:
        return nn.terms.ReachabilityProjection(self.num_hops, width)


@register
class NodeValues(NodeInput):
    """Continuous node features, `num_values` per node; `dropout` is the chance of each to be 0 in a training step."""

    kind: Literal["node_values"] = "node_values"
    num_values: PositiveInt
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    def features(self) -> Mapping[str, Any]:
        return {"num_node_values": self.num_values}

    def module(self, width: int) -> Module:
        return nn.terms.NodeValueProjection(self.num_values, width, self.dropout)


@register
class KnownLabels(NodeInput):
    """Known labels around a node, of `num_classes`: shares of each class next to it, and along long walks.

    The label of a node never enters that node: the labels that a training step learns from are hidden in the whole
    graph, one of `folds` parts at a time. Only for classes of nodes in pieces (`data.pieces`).
    """

    kind: Literal["known_labels"] = "known_labels"
    num_classes: Annotated[int, Field(ge=2)]
    folds: Annotated[int, Field(ge=2, le=100)] = 5

    def features(self) -> Mapping[str, Any]:
        return {"known_labels": self.num_classes}

    def encodings(self) -> tuple[Encoding, ...]:
        return (LabelsAround(self.num_classes, self.folds),)

    def check(self, run: RunConfig) -> None:
        """Refuse other targets, and graphs that are computed whole."""
        if run.model.level != "node" or run.task.kind not in ("binary", "multiclass") or len(run.task.names) > 1:
            raise ValueError("model.node_inputs: known_labels are for one target of nodes that is a class; drop it")
        if run.data.pieces is None:
            raise ValueError(
                "model.node_inputs: known_labels hides labels piece by piece; set data.pieces (with neighbors=graph "
                "for the whole graph), or leave the labels out: --set model.node_inputs-=known_labels"
            )

    def module(self, width: int) -> Module:
        return nn.terms.LabelProjection(self.num_classes, width)


@register
class EdgeValues(PairInput):
    """Continuous edge features, `num_values` per edge; `absent` is what a non-edge gets."""

    kind: Literal["edge_values"] = "edge_values"
    num_values: PositiveInt
    absent: Absent = "zero"

    def features(self) -> Mapping[str, Any]:
        return {"num_edge_values": self.num_values}

    def module(self, width: int) -> Module:
        return nn.terms.EdgeValueProjection(self.num_values, width, self.absent)


@register
class NodeCategories(NodeInput):
    """Categorical node features; `sizes` are those of their vocabularies."""

    kind: Literal["node_categories"] = "node_categories"
    sizes: Sizes

    def features(self) -> Mapping[str, Any]:
        return {"node_categories": self.sizes}

    def module(self, width: int) -> Module:
        return nn.terms.NodeCategoryEmbedding(self.sizes, width)


@register
class EdgeCategories(PairInput):
    """Categorical edge features; `sizes` are those of their vocabularies, `absent` is what a non-edge gets."""

    kind: Literal["edge_categories"] = "edge_categories"
    sizes: Sizes
    absent: Absent = "zero"

    def features(self) -> Mapping[str, Any]:
        return {"edge_categories": self.sizes}

    def module(self, width: int) -> Module:
        return nn.terms.EdgeCategoryEmbedding(self.sizes, width, self.absent)


def node_features(schema: FeatureSchema) -> tuple[NodeInput, ...]:
    """Return the inputs for the features of nodes."""
    inputs: list[NodeInput] = []
    if schema.node_categories:
        inputs.append(NodeCategories(sizes=_sizes(schema.node_categories)))
    if schema.num_node_values:
        inputs.append(NodeValues(num_values=schema.num_node_values))
    return tuple(inputs)


def edge_features(schema: FeatureSchema, absent: Absent = "zero") -> tuple[PairInput, ...]:
    """Return the inputs for the features of edges; `absent` is what a non-edge gets."""
    inputs: list[PairInput] = []
    if schema.edge_categories:
        inputs.append(EdgeCategories(sizes=_sizes(schema.edge_categories), absent=absent))
    if schema.num_edge_values:
        inputs.append(EdgeValues(num_values=schema.num_edge_values, absent=absent))
    return tuple(inputs)


def pair_features(schema: FeatureSchema) -> tuple[PairInput, ...]:
    """Return the inputs for matrices and positions; distances know the types of atoms where there are such types."""
    inputs: list[PairInput] = []
    if schema.pair_categories:
        inputs.append(PairCategories(sizes=_sizes(schema.pair_categories)))
    if schema.num_pair_values:
        inputs.append(PairValues(num_values=schema.num_pair_values, num_basis=16))
    if schema.positions:
        types = schema.node_categories[0] if schema.positions[-1] == 3 and schema.node_categories else 0
        inputs.append(Positions(shape=schema.positions, types=types if types <= _MOST_TYPES else 0))
    return tuple(inputs)


_MOST_TYPES = 150  # a vocabulary of more is no list of elements


def _sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Give a column without any known category a row in the table all the same."""
    return tuple(max(size, 1) for size in sizes)


@register
class GraphValues(NodeInput):
    """Continuous features of whole graphs, `num_values` per graph; every node of a graph receives all of them."""

    kind: Literal["graph_values"] = "graph_values"
    num_values: PositiveInt

    def features(self) -> Mapping[str, Any]:
        return {"num_graph_values": self.num_values}

    def module(self, width: int) -> Module:
        return nn.terms.GraphValueProjection(self.num_values, width)


@register
class PairValues(PairInput):
    """Continuous features of all pairs, `num_values` matrices; a missing entry gets a learned vector.

    `num_basis` describes each number by so many Gaussians with learned centers and widths, which can tell any number
    from any other; 0 takes the number itself.
    """

    kind: Literal["pair_values"] = "pair_values"
    num_values: PositiveInt
    num_basis: Annotated[int, Field(ge=0, le=512)] = 0

    def features(self) -> Mapping[str, Any]:
        return {"num_pair_values": self.num_values}

    def encodings(self) -> tuple[Encoding, ...]:
        return (Given("pair_values"),)

    def module(self, width: int) -> Module:
        return nn.terms.PairValueProjection(self.num_values, self.num_basis, width)


@register
class PairCategories(PairInput):
    """Categorical features of all pairs; `sizes` are those of their vocabularies. A missing one has a learned row."""

    kind: Literal["pair_categories"] = "pair_categories"
    sizes: Sizes

    def features(self) -> Mapping[str, Any]:
        return {"pair_categories": self.sizes}

    def encodings(self) -> tuple[Encoding, ...]:
        return (Given("pair_categories"),)

    def module(self, width: int) -> Module:
        return nn.terms.PairCategoryEmbedding(self.sizes, width)


@dataclass(frozen=True)
class Given:
    """The matrices that a graph holds, `pair_values` or `pair_categories`."""

    name: str

    level: ClassVar[Literal["pair"]] = "pair"
    stored: ClassVar[bool] = False

    def __call__(self, graph: Graph) -> NDArray[Any]:
        """Return the matrices (N, N, F)."""
        matrices: NDArray[Any] = getattr(graph, self.name)
        return matrices

    def at(self, graph: Graph, pairs: IntArray) -> NDArray[Any]:
        """Return the entries (P, F) of some pairs (2, P)."""
        rows: NDArray[Any] = self(graph)[pairs[0], pairs[1]]
        return rows


class _ReadsPositions(Input):
    """What every input that reads positions has; `Positions` says what the settings are."""

    shape: Annotated[tuple[PositiveInt, ...], Field(min_length=1, max_length=2)] = (3,)
    num_basis: Annotated[int, Field(ge=1, le=512)] = 32
    types: Annotated[int, Field(ge=0, le=1000)] = 0
    noise: NonNegativeFloat = 0.0

    def features(self) -> Mapping[str, Any]:
        return {"positions": self.shape}

    def encodings(self) -> tuple[Encoding, ...]:
        return (Centered(),)

    def check(self, run: RunConfig) -> None:
        """Refuse types that the nodes do not have."""
        super().check(run)
        sizes = next((sizes for term in run.model.node_inputs if (sizes := term.features().get("node_categories"))), ())
        if self.types > (sizes[0] if sizes else 0):
            raise ValueError(
                f"model: the input {self.kind} reads {self.types} types of nodes, and the first of the node_categories "
                f"has {sizes[0] if sizes else 'no'} ids; set types to that, or to 0"
            )


@register
class Positions(_ReadsPositions, PairInput):
    """How far nodes are apart, from their positions: `num_basis` Gaussians with learned centers and widths.

    Only distances are read, so the answer stays the same when the positions are moved, rotated or mirrored; what is
    found in several conformers is averaged. `shape` is that of the place of a node: (2,), (3,) or (conformers, 3).
    Where node categories are given, `types` is the size of the first vocabulary, and each pair of types has a scale and
    a shift of the distance of its own. `noise` is the standard deviation of what is added to each coordinate in
    training. Pairs whose distance is not known get a learned vector.
    """

    kind: Literal["positions"] = "positions"

    def module(self, width: int) -> Module:
        return nn.terms.DistanceBasis(self.num_basis, width, types=self.types, noise=self.noise)


@register
class SignedVolumes(_ReadsPositions, NodeInput):
    """What tells an arrangement in space from its mirror image: signed volumes around each node, `num_volumes` of them.

    They are spanned by sums of directions to other nodes, weighted by learned functions of the distance. `shape`,
    `num_basis`, `types` and `noise` are as in the pair input `positions`.
    """

    kind: Literal["signed_volumes"] = "signed_volumes"
    num_basis: Annotated[int, Field(ge=1, le=512)] = 16
    num_volumes: Annotated[int, Field(ge=1, le=512)] = 8

    def check(self, run: RunConfig) -> None:
        """Refuse a plane, which has no volumes."""
        super().check(run)
        if self.shape[-1] != 3:
            raise ValueError(f"model.node_inputs: {self.kind} needs positions in space, and these have {self.shape}")

    def module(self, width: int) -> Module:
        return nn.terms.SignedVolumes(self.num_volumes, self.num_basis, width, types=self.types, noise=self.noise)


@dataclass(frozen=True)
class Centered:
    """The positions of nodes around their mean: differences of small numbers are exact wherever the graph is."""

    name: ClassVar[str] = "positions"
    level: ClassVar[Literal["node"]] = "node"
    stored: ClassVar[bool] = False

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return the positions (N, C, D), NaN where a place is not known."""
        assert graph.positions is not None
        places = graph.positions.reshape(graph.num_nodes, -1, graph.positions.shape[-1]).astype(np.float64)
        known = ~np.isnan(places)
        mean = np.where(known, places, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        centered: NDArray[np.float32] = (places - mean).astype(np.float32)
        return centered


TRIVIAL = 1e-8  # eigenvalues up to this are zero: one for each connected component


@register
class Laplacian(NodeInput):
    """Eigenvectors of the normalized Laplacian, the `rank` slowest.

    They have length 1, and signs that are flipped at random in training. Where all nodes are those of `one_graph`, they
    keep their signs and have length sqrt(N), so that their entries do not shrink as it grows.
    """

    kind: Literal["laplacian"] = "laplacian"
    rank: Annotated[int, Field(gt=0, le=2048)] = 8
    one_graph: bool = False

    def encodings(self) -> tuple[Encoding, ...]:
        return (LaplacianEigenvectors(self.rank, scaled=self.one_graph),)

    def module(self, width: int) -> Module:
        return nn.terms.SignedProjection("laplacian", self.rank, 1, width, flips=not self.one_graph)


@dataclass(frozen=True)
class LaplacianEigenvectors:
    """Eigenvectors of `L = I - D^-1/2 A D^-1/2` with the smallest eigenvalues above zero.

    A is the graph without directions, weights and self-loops. The sign of each vector follows `canonical_signs`.
    The columns beyond the number of such vectors are zero. `scaled` columns have length sqrt(N) instead of 1.
    """

    rank: int = 8
    scaled: bool = False

    name: ClassVar[str] = "laplacian"
    level: ClassVar[Literal["node"]] = "node"
    stored: ClassVar[bool] = True

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return the encoding (N, rank), from the smallest eigenvalue to the largest."""
        if graph.ranks is not None:
            return self(graph.in_rank_order())[graph.ranks]
        weights, vectors = (_slow_sparse if _is_large(graph, self.rank) else _slow_dense)(graph, self.rank)
        encoding = np.zeros((graph.num_nodes, self.rank), np.float32)
        if vectors.shape[1]:
            encoding[:, : vectors.shape[1]] = vectors * canonical_signs(weights, vectors)
        return encoding * np.float32(graph.num_nodes**0.5) if self.scaled else encoding


def _slow_dense(graph: Graph, rank: int) -> tuple[Matrix, Matrix]:
    """Return weights of the sign rule (3, N) and eigenvectors (N, K <= rank), in time that grows with N^3."""
    A = graph.adjacency(self_loops=False)
    A = np.maximum(A, A.T)
    np.fill_diagonal(A, 0.0)
    degree = A.sum(axis=1)
    connected = degree > 0
    scale = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=connected)
    L = np.diag(connected.astype(np.float64)) - scale[:, None] * A * scale
    values, vectors = np.linalg.eigh(L)
    return np.stack([np.ones_like(degree), degree, A @ degree]), vectors[:, values > TRIVIAL][:, :rank]


def _slow_sparse(graph: Graph, rank: int) -> tuple[Matrix, Matrix]:
    """Return the same by products with the neighbors of each node, in time that grows with the number of edges."""
    solvers, S = scipy.sparse.linalg, neighbors_of(graph)
    count, component = scipy.sparse.csgraph.connected_components(S, directed=False)
    degree = np.diff(S.indptr).astype(np.float64)
    alone = degree == 0
    u = np.sqrt(degree / np.maximum(np.bincount(component, degree), 1)[component])  # Su = u in each component

    def apply(x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Multiply by S with the eigenvalues 1 moved to 0, and those of nodes without edges to -1."""
        x = x.ravel()
        product: NDArray[np.float64] = S @ x - u * np.bincount(component, u * x, count)[component] - alone * x
        return product

    with threadpool_limits(1, user_api="blas"):  # digits must not depend on the number of threads
        moved = solvers.LinearOperator(S.shape, matvec=apply, dtype=np.float64)
        try:
            values, vectors = solvers.eigsh(moved, which="LA", **_arpack_settings(graph.num_nodes, rank))
        except RuntimeError as error:  # ArpackNoConvergence
            raise GraphError(f"graph {graph.id!r}: Laplacian: {error}; try another rank") from error
    vectors = np.ascontiguousarray(vectors[:, np.argsort(-values, kind="stable")])
    return np.stack([np.ones_like(degree), degree, S.sign() @ degree]), vectors


NumSteps = Annotated[int, Field(gt=0, le=2048)]

_SMALL = 1 << 22  # numbers of all pairs that are computed to take some of them: rows at once are four times as fast


@register
class RandomWalk(PairInput):
    """Random-walk probabilities between each pair (RRWP) after 0 to `num_steps` - 1 steps.

    `weighted` steps follow the edge weights. `scaled` divides each step by its standard deviation over the training
    graphs, which is kept with the weights.
    Without `bias` a pair that no walk joins gets nothing.
    """

    kind: Literal["random_walk"] = "random_walk"
    num_steps: NumSteps = 16
    weighted: bool = False
    scaled: bool = False
    bias: bool = True

    def encodings(self) -> tuple[Encoding, ...]:
        return (RandomWalks(self.num_steps, self.weighted),)

    def module(self, width: int) -> Module:
        return nn.terms.PairWalks(self.num_steps, width, scaled=self.scaled, bias=self.bias)


@register
class WalkReturns(NodeInput):
    """Probabilities of a random walk to be back at its start, the diagonal of RRWP.

    `num_steps`, `weighted` and `scaled` as on pairs.
    """

    kind: Literal["random_walk"] = "random_walk"
    num_steps: NumSteps = 16
    weighted: bool = False
    scaled: bool = False

    def encodings(self) -> tuple[Encoding, ...]:
        return (RandomWalks(self.num_steps, self.weighted),)

    def module(self, width: int) -> Module:
        return nn.terms.NodeWalks(self.num_steps, width, scaled=self.scaled)


@dataclass(frozen=True)
class RandomWalks:
    """The powers `[I, P, P^2, ..., P^(K-1)]` of `P = D^-1 A`, D the row sums of A; a row without edges is zero in P.

    K is `num_steps`; `weighted` steps are taken in proportion to the edge weights, which then must not be negative.
    """

    num_steps: int = 16
    weighted: bool = False

    name: ClassVar[str] = "random_walk"
    level: ClassVar[Literal["pair"]] = "pair"
    stored: ClassVar[bool] = False

    def join(self, other: RandomWalks) -> RandomWalks:
        """Return the longer one of two walks; a reader of the shorter one takes the first probabilities."""
        if self.weighted != other.weighted:
            raise ConfigError("two inputs read random walks, one along edge weights and one not; make them agree")
        return RandomWalks(max(self.num_steps, other.num_steps), self.weighted)

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return the probabilities (N, N, K): [i, j, k] is that of standing on j after k steps from i."""
        return np.ascontiguousarray(walk_powers(graph, self.weights(graph), self.num_steps).transpose(1, 2, 0))

    def at(self, graph: Graph, pairs: NDArray[np.int64]) -> NDArray[np.float32]:
        """See `Listable.at`; the probabilities (P, K), in at most N E K operations."""
        if graph.num_nodes**2 * self.num_steps <= _SMALL:
            return np.ascontiguousarray(walk_powers(graph, self.weights(graph), self.num_steps)[:, *pairs].T)
        return walk_powers_at(graph, self.weights(graph), self.num_steps, pairs)

    def weights(self, graph: Graph) -> NDArray[np.float64]:
        """Return the weight of each edge (E,)."""
        if not self.weighted or graph.edge_weight is None:
            return np.ones(graph.num_edges)
        weights = graph.edge_weight.astype(np.float64)
        if weights.min(initial=0.0) < 0:
            raise GraphError(
                f"graph {graph.id!r}: edge_weight holds {weights.min()}; "
                "weighted random walks need weights of at least 0"
            )
        return weights


Matrix = NDArray[np.float64]

DENSE_LIMIT = 1500  # above this many nodes only the leading vectors are computed, from the sparse matrix


@register
class Svd(NodeInput):
    """SVD positional encodings of this `rank`; `weighted` takes the SVD of the weights instead of 0/1.

    `matrix` decomposes another matrix than the adjacency: the number of one of the `pair_values`, counted from 0.
    """

    kind: Literal["svd"] = "svd"
    rank: Annotated[int, Field(gt=0, le=2048)] = 8
    weighted: bool = False
    matrix: NonNegativeInt | None = None

    def check(self, run: RunConfig) -> None:
        """Refuse a matrix that the graphs do not have."""
        count = max((term.features().get("num_pair_values", 0) for term in run.model.pair_inputs), default=0)
        if self.matrix is not None and self.matrix >= count:
            raise ValueError(
                f"model.node_inputs: svd decomposes matrix {self.matrix}, and the model reads {count} pair_values, "
                "counted from 0; name one of them, or leave matrix out"
            )

    def encodings(self) -> tuple[Encoding, ...]:
        return (SvdEncoding(self.rank, self.weighted) if self.matrix is None else MatrixSvd(self.rank, self.matrix),)

    def module(self, width: int) -> Module:
        return nn.terms.SignedProjection("svd", self.rank, 2, width)


@dataclass(frozen=True)
class SvdEncoding:
    """`[U sqrt(S), V sqrt(S)]` of the leading singular triplets of the adjacency matrix `A = U S V^T` with self-loops.

    U V^T of the result is the best approximation of A of this rank. The joint sign of u_k and v_k follows
    `canonical_signs`, so where singular values are distinct the result does not depend on the node numbering. Where
    they are equal, the basis follows it, unless the graph has `ranks`.
    Columns beyond the number of nodes are zero. `weighted` decomposes the edge weights instead of zeros and ones.
    """

    rank: int = 8
    weighted: bool = False

    name: ClassVar[str] = "svd"
    level: ClassVar[Literal["node"]] = "node"
    stored: ClassVar[bool] = True

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return the encoding (N, 2 rank): all U columns, then all V columns."""
        return self.each([graph])[0]

    def each(self, graphs: Sequence[Graph]) -> list[NDArray[np.float32]]:
        ordered = [graph.in_rank_order() for graph in graphs]
        by_size = sorted(range(len(ordered)), key=lambda k: ordered[k].num_nodes)
        dense = [k for k in by_size if not _is_large(ordered[k], self.rank)]
        entries = [_weights(ordered[k], self.weighted) for k in dense]
        found = dict(zip(dense, encode_undirected([ordered[k] for k in dense], entries, self.rank), strict=True))
        rows = []
        for k, graph in enumerate(ordered):
            row = found.get(k)
            if row is None and _is_large(graph, self.rank):
                row = self._encode_large(graph)
            elif row is None:  # directed
                row = _encode_dense(graph.adjacency(weighted=self.weighted, self_loops=True), self.rank)
            rows.append(row)
        return [each if graph.ranks is None else each[graph.ranks] for graph, each in zip(graphs, rows, strict=True)]

    def _encode_large(self, graph: Graph) -> NDArray[np.float32]:
        solvers = scipy.sparse.linalg  # loaded here: a library that is loaded later would not be limited
        settings = _arpack_settings(graph.num_nodes, self.rank)
        with threadpool_limits(1, user_api="blas"):  # digits must not depend on the number of threads
            A = _sparse_adjacency(graph, self.weighted)
            weights = _node_quantities(A)
            try:
                if (A != A.T).nnz == 0:
                    values, vectors = solvers.eigsh(A, which="LM", **settings)
                    return encode_eigenvectors(weights, values, np.ascontiguousarray(vectors), self.rank)
                u, s, vt = solvers.svds(A, solver="arpack", **settings)
            except RuntimeError as error:  # ArpackNoConvergence
                raise GraphError(
                    f"graph {graph.id!r}: SVD of {graph.num_nodes} nodes: {error}; try a lower rank"
                ) from error
            order = np.argsort(-s, kind="stable")
            u, v = np.ascontiguousarray(u[:, order]), np.ascontiguousarray(vt[order].T)
            return encode_triplets(weights, u, s[order], v, self.rank)


@dataclass(frozen=True)
class MatrixSvd:
    """`SvdEncoding` of a matrix over all pairs, the feature `matrix` of `pair_values`; missing entries count as 0."""

    rank: int
    matrix: int

    name: ClassVar[str] = "svd"
    level: ClassVar[Literal["node"]] = "node"
    stored: ClassVar[bool] = True

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return the encoding (N, 2 rank): all U columns, then all V columns."""
        ordered = graph.in_rank_order()
        assert ordered.pair_values is not None
        encoding = _encode_dense(np.nan_to_num(ordered.pair_values[:, :, self.matrix].astype(np.float64)), self.rank)
        return encoding if graph.ranks is None else encoding[graph.ranks]


def _is_large(graph: Graph, rank: int) -> bool:
    """Whether eigenvectors are found by sparse products."""
    return graph.num_nodes > DENSE_LIMIT and 4 * rank < graph.num_nodes


def _arpack_settings(num_nodes: int, rank: int) -> dict[str, Any]:
    """Return a fixed start vector, for the same digits every time, and a basis wide enough for close eigenvalues."""
    start = np.random.default_rng(0).standard_normal(num_nodes)
    return {"k": rank, "v0": start, "ncv": min(num_nodes - 1, max(64, 4 * rank))}


def _encode_dense(A: Matrix, rank: int) -> NDArray[np.float32]:
    u, s, vt = np.linalg.svd(A)
    u, v = np.ascontiguousarray(u[:, :rank]), np.ascontiguousarray(vt[:rank].T)
    return encode_triplets(_node_quantities(A), u, s[:rank], v, rank)


def _node_quantities(A: Any) -> Matrix:
    """(5, N) numbers of the nodes that follow a renumbering: one, degrees, sums of degrees over neighbors."""
    ones = np.ones(A.shape[0])
    out_degree, in_degree = A @ ones, A.T @ ones
    return np.stack([ones, out_degree, in_degree, A @ out_degree, A.T @ in_degree])


def _sparse_adjacency(graph: Graph, weighted: bool) -> Any:
    """Return the matrix of `graph.adjacency(weighted=weighted, self_loops=True)` in sparse form."""
    i, j = graph.edge_index
    weight = _weights(graph, weighted)
    proper = i != j
    nodes = np.arange(graph.num_nodes)
    entries = np.concatenate([weight[proper], np.ones(graph.num_nodes)])
    places = np.concatenate([i[proper], nodes]), np.concatenate([j[proper], nodes])
    return scipy.sparse.csr_array((entries, places), shape=(graph.num_nodes, graph.num_nodes))


def _weights(graph: Graph, weighted: bool) -> NDArray[np.float64]:
    """(E,) entries of the adjacency matrix."""
    if weighted and graph.edge_weight is not None:
        return graph.edge_weight.astype(np.float64)
    return np.ones(graph.num_edges)


@register
class Walks(PairInput):
    """Numbers and lifts of the walks of two, three and four steps between each pair; also on lists of edges."""

    kind: Literal["walks"] = "walks"

    def encodings(self) -> tuple[Encoding, ...]:
        return (ShortWalks(),)

    def module(self, width: int) -> Module:
        return nn.terms.PairProjection("walks", ShortWalks.width, width)


@dataclass(frozen=True)
class ShortWalks:
    """`log(1 + c)` of the walks of 2, 3 and 4 steps from i to j: of their number, then of their lift.

    Walks of two steps are the common neighbors of i and j. The lift is the probability that a random walk from i
    stands on j after so many steps, divided by the share of all edges that end in j: 1 for strangers in a well-mixed
    graph, large within a community, whatever the degrees are. Directions count; weights and self-loops do not.
    """

    name: ClassVar[str] = "walks"
    level: ClassVar[Literal["pair"]] = "pair"
    stored: ClassVar[bool] = True
    width: ClassVar[int] = 6

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return the encoding (N, N, 6)."""
        pairs = np.indices((graph.num_nodes, graph.num_nodes)).reshape(2, -1)
        return self.at(graph, pairs).reshape(graph.num_nodes, graph.num_nodes, self.width)

    def at(self, graph: Graph, pairs: IntArray) -> NDArray[np.float32]:
        """Return the rows (P, 6) of some pairs (2, P)."""
        walks = pair_walks(graph, pairs)
        i, j = graph.edge_index
        ends = j[i != j]
        share = np.bincount(ends, minlength=graph.num_nodes) / max(len(ends), 1)
        walks[:, 3:] /= np.maximum(share, 1e-300)[pairs[1], None]
        return np.log1p(walks).astype(np.float32)
