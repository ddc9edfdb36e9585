"""Heads: the last linear maps before a prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import Tensor, nn


class MLP(nn.Module):
    """Linear maps with a non-linearity between them, none behind the last.

    Args:
        widths: of the input, each hidden layer and the output.
        activation: makes the non-linearity, ELU in the paper.
    """

    def __init__(self, widths: Sequence[int], activation: Callable[[], nn.Module] = nn.ELU) -> None:
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(inner, outer) for inner, outer in pairwise(widths))
        self.activation = activation()

    @property
    def last(self) -> nn.Linear:
        """The map to the output, which transfer learning re-initializes."""
        last = self.linears[-1]
        assert isinstance(last, nn.Linear)
        return last

    def forward(self, x: Tensor) -> Tensor:
        """x: (..., widths[0]). Returns (..., widths[-1])."""
        for linear in self.linears[:-1]:
            x = self.activation(linear(x))
        out: Tensor = self.last(x)
        return out


class PairHead(nn.Module):
    """A head on pairs of nodes, for auxiliary objectives such as distance prediction.

    Args:
        norm: final LN of the edge channel.
        mlp: d_e -> outputs.
    """

    def __init__(self, norm: nn.Module, mlp: MLP) -> None:
        super().__init__()
        self.norm = norm
        self.mlp = mlp

    def forward(self, e: Tensor) -> Tensor:
        """e: (rows..., d_e) of the edge channel. Returns (rows..., outputs)."""
        out: Tensor = self.mlp(self.norm(e))
        return out
