"""The singular vectors of the adjacency matrix: the positional encoding of the paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from egt.encodings.signs import canonical_signs
from egt.errors import ConfigError, GraphError
from egt.graph import Graph

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Decomposition = tuple[Matrix, Matrix, Matrix]
"""u: (N, K), singular values: (K,) from large to small, v: (N, K)."""

DENSE_LIMIT = 1500
"""Above this many nodes only the leading vectors are computed, from the sparse matrix."""
TIE = 1e-10
"""Eigenvalues count as opposite to each other when their sum is within twice this share of the largest one."""


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
        """The encoding (N, 2 rank): all U columns, then all V columns."""
        num_nodes = graph.num_nodes
        A: Any
        if num_nodes > DENSE_LIMIT and 4 * self.rank < num_nodes:
            A = _sparse_adjacency(graph, self.weighted)
            symmetric = (A != A.T).nnz == 0
            try:
                u, s, v = _sparse_symmetric(A, self.rank) if symmetric else _sparse_general(A, self.rank)
            except RuntimeError as error:  # ArpackNoConvergence
                raise GraphError(f"graph {graph.id!r}: SVD of {num_nodes} nodes: {error}; try a lower rank") from error
        else:
            A = graph.adjacency(weighted=self.weighted, self_loops=True)
            symmetric = bool((A == A.T).all())
            u, s, v = _dense_symmetric(A, self.rank) if symmetric else _dense_general(A, self.rank)
        s = np.where(s > num_nodes * np.finfo(np.float64).eps * s[0], s, 0.0)  # no noise from the null space
        signs = canonical_signs(_node_quantities(A, symmetric), u, None if symmetric else v)
        scale = signs * np.sqrt(s)
        encoding = np.zeros((num_nodes, 2, self.rank), np.float32)
        encoding[:, 0, : len(s)] = u * scale
        encoding[:, 1, : len(s)] = v * scale
        return encoding.reshape(num_nodes, 2 * self.rank)


def _node_quantities(A: Any, symmetric: bool) -> Iterator[Vector]:
    """Numbers of the nodes that follow a renumbering: one, the degrees, the sums of degrees over neighbors."""
    ones = np.ones(A.shape[0])
    yield ones
    directions = (A,) if symmetric else (A, A.T)
    degrees = [matrix @ ones for matrix in directions]
    yield from degrees
    for matrix, degree in zip(directions, degrees, strict=True):
        yield matrix @ degree


def _dense_symmetric(A: Matrix, rank: int) -> Decomposition:
    values, vectors = np.linalg.eigh(A)
    return _from_eigen(values, vectors, rank)


def _dense_general(A: Matrix, rank: int) -> Decomposition:
    u, s, vt = np.linalg.svd(A)
    return u[:, :rank], s[:rank], vt[:rank].T


def _sparse_symmetric(A: Any, rank: int) -> Decomposition:
    from scipy.sparse.linalg import eigsh

    values, vectors = eigsh(A, k=rank, which="LM", **_arpack_settings(A, rank))
    return _from_eigen(values, vectors, rank)


def _sparse_general(A: Any, rank: int) -> Decomposition:
    from scipy.sparse.linalg import svds

    u, s, vt = svds(A, k=rank, solver="arpack", **_arpack_settings(A, rank))
    order = np.argsort(-s, kind="stable")
    return u[:, order], s[order], vt[order].T


def _arpack_settings(A: Any, rank: int) -> dict[str, Any]:
    """A fixed start vector, for the same digits every time, and a basis wide enough for close eigenvalues."""
    num_nodes = A.shape[0]
    return {"v0": np.random.default_rng(0).standard_normal(num_nodes), "ncv": min(num_nodes - 1, max(64, 4 * rank))}


def _from_eigen(values: Matrix, vectors: Matrix, rank: int) -> Decomposition:
    """The singular triplets behind A = sum of lambda x x^T: s = |lambda|, u = x, v = sign(lambda) x.

    Of lambda and -lambda the positive one comes first, whatever rounding did to them.
    """
    magnitudes = np.abs(values)
    order = np.argsort(-np.abs(values + TIE * magnitudes.max()), kind="stable")[:rank]
    u = vectors[:, order]
    return u, magnitudes[order], u * np.where(values[order] < 0, -1.0, 1.0)


def _sparse_adjacency(graph: Graph, weighted: bool) -> Any:
    """The matrix of `graph.adjacency(weighted=weighted, self_loops=True)` in sparse form."""
    from scipy.sparse import csr_array

    i, j = graph.edge_index
    weight = graph.edge_weight if weighted and graph.edge_weight is not None else np.ones(graph.num_edges)
    proper = i != j
    nodes = np.arange(graph.num_nodes)
    entries = np.concatenate([weight[proper].astype(np.float64), np.ones(graph.num_nodes)])
    places = np.concatenate([i[proper], nodes]), np.concatenate([j[proper], nodes])
    return csr_array((entries, places), shape=(graph.num_nodes, graph.num_nodes))
