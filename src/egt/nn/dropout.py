"""Dropout and random attention masking, drawn from the counter-based randomness."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from egt.nn.channels import Scope
from egt.nn.randomness import Stream, derive, kept


class Dropout(nn.Module):
    """Inverted dropout of channel entries during training.

    Args:
        probability: chance of an entry to become 0.
        stream: what it is for; with the layer's number it decides which random numbers are drawn.
        layer: number of the layer.
        level: whether the rows it acts on are nodes or pairs.
    """

    def __init__(self, probability: float, stream: Stream, layer: int, level: Literal["node", "pair"]) -> None:
        super().__init__()
        self.probability, self.stream, self.layer, self.level = probability, stream, layer, level

    def forward(self, x: Tensor, scope: Scope) -> Tensor:
        """x: (nodes... or pairs..., d)."""
        if not self.training or self.probability == 0:
            return x
        rows = scope.layout.node_indices if self.level == "node" else scope.layout.pair_indices
        keep = kept(derive(scope.keys, self.layer, self.stream), rows, x.shape[-1], self.probability)
        return x * keep.to(x.dtype) / (1 - self.probability)

    def extra_repr(self) -> str:
        """The settings, for `print(model)`."""
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

    def __init__(self, probability: float, num_heads: int, layer: int, *, gates: bool) -> None:
        super().__init__()
        self.probability, self.num_heads, self.layer, self.gates = probability, num_heads, layer, gates

    def forward(self, scope: Scope) -> tuple[Tensor | None, Tensor | None]:
        """Which keys the softmax may use and whose gates count, each (pairs..., 1 or H) or None for all."""
        allowed = scope.allowed
        if not self.training or self.probability == 0:
            return allowed, allowed
        keys = derive(scope.keys, self.layer, Stream.ATTENTION_MASK)
        keep = kept(keys, scope.layout.pair_indices, self.num_heads, self.probability)
        attended = keep if allowed is None else keep & allowed
        return attended, attended if self.gates else allowed

    def extra_repr(self) -> str:
        """The settings, for `print(model)`."""
        return f"probability={self.probability}, gates={self.gates}"
