"""The slowest vibrations of the graph: eigenvectors of its normalized Laplacian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from egt.encodings.encoding import Encoding
from egt.encodings.signs import canonical_signs
from egt.errors import ConfigError
from egt.graph import Graph
from egt.inputs.input import NodeInput
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn

TRIVIAL = 1e-8
"""Eigenvalues up to this are zero: one for each connected component, which say nothing about places within it."""


@register
class Laplacian(NodeInput):
    """Eigenvectors of the normalized Laplacian, the `rank` slowest."""

    kind: Literal["laplacian"] = "laplacian"
    rank: Annotated[int, Field(gt=0, le=2048)] = 8

    def encodings(self) -> tuple[Encoding, ...]:
        """See `Input.encodings`."""
        return (LaplacianEigenvectors(self.rank),)

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import SignedProjection

        return SignedProjection("laplacian", self.rank, 1, width)


@dataclass(frozen=True)
class LaplacianEigenvectors:
    """Eigenvectors of `L = I - D^-1/2 A D^-1/2` with the smallest eigenvalues above zero.

    A is the graph without directions, weights and self-loops. The sign of each vector follows `canonical_signs`.
    The cost grows with N^3: this one is meant for graphs of up to a few thousand nodes.

    Args:
        rank: number of vectors; columns are zero where the graph has fewer.
    """

    rank: int = 8

    name: ClassVar[str] = "laplacian"
    level: ClassVar[Literal["node"]] = "node"
    stored: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ConfigError(f"LaplacianEigenvectors: rank is {self.rank}; it must be at least 1")

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return the encoding (N, rank), from the smallest eigenvalue to the largest."""
        A = graph.adjacency(self_loops=False)
        A = np.maximum(A, A.T)
        np.fill_diagonal(A, 0.0)
        degree = A.sum(axis=1)
        connected = degree > 0
        scale = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=connected)
        L = np.diag(connected.astype(np.float64)) - scale[:, None] * A * scale
        values, vectors = np.linalg.eigh(L)
        vectors = vectors[:, values > TRIVIAL][:, : self.rank]
        encoding = np.zeros((graph.num_nodes, self.rank), np.float32)
        if vectors.shape[1]:
            signs = canonical_signs(np.stack([np.ones_like(degree), degree, A @ degree]), vectors)
            encoding[:, : vectors.shape[1]] = vectors * signs
        return encoding
