"""The singular vectors of the adjacency matrix: the positional encoding of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from egt.encodings.encoding import Encoding
from egt.encodings.loops import encode_eigenvectors, encode_triplets, encode_undirected
from egt.errors import ConfigError, GraphError
from egt.graph import Graph
from egt.inputs.input import NodeInput
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn

Matrix = NDArray[np.float64]
Decomposition = tuple[Matrix, Matrix, Matrix]
"""u: (N, K), singular values: (K,) from large to small, v: (N, K)."""

DENSE_LIMIT = 1500
"""Above this many nodes only the leading vectors are computed, from the sparse matrix."""


@register
class Svd(NodeInput):
    """SVD positional encodings of this `rank`; `weighted` takes the SVD of the weights instead of 0/1."""

    kind: Literal["svd"] = "svd"
    rank: Annotated[int, Field(gt=0, le=2048)] = 8
    weighted: bool = False

    def encodings(self) -> tuple[Encoding, ...]:
        """See `Input.encodings`."""
        return (SvdEncoding(self.rank, self.weighted),)

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import SignedProjection

        return SignedProjection("svd", self.rank, 2, width)


@dataclass(frozen=True)
class SvdEncoding:
    """`[U sqrt(S), V sqrt(S)]` of the leading singular triplets of the adjacency matrix `A = U S V^T` with self-loops.

    U V^T of the result is the best approximation of A of this rank. The joint sign of u_k and v_k follows
    `canonical_signs`, so where singular values are distinct the result does not depend on the node numbering.

    Args:
        rank: number of triplets; columns beyond the number of nodes are zero.
        weighted: decompose the edge weights instead of zeros and ones.
    """

    rank: int = 8
    weighted: bool = False

    name: ClassVar[str] = "svd"
    level: ClassVar[Literal["node"]] = "node"
    stored: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ConfigError(f"SvdEncoding: rank is {self.rank}; it must be at least 1")

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return the encoding (N, 2 rank): all U columns, then all V columns."""
        return self.each([graph])[0]

    def each(self, graphs: Sequence[Graph]) -> list[NDArray[np.float32]]:
        """See `ManyAtOnce`."""
        order = sorted(range(len(graphs)), key=lambda k: graphs[k].num_nodes)
        dense = [k for k in order if not self._is_large(graphs[k])]
        entries = [_weights(graphs[k], self.weighted) for k in dense]
        found = dict(zip(dense, encode_undirected([graphs[k] for k in dense], entries, self.rank), strict=True))
        return [self._alone(graph) if (one := found.get(k)) is None else one for k, graph in enumerate(graphs)]

    def _is_large(self, graph: Graph) -> bool:
        return graph.num_nodes > DENSE_LIMIT and 4 * self.rank < graph.num_nodes

    def _alone(self, graph: Graph) -> NDArray[np.float32]:
        """Return the encoding of a graph that is directed or large."""
        return self._of_large(graph) if self._is_large(graph) else self._of_directed(graph)

    def _of_directed(self, graph: Graph) -> NDArray[np.float32]:
        A = graph.adjacency(weighted=self.weighted, self_loops=True)
        u, s, v = _dense_triplets(A, self.rank)
        return encode_triplets(_node_quantities(A), u, s, v, self.rank)

    def _of_large(self, graph: Graph) -> NDArray[np.float32]:
        import scipy.sparse.linalg  # noqa: F401  (a library that is loaded later would not be limited)
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1, user_api="blas"):  # digits must not depend on the number of threads
            return self._by_arpack(graph)

    def _by_arpack(self, graph: Graph) -> NDArray[np.float32]:
        A = _sparse_adjacency(graph, self.weighted)
        weights = _node_quantities(A)
        try:
            if (A != A.T).nnz == 0:
                values, vectors = _sparse_eigen(A, self.rank)
                return encode_eigenvectors(weights, values, vectors, self.rank)
            u, s, v = _sparse_triplets(A, self.rank)
        except RuntimeError as error:  # ArpackNoConvergence
            raise GraphError(
                f"graph {graph.id!r}: SVD of {graph.num_nodes} nodes: {error}; try a lower rank"
            ) from error
        return encode_triplets(weights, u, s, v, self.rank)


def _node_quantities(A: Any) -> Matrix:
    """(5, N) numbers of the nodes that follow a renumbering: one, degrees, sums of degrees over neighbors."""
    ones = np.ones(A.shape[0])
    out_degree, in_degree = A @ ones, A.T @ ones
    return np.stack([ones, out_degree, in_degree, A @ out_degree, A.T @ in_degree])


def _dense_triplets(A: Matrix, rank: int) -> Decomposition:
    u, s, vt = np.linalg.svd(A)
    return np.ascontiguousarray(u[:, :rank]), s[:rank], np.ascontiguousarray(vt[:rank].T)


def _sparse_eigen(A: Any, rank: int) -> tuple[Matrix, Matrix]:
    from scipy.sparse.linalg import eigsh

    values, vectors = eigsh(A, k=rank, which="LM", **_arpack_settings(A, rank))
    return values, np.ascontiguousarray(vectors)


def _sparse_triplets(A: Any, rank: int) -> Decomposition:
    from scipy.sparse.linalg import svds

    u, s, vt = svds(A, k=rank, solver="arpack", **_arpack_settings(A, rank))
    order = np.argsort(-s, kind="stable")
    return np.ascontiguousarray(u[:, order]), s[order], np.ascontiguousarray(vt[order].T)


def _arpack_settings(A: Any, rank: int) -> dict[str, Any]:
    """Return a fixed start vector, for the same digits every time, and a basis wide enough for close eigenvalues."""
    num_nodes = A.shape[0]
    return {"v0": np.random.default_rng(0).standard_normal(num_nodes), "ncv": min(num_nodes - 1, max(64, 4 * rank))}


def _sparse_adjacency(graph: Graph, weighted: bool) -> Any:
    """Return the matrix of `graph.adjacency(weighted=weighted, self_loops=True)` in sparse form."""
    from scipy.sparse import csr_array

    i, j = graph.edge_index
    weight = _weights(graph, weighted)
    proper = i != j
    nodes = np.arange(graph.num_nodes)
    entries = np.concatenate([weight[proper], np.ones(graph.num_nodes)])
    places = np.concatenate([i[proper], nodes]), np.concatenate([j[proper], nodes])
    return csr_array((entries, places), shape=(graph.num_nodes, graph.num_nodes))


def _weights(graph: Graph, weighted: bool) -> NDArray[np.float64]:
    """(E,) entries of the adjacency matrix."""
    if weighted and graph.edge_weight is not None:
        return graph.edge_weight.astype(np.float64)
    return np.ones(graph.num_edges)
