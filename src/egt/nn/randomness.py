"""Counter-based randomness: every mask, dropout and sign is a pure function of (seed, step, graph, layer, head, i, j).

So every layout and every fast path draws the same numbers, a backward pass can draw them again instead of keeping
them, the number of loader workers does not matter, and a resumed run continues exactly. All numbers are unsigned
32-bit: those of graphs are held in int64 tensors, and those of the many rows in int32 ones, whose products wrap around.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

import torch
from torch import Tensor

from egt.data.batching.layout import Indices

MASK32 = 0xFFFFFFFF
_SIGN = 1 << 31
_I, _J, _T = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B

Number = TypeVar("Number", Tensor, int)


class Stream(IntEnum):
    """What a random number is drawn for; streams of one layer are independent, and there are at most 16 of them."""

    ATTENTION_MASK = 1
    ATTENTION_DROPOUT = 2
    NODE_DROPOUT = 3
    EDGE_DROPOUT = 4
    NODE_FFN_DROPOUT = 5
    EDGE_FFN_DROPOUT = 6
    SIGNS = 7
    READOUT = 8
    HIDDEN = 9
    KEY_DROPOUT = 10
    ATTENTION_PATH = 11
    NODE_FFN_PATH = 12
    EDGE_PATH = 13
    EDGE_FFN_PATH = 14
    NODE_VALUES = 15


PATHS = {
    Stream.NODE_DROPOUT: Stream.ATTENTION_PATH,
    Stream.NODE_FFN_DROPOUT: Stream.NODE_FFN_PATH,
    Stream.EDGE_DROPOUT: Stream.EDGE_PATH,
    Stream.EDGE_FFN_DROPOUT: Stream.EDGE_FFN_PATH,
}
"""The stream that decides whether a branch of a layer is skipped, by the stream of the branch's dropout."""


def mix(x: Number) -> Number:
    """Map 32-bit numbers one to one, which turns counters into noise. x: int64, or a plain number."""
    x = x & MASK32
    x = ((x ^ (x >> 16)) * _FIRST) & MASK32
    x = ((x ^ (x >> 15)) * _SECOND) & MASK32
    return x ^ (x >> 16)


def _mixed(x: Tensor) -> Tensor:
    """Do what `mix` does, in place on int32: half the traffic, and products that vector units have."""
    _fold(x, 16).mul_(_signed(_FIRST))
    _fold(x, 15).mul_(_signed(_SECOND))
    return _fold(x, 16)


def _fold(x: Tensor, shift: int) -> Tensor:
    """`x ^= x >> shift` of unsigned numbers: the copies of the sign that come in from the left are cut off."""
    return x.bitwise_xor_((x >> shift).bitwise_and_(MASK32 >> shift))


def _signed(number: int) -> int:
    """Return the int32 with the bits of an unsigned number."""
    return number - 2 * (number & _SIGN)


def graph_keys(seed: int, step: int, graph_ids: Tensor) -> Tensor:
    """Return the two 32-bit keys of each graph at a training step. graph_ids: (B,). Returns (B, 2)."""
    ids = graph_ids.to(torch.int64)
    low, high = ids & MASK32, (ids >> 32) & MASK32
    keys = []
    for salt in (0x243F6A88, 0xB7E15162):
        key = mix(torch.full_like(ids, (seed & MASK32) ^ salt))
        for part in ((seed >> 32) & MASK32, step & MASK32, (step >> 32) & MASK32):
            key = mix(key ^ part)
        keys.append(mix(mix(key ^ low) + high))
    return torch.stack(keys, dim=1)


def fresh_keys(num_graphs: int) -> Tensor:
    """Draw keys from torch's own generator, for use outside of a training run. Returns (B, 2)."""
    return torch.randint(MASK32 + 1, (num_graphs, 2))


def derive(keys: Tensor, layer: int, stream: Stream) -> Tensor:
    """Return the keys of one stream of one layer. keys: (B, 2). Returns (B, 2)."""
    both = zip(keys.unbind(1), salts(layer, stream), strict=True)  # a tensor of salts would have to travel to a device
    return mix(torch.stack([key ^ salt for key, salt in both], dim=1))


def salts(layer: int, stream: Stream) -> tuple[int, int]:
    """Return two numbers that only this stream of this layer has."""
    number = layer * 16 + stream
    return mix(number), mix(number ^ 0x5BD1E995)


def graph_rows(num_graphs: int, device: torch.device) -> Indices:
    """Return rows to draw for whole graphs, one for each: (B,)."""
    graphs = torch.arange(num_graphs, device=device)
    zero = torch.zeros_like(graphs)
    return Indices(graphs, zero, zero)


def random_bits(keys: Tensor, rows: Indices, width: int) -> Tensor:
    """Draw 32 bits for each row and each of its `width` heads or channels. keys: (B, 2). Returns (rows..., width).

    The result is int32, half of it negative: an unsigned number is a signed one of the same bits.
    """
    k0, k1 = keys.to(rows.graph.device, torch.int32)[rows.graph].unbind(-1)
    i, j = (at.to(torch.int32) * _signed(factor) for at, factor in ((rows.i, _I), (rows.j, _J)))
    row = _mixed(_mixed(k0 ^ i) ^ j) ^ k1
    t = torch.arange(width, dtype=torch.int32, device=row.device) * _signed(_T)
    return _mixed(row.unsqueeze(-1) ^ t)


def threshold(probability: float) -> int:
    """Return the number below which one of 2^32 happens with the given probability."""
    return int(probability * (MASK32 + 1))


def kept(keys: Tensor, rows: Indices, width: int, probability: float) -> Tensor:
    """Return True for what is not dropped with `probability`. Returns (rows..., width) boolean."""
    # A flipped sign puts signed numbers into the order of the unsigned ones.
    return random_bits(keys, rows, width).bitwise_xor_(_signed(_SIGN)) >= threshold(probability) - _SIGN
