"""Dropout and random attention masking, drawn from the counter-based randomness.

Drop-path: a graph that skips a whole branch of a layer for one step.

Key dropout: a node that nobody else attends for one layer of one step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from egt.data.batching.layout import Indices
from egt.errors import ConfigError
from egt.nn.channels import AttentionContext
from egt.nn.randomness import PATHS, Stream, derive, kept


def check_probability(probability: float) -> None:
    """Raise a `ConfigError` for what cannot be the chance of being dropped."""
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
    """Inverted dropout of channel entries during training.

    Args:
        probability: chance of an entry to become 0.
        stream: what it is for; with the layer's number it decides which random numbers are drawn.
        layer: number of the layer.
        level: whether the rows it acts on are nodes or pairs.
    """

    path_probability: float = 0.0
    """Chance of a graph to skip the branch; `DropPath` has one."""

    def __init__(self, probability: float, stream: Stream, layer: int, level: Literal["node", "pair"]) -> None:
        super().__init__()
        check_probability(probability)
        self.probability, self.stream, self.layer, self.level = probability, stream, layer, level

    @property
    def drops(self) -> bool:
        """Whether entries or branches are dropped in training."""
        return self.probability > 0 or self.path_probability > 0

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """Drop entries. x: (nodes... or pairs..., d)."""
        keep = self.kept(x.shape[-1], context)
        return x if keep is None else x * keep.to(x.dtype) / (1 - self.probability)

    def kept(self, width: int, context: AttentionContext) -> Tensor | None:
        """Draw which entries of rows of `width` channels stay, (rows..., width) boolean; None when all do."""
        if not self.training or self.probability == 0:
            return None
        rows = context.layout.node_indices if self.level == "node" else context.layout.pair_indices
        return kept(derive(context.keys, self.layer, self.stream), rows, width, self.probability)

    def factors(self, width: int, context: AttentionContext, draw: Draw) -> Tensor | None:
        """Return 0 for each dropped entry and 1 / (1 - p) for each other, (rows..., width); None without dropout."""
        return draw(self, width, context) if self.training and self.probability else None

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"probability={self.probability}, stream={self.stream.name}"


class RandomMasking(nn.Module):
    """Random attention masking during training: each (i, j, head) is withheld from attention with a small probability.

    DISCREPANCY: the paper adds -inf to the inputs of the softmax. The authors' PyTorch code does that; their
    TensorFlow code adds it to the gates too, so a withheld entry also leaves the centrality sum. `gates` chooses.
    A row that loses all its keys gives zeros in both (the PyTorch code would spread evenly over the withheld ones).

    Args:
        probability: chance of an entry to be withheld.
        num_heads: H.
        layer: number of the layer.
        gates: whether the gates are masked as well.
    """

    key_probability: float = 0.0
    """Chance of a whole key to be withheld; `KeyDropout` has one."""

    def __init__(self, probability: float, num_heads: int, layer: int, *, gates: bool) -> None:
        super().__init__()
        self.probability, self.num_heads, self.layer, self.gates = probability, num_heads, layer, gates

    @property
    def drops(self) -> bool:
        """Whether entries or keys are withheld in training."""
        return self.probability > 0 or self.key_probability > 0

    def forward(
        self, context: AttentionContext, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor | None, Tensor | None]:
        """Draw which keys the softmax may use and whose gates count (how often), each (pairs..., 1 or H); None: all.

        Args:
            context: who may attend whom.
            dtype: of the numbers that say how often; without them the second result is boolean too.
        """
        allowed = context.allowed
        if not self.training or self.probability == 0:
            return allowed, allowed
        keys = derive(context.keys, self.layer, Stream.ATTENTION_MASK)
        keep = kept(keys, context.layout.pair_indices, self.num_heads, self.probability)
        attended = keep if allowed is None else keep & allowed
        return attended, attended if self.gates else allowed

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"probability={self.probability}, gates={self.gates}"


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


class KeyDropout(RandomMasking):
    """Random masking that also withholds whole keys (sources): one draw for each graph, key and layer.

    All queries and heads share the draw, except that a node always attends itself: no row loses all its keys this way.
    The gate of a withheld key is closed too. Centrality sums count each other kept key 1 / (1 - p) times:

        s_i = ln(1 + g_ii + sum_{j != i} k_j g_ij / (1 - p)),  k_j = 0 with probability p, else 1

    so that the mean of the sum is the one without dropout.

    Args:
        probability: chance of a single entry to be withheld (see `RandomMasking`).
        num_heads: H.
        layer: number of the layer.
        gates: whether the masking of single entries closes gates.
        key_probability: p, chance of a key to be withheld.
    """

    def __init__(self, probability: float, num_heads: int, layer: int, *, gates: bool, key_probability: float) -> None:
        super().__init__(probability, num_heads, layer, gates=gates)
        check_probability(key_probability)
        self.key_probability = key_probability

    def forward(
        self, context: AttentionContext, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor | None, Tensor | None]:
        """See `RandomMasking.forward`; in training the second result says how often a gate counts."""
        attended, counted = super().forward(context, dtype)
        if not self.training or self.key_probability == 0:
            return attended, counted
        pair = context.layout.pair_indices
        keys = derive(context.keys, self.layer, Stream.KEY_DROPOUT)
        own = (pair.i == pair.j).unsqueeze(-1)  # (pairs..., 1)
        keep = own | kept(keys, Indices(pair.graph, pair.j, torch.zeros_like(pair.j)), 1, self.key_probability)
        times = torch.where(own, 1.0, keep.to(dtype) * (1 / (1 - self.key_probability)))
        return keep if attended is None else keep & attended, times if counted is None else times * counted

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"{super().extra_repr()}, key_probability={self.key_probability}"
