"""The padded layout: dense tensors, (B, N, d_h) and (B, N, N, d_e), with a mask of what exists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from egt.data.batching.layout import DenseArrangement, Indices, masked_softmax, rows_where
from egt.data.encodings.encoding import Array, Sample


@dataclass(frozen=True, eq=False)
class Padded:
    """Every graph takes N rows; the ones behind its own nodes are padding.

    Args:
        sizes: (B,) nodes of each graph, virtual ones included.
        width: N, at least the largest size.
        num_virtual: q.
        num_nodes: of all graphs without virtual ones, if it is known on the host.
    """

    sizes: Tensor
    width: int
    num_virtual: int = 0
    num_nodes: int | None = None
    has_all_pairs: ClassVar[bool] = True
    has_only_attended: ClassVar[bool] = False

    @property
    def num_graphs(self) -> int:
        return self.sizes.shape[0]

    @property
    def num_pairs(self) -> int:
        return self.num_graphs * self.width * self.width

    @property
    def pair_shape(self) -> tuple[int, ...]:
        return (self.num_graphs, self.width, self.width)

    @cached_property
    def real_nodes(self) -> Tensor:
        return torch.arange(self.width, device=self.sizes.device) < self.sizes.unsqueeze(1)

    @cached_property
    def real_pairs(self) -> Tensor:
        return self.real_nodes.unsqueeze(2) & self.real_nodes.unsqueeze(1)

    @property
    def node_indices(self) -> Indices:
        graph = torch.arange(self.num_graphs, device=self.sizes.device).view(-1, 1)
        i = torch.arange(self.width, device=self.sizes.device).view(1, -1)
        return Indices(graph, i, torch.zeros_like(i))

    @property
    def pair_indices(self) -> Indices:
        graph = torch.arange(self.num_graphs, device=self.sizes.device).view(-1, 1, 1)
        position = torch.arange(self.width, device=self.sizes.device)
        return Indices(graph, position.view(1, -1, 1), position.view(1, 1, -1))

    @property
    def pair_nodes(self) -> tuple[Tensor, Tensor]:
        index = self.pair_indices
        start = index.graph * self.width
        return (start + index.i).expand(self.pair_shape), (start + index.j).expand(self.pair_shape)

    def moved(self, move: Callable[[Tensor], Tensor]) -> Self:
        return replace(self, sizes=move(self.sizes))

    def with_virtual(self, num_virtual: int) -> tuple[Self, Tensor, Tensor]:
        wide = replace(self, sizes=self.sizes + num_virtual, width=self.width + num_virtual, num_virtual=num_virtual)
        rows = torch.arange(wide.num_graphs * wide.width, device=self.sizes.device)
        nodes = rows.view(-1, wide.width)[:, num_virtual:].reshape(-1)
        pairs = torch.arange(wide.num_pairs, device=self.sizes.device).view(wide.pair_shape)
        return wide, nodes, pairs[:, num_virtual:, num_virtual:].reshape(-1)

    def dot(self, Q: Tensor, K: Tensor) -> Tensor:
        return torch.einsum("bihc,bjhc->bijh", Q, K)

    def softmax(self, logits: Tensor, allowed: Tensor | None) -> Tensor:
        return masked_softmax(logits, allowed, dim=2)

    def sum_keys(self, x: Tensor) -> Tensor:
        return x.sum(2)

    def aggregate(self, A: Tensor, V: Tensor) -> Tensor:
        return torch.einsum("bijh,bjhc->bihc", A, V)

    def per_node(self, x: Tensor) -> Tensor:
        return x.unsqueeze(1)

    def mean_nodes(self, h: Tensor) -> Tensor:
        own = self.real_nodes[:, self.num_virtual :].unsqueeze(-1)
        total = torch.where(own, h[:, self.num_virtual :], 0.0).sum(1)
        return total / (self.sizes - self.num_virtual).unsqueeze(1)

    def virtual_nodes(self, h: Tensor) -> Tensor:
        return h[:, : self.num_virtual]

    def with_virtual_rows(self, h: Tensor, rows: Tensor) -> Tensor:
        return torch.cat([rows, h[:, self.num_virtual :]], dim=1)

    def node_rows(self, h: Tensor) -> Tensor:
        own = (self.real_nodes & (self.node_indices.i >= self.num_virtual)).flatten()
        return h.flatten(0, 1)[rows_where(own, int(own.sum()) if self.num_nodes is None else self.num_nodes)]


class PaddedArrangement(DenseArrangement):
    """All graphs in boxes of the size of the largest."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        sizes = np.array([sample.graph.num_nodes for sample in samples])
        self.width = int(sizes.max())
        super().__init__(np.full_like(sizes, self.width))
        self.layout = Padded(torch.from_numpy(sizes), self.width, num_nodes=int(sizes.sum()))

    def nodes(self, arrays: Sequence[Array], fill: int) -> Tensor:
        out = np.full((len(arrays), self.width, *arrays[0].shape[1:]), fill, arrays[0].dtype)
        for k, array in enumerate(arrays):
            out[k, : len(array)] = array
        return torch.from_numpy(out)

    def pairs(self, samples: Sequence[Sample]) -> dict[str, Tensor]:
        encodings = [sample.pair for sample in samples]
        found = {}
        for name, first in encodings[0].items():
            out = np.zeros((len(encodings), self.width, self.width, *first.shape[2:]), first.dtype)
            for k, encoding in enumerate(encodings):
                n = len(encoding[name])
                out[k, :n, :n] = encoding[name]
            found[name] = torch.from_numpy(out)
        return found
