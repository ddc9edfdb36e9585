"""How the arrays of several graphs are laid side by side in each layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from egt.batching.edge_list import EdgeList
from egt.batching.layout import Layout
from egt.batching.packed import Packed
from egt.batching.padded import Padded
from egt.encodings.encoding import Array
from egt.errors import GraphError
from egt.graph import Graph


class Arrangement(Protocol):
    """Places for the nodes and pairs of a list of graphs."""

    @property
    def layout(self) -> Layout:
        """The layout these places belong to."""

    def nodes(self, arrays: Sequence[Array], fill: int) -> Tensor:
        """Arrays (N, ...) of all graphs as (nodes..., ...); padding holds `fill`."""

    def pairs(self, encodings: Sequence[Mapping[str, Array]]) -> dict[str, Tensor]:
        """Arrays (N, N, ...) of all graphs, by name, as (pairs..., ...)."""

    def rows(self, index: Array, k: int) -> Array:
        """Where the pairs `index` (2, R) of graph k stand in the flat edge channel."""


class _Dense:
    """What packed and padded share: row = start + i * stride + j."""

    def __init__(self, stride: Array) -> None:
        self.stride = stride
        self.start = np.cumsum(stride * stride) - stride * stride

    def rows(self, index: Array, k: int) -> Array:
        rows: Array = self.start[k] + index[0] * self.stride[k] + index[1]
        return rows


class PackedArrangement(_Dense):
    """One graph after the other."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        sizes = [graph.num_nodes for graph in graphs]
        super().__init__(np.array(sizes))
        self.layout = Packed(sizes)

    def nodes(self, arrays: Sequence[Array], fill: int) -> Tensor:
        """See `Arrangement`."""
        return torch.from_numpy(np.concatenate(arrays))

    def pairs(self, encodings: Sequence[Mapping[str, Array]]) -> dict[str, Tensor]:
        """See `Arrangement`."""
        flat = {name: [e[name].reshape(-1, *e[name].shape[2:]) for e in encodings] for name in encodings[0]}
        return {name: torch.from_numpy(np.concatenate(arrays)) for name, arrays in flat.items()}


class PaddedArrangement(_Dense):
    """All graphs in boxes of the size of the largest."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        sizes = np.array([graph.num_nodes for graph in graphs])
        self.width = int(sizes.max())
        super().__init__(np.full_like(sizes, self.width))
        self.layout = Padded(torch.from_numpy(sizes), self.width)

    def nodes(self, arrays: Sequence[Array], fill: int) -> Tensor:
        """See `Arrangement`."""
        out = np.full((len(arrays), self.width, *arrays[0].shape[1:]), fill, arrays[0].dtype)
        for k, array in enumerate(arrays):
            out[k, : len(array)] = array
        return torch.from_numpy(out)

    def pairs(self, encodings: Sequence[Mapping[str, Array]]) -> dict[str, Tensor]:
        """See `Arrangement`."""
        found = {}
        for name, first in encodings[0].items():
            out = np.zeros((len(encodings), self.width, self.width, *first.shape[2:]), first.dtype)
            for k, encoding in enumerate(encodings):
                n = len(encoding[name])
                out[k, :n, :n] = encoding[name]
            found[name] = torch.from_numpy(out)
        return found


class EdgeListArrangement:
    """One row per edge and per node with itself; distances need no search, other pair encodings have no place."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        sizes = [graph.num_nodes for graph in graphs]
        self.graphs = graphs
        self.total = sum(sizes)
        self.start = np.cumsum(sizes) - sizes
        own = np.arange(self.total) * (self.total + 1)
        self.codes = np.unique(np.concatenate([own, *(self._codes(g.edge_index, k) for k, g in enumerate(graphs))]))
        query, key = self.codes // self.total, self.codes % self.total
        self.layout = EdgeList(sizes, torch.from_numpy(query), torch.from_numpy(key))

    def _codes(self, index: Array, k: int) -> Array:
        codes: Array = (self.start[k] + index[0]) * self.total + self.start[k] + index[1]
        return codes

    def nodes(self, arrays: Sequence[Array], fill: int) -> Tensor:
        """See `Arrangement`."""
        return torch.from_numpy(np.concatenate(arrays))

    def pairs(self, encodings: Sequence[Mapping[str, Array]]) -> dict[str, Tensor]:
        """See `Arrangement`."""
        return {"distance": (self.layout.query != self.layout.key).to(torch.uint8)}

    def rows(self, index: Array, k: int) -> Array:
        """See `Arrangement`."""
        codes = self._codes(index, k)
        rows = np.searchsorted(self.codes, codes)
        if len(codes) and not np.array_equal(self.codes[np.minimum(rows, len(self.codes) - 1)], codes):
            raise GraphError(
                f"graph {self.graphs[k].id!r}: asks about a pair that is not an edge; the edge-list layout holds only "
                "existing edges, use the packed or padded layout for link prediction"
            )
        return rows
