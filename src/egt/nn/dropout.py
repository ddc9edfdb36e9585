"""What a training step drops at random, drawn from the counter-based randomness: entries, branches, pairs and keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from egt.data.batching.layout import Indices
from egt.errors import ConfigError
from egt.nn.channels import AttentionContext
from egt.nn.randomness import PATHS, Stream, derive, graph_rows, kept


def _check(*probabilities: float) -> None:
    for probability in probabilities:
        if not 0 <= probability < 1:
            raise ConfigError(f"a dropout of {probability} is not a probability; it must be at least 0 and below 1")


@runtime_checkable
class Dropping(Protocol):
    """A module that may drop something at random in training mode, drawn from the keys of the batch."""

    @property
    def drops(self) -> bool:
        """Whether it does."""


Draw = Callable[["Dropout", int, AttentionContext], Tensor]
"""Draws the factors of a dropout for rows of so many channels, (rows..., width)."""


class Dropout(nn.Module):
    """Dropout of the entries x_rc of a branch, and drop-path: of the branch of whole graphs.

        x_rc -> p_g k_rc x_rc / (1 - probability)

    k_rc is 0 with the probability; p_g is 0 with that of the path, else 1 / (1 - path_probability), drawn once for each
    graph, branch and layer. Without training both are 1.

    Args:
        probability: chance of an entry to become 0.
        stream: what it is for; with the layer's number it decides which random numbers are drawn.
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
        path_probability: float = 0.0,
    ) -> None:
        super().__init__()
        _check(probability, path_probability)
        self.probability, self.stream, self.layer, self.level = probability, stream, layer, level
        self.path_probability = path_probability

    @property
    def drops(self) -> bool:
        """Whether entries or branches are dropped in training."""
        return self.probability > 0 or self.path_probability > 0

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """Drop entries and branches. x: (nodes... or pairs..., d)."""
        if not self.training:
            return x
        if self.probability:
            x = x * self.draw(x.shape[-1], context).to(x.dtype) / (1 - self.probability)
        return x * self.draw_paths(context, x.dtype) if self.path_probability else x

    def draw(self, width: int, context: AttentionContext) -> Tensor:
        """Draw which entries of rows of `width` channels stay, (rows..., width) boolean."""
        return kept(derive(context.keys, self.layer, self.stream), self._rows(context), width, self.probability)

    def draw_paths(self, context: AttentionContext, dtype: torch.dtype) -> Tensor:
        """Draw p_g, broadcastable to (rows..., 1)."""
        rows = self._rows(context)
        keys = derive(context.keys, self.layer, PATHS[self.stream])
        graphs = graph_rows(context.layout.num_graphs, rows.graph.device)
        keep = kept(keys, graphs, 1, self.path_probability)  # (B, 1)
        return (keep.to(dtype) * (1 / (1 - self.path_probability)))[rows.graph]

    def factors(self, width: int, context: AttentionContext, draw: Draw) -> Tensor | None:
        """Return the factors of all entries, (rows..., width); None where nothing is dropped.

        `draw` gives 0 for each dropped entry and 1 / (1 - probability) for each other.
        """
        if not self.training or not self.drops:
            return None
        if not self.path_probability:
            return draw(self, width, context)
        path = self.draw_paths(context, torch.float32)
        return draw(self, width, context) * path if self.probability else path.expand(*path.shape[:-1], width)

    def _rows(self, context: AttentionContext) -> Indices:
        return context.layout.node_indices if self.level == "node" else context.layout.pair_indices

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        path = f", path_probability={self.path_probability:.4g}" if self.path_probability else ""
        return f"probability={self.probability}, stream={self.stream.name}{path}"


class RandomMasking(nn.Module):
    """Random attention masking during training: each (i, j, head) is withheld from attention with a small probability.

    DISCREPANCY: the paper adds -inf to the inputs of the softmax. The authors' PyTorch code does that; their
    TensorFlow code adds it to the gates too, so a withheld entry also leaves the centrality sum. `gates` chooses.
    A row that loses all its keys gives zeros in both (the PyTorch code would spread evenly over the withheld ones).

    Key dropout withholds whole keys j besides: one draw k_j for each graph, key and layer, 0 with the probability p.
    All queries and heads share it, except that a node always attends itself: no row loses all its keys this way. The
    gate of a withheld key is closed too. Centrality sums count each other kept key 1 / (1 - p) times:

        s_i = ln(1 + g_ii + sum_{j != i} k_j g_ij / (1 - p))

    so that the mean of the sum is the one without dropout.

    Args:
        probability: chance of an entry to be withheld.
        num_heads: H.
        layer: number of the layer.
        gates: whether the masking of single entries closes gates.
        key_probability: p, chance of a key to be withheld.
    """

    def __init__(
        self, probability: float, num_heads: int, layer: int, *, gates: bool, key_probability: float = 0.0
    ) -> None:
        super().__init__()
        _check(probability, key_probability)
        self.probability, self.num_heads, self.layer, self.gates = probability, num_heads, layer, gates
        self.key_probability = key_probability

    @property
    def drops(self) -> bool:
        """Whether entries or keys are withheld in training."""
        return self.probability > 0 or self.key_probability > 0

    def forward(
        self, context: AttentionContext, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor | None, Tensor | None]:
        """Draw which keys the softmax may use and whose gates count, each (pairs..., 1 or H); None: all.

        The second result is boolean, or with key dropout says how often a gate counts, in numbers of `dtype`.
        """
        attended, counted = context.allowed, context.allowed
        if self.training and self.probability:
            keys = derive(context.keys, self.layer, Stream.ATTENTION_MASK)
            keep = kept(keys, context.layout.pair_indices, self.num_heads, self.probability)
            attended = keep if attended is None else keep & attended
            counted = attended if self.gates else counted
        if self.training and self.key_probability:
            keys = derive(context.keys, self.layer, Stream.KEY_DROPOUT)
            pair = context.layout.pair_indices
            own = (pair.i == pair.j).unsqueeze(-1)  # (pairs..., 1)
            keep = own | kept(keys, Indices(pair.graph, pair.j, torch.zeros_like(pair.j)), 1, self.key_probability)
            times = torch.where(own, 1.0, keep.to(dtype) * (1 / (1 - self.key_probability)))
            attended = keep if attended is None else keep & attended
            counted = times if counted is None else times * counted
        return attended, counted

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        keys = f", key_probability={self.key_probability}" if self.key_probability else ""
        return f"probability={self.probability}, gates={self.gates}{keys}"
