"""How much heat flows from node to node in a given time: an input for egt.

Installed (`pip install .`), it works wherever a part is named:

    egt train data.csv --target y --set "model.pair_inputs+={kind: heat_kernel, times: [0.5, 2.0]}"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from egt.data.encodings.encoding import Encoding
from egt.graph import Graph
from egt.parts.inputs import PairInput
from egt.registry import register

if TYPE_CHECKING:
    from torch import nn


@register
class HeatKernel(PairInput):
    """exp(-t L) of each pair for several times t, L the Laplacian of the graph without directions."""

    kind: Literal["heat_kernel"] = "heat_kernel"
    times: tuple[float, ...] = (0.5, 2.0)

    def encodings(self) -> tuple[Encoding, ...]:
        """See `Input.encodings`."""
        return (HeatDiffusion(self.times),)

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import PairProjection

        return PairProjection("heat_kernel", len(self.times), width)


@dataclass(frozen=True)
class HeatDiffusion:
    """exp(-t L) by the eigenvectors of L."""

    times: tuple[float, ...]

    name: ClassVar[str] = "heat_kernel"
    level: ClassVar[Literal["pair"]] = "pair"
    stored: ClassVar[bool] = False

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Compute the kernel (N, N, T)."""
        A = graph.adjacency(self_loops=False)
        A = np.maximum(A, A.T)
        values, vectors = np.linalg.eigh(np.diag(A.sum(1)) - A)
        kernels = [(vectors * np.exp(-t * values)) @ vectors.T for t in self.times]
        return np.stack(kernels, axis=-1).astype(np.float32)
