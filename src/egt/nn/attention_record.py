"""What layers attend to, recorded by hooks, without a change to the layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from egt.errors import ConfigError
from egt.nn.layer import EGTLayer, PairPass


@dataclass(frozen=True, eq=False)
class LayerAttention:
    """What one layer computed for its pairs.

    Fields:
        layer: number of the layer among the watched ones, from 0.
        softmax: (pairs..., H) S, the softmax of the logits.
        gates: (pairs..., H) sigmoid(G e_hat); ones without a gate.
        product: (pairs..., H) A_tilde = S * gates, before dropout.
        scalers: (nodes..., H) s, the centrality scalers; ones without them.
    """

    layer: int
    softmax: Tensor
    gates: Tensor
    product: Tensor
    scalers: Tensor


@contextmanager
def watch(*layers: nn.Module) -> Iterator[list[LayerAttention]]:
    """Yield a list that gets the attention of each layer whenever it runs.

    `with watch(layer) as seen: layer(h, e)` leaves one `LayerAttention` in `seen`. Layers that do not attend (the last
    one of a model that reads only edges) add nothing.

    Args:
        layers: `EGTLayer`s of the plain backend; a fused one never forms these matrices.
    """
    seen: list[LayerAttention] = []
    with ExitStack() as hooks:
        for number in attending(layers):
            pairs = layers[number].pairs
            assert isinstance(pairs, PairPass)
            if type(pairs).forward is not PairPass.forward:
                raise ConfigError(
                    f"{type(pairs).__name__} never forms the attention matrices; watch layers of the backend 'plain' "
                    "(`egt.inference.backends.on_backend` makes them from the same weights)"
                )
            hooks.callback(pairs.gate.register_forward_hook(_hook(number, seen)).remove)
        yield seen


def attending(layers: Iterable[nn.Module]) -> list[int]:
    """Return the numbers of the layers that attend."""
    return [number for number, layer in enumerate(layers) if isinstance(layer, EGTLayer)]


def _hook(number: int, seen: list[LayerAttention]) -> Any:
    """Return a hook for a gate: it is given S, and gives A_tilde and s."""

    def record(gate: nn.Module, given: tuple[Any, ...], result: tuple[Tensor, Tensor]) -> None:
        S, *others = given
        gates, _ = gate.forward(torch.ones_like(S), *others)  # A_tilde is linear in S
        product, s = result
        layout = others[-1]
        nodes = layout.sum_keys(S)  # (nodes..., H)
        seen.append(LayerAttention(number, S, gates, product, s.expand_as(nodes)))

    return record
