"""Drop-path: a graph that skips a whole branch of a layer for one step."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from egt.batching.layout import Indices
from egt.nn.channels import AttentionContext
from egt.nn.dropout import Draw, Dropout, check_probability
from egt.nn.randomness import PATHS, Stream, derive, kept


class DropPath(Dropout):
    """Dropout of the entries of a branch that also drops the branch of whole graphs: x + p_g Dropout(branch(x)).

    p_g is 0 with the probability of the path, else 1 / (1 - that), drawn once for each graph, branch and layer.

    Args:
        probability: chance of an entry to become 0 (see `Dropout`).
        stream: of the entries; it also names the branch.
        layer: number of the layer.
        level: whether the rows it acts on are nodes or pairs.
        path_probability: chance of a graph to skip the branch.
    """

    def __init__(
        self,
        probability: float,
        stream: Stream,
        layer: int,
        level: Literal["node", "pair"],
        *,
        path_probability: float,
    ) -> None:
        super().__init__(probability, stream, layer, level)
        check_probability(path_probability)
        self.path_probability = path_probability

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """Drop entries and branches. x: (nodes... or pairs..., d)."""
        x, path = super().forward(x, context), self.path_factors(context, x.dtype)
        return x if path is None else x * path

    def factors(self, width: int, context: AttentionContext, draw: Draw) -> Tensor | None:
        """See `Dropout.factors`: those of entries times those of the branch."""
        entries, path = super().factors(width, context, draw), self.path_factors(context, torch.float32)
        if path is None:
            return entries
        return path.expand(*path.shape[:-1], width) if entries is None else entries * path

    def path_factors(self, context: AttentionContext, dtype: torch.dtype) -> Tensor | None:
        """Draw p_g, broadcastable to (rows..., 1); None where no branch is dropped."""
        if not self.training or self.path_probability == 0:
            return None
        rows = context.layout.node_indices if self.level == "node" else context.layout.pair_indices
        graphs = torch.arange(context.layout.num_graphs, device=rows.graph.device)
        zero = torch.zeros_like(graphs)
        keys = derive(context.keys, self.layer, PATHS[self.stream])
        keep = kept(keys, Indices(graphs, zero, zero), 1, self.path_probability)  # (B, 1)
        return (keep.to(dtype) * (1 / (1 - self.path_probability)))[rows.graph]

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"{super().extra_repr()}, path_probability={self.path_probability:.4g}"


def path_probability(highest: float, layer: int, num_layers: int) -> float:
    """Return the chance of a layer's branches to be skipped: from 0 in the first layer to `highest` in the last."""
    return highest * layer / max(num_layers - 1, 1)
