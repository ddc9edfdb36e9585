"""Counter-based randomness: every mask, dropout and sign is a pure function of (seed, step, graph, layer, head, i, j).

So every layout and every fast path draws the same numbers, a backward pass can draw them again instead of keeping
them, the number of loader workers does not matter, and a resumed run continues exactly. All numbers are unsigned
32-bit, held in int64 tensors.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

from egt.batching.layout import Indices

MASK32 = 0xFFFFFFFF
_I, _J, _T = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D


class Stream(IntEnum):
    """What a random number is drawn for; streams of one layer are independent."""

    ATTENTION_MASK = 1
    ATTENTION_DROPOUT = 2
    NODE_DROPOUT = 3
    EDGE_DROPOUT = 4
    NODE_FFN_DROPOUT = 5
    EDGE_FFN_DROPOUT = 6
    SIGNS = 7
    KEY_DROPOUT = 10
    ATTENTION_PATH = 11
    NODE_FFN_PATH = 12
    EDGE_PATH = 13
    EDGE_FFN_PATH = 14


PATHS = {
    Stream.NODE_DROPOUT: Stream.ATTENTION_PATH,
    Stream.NODE_FFN_DROPOUT: Stream.NODE_FFN_PATH,
    Stream.EDGE_DROPOUT: Stream.EDGE_PATH,
    Stream.EDGE_FFN_DROPOUT: Stream.EDGE_FFN_PATH,
}
"""What decides whether a branch of a layer is skipped, by what its dropout is drawn from."""


def mix(x: Tensor) -> Tensor:
    """Map 32-bit numbers one to one, which turns counters into noise."""
    x = x & MASK32
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & MASK32
    x = ((x ^ (x >> 15)) * 0x846CA68B) & MASK32
    return x ^ (x >> 16)


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
    salt = torch.tensor([layer * 16 + stream, (layer * 16 + stream) ^ 0x5BD1E995], device=keys.device)
    return mix(keys ^ mix(salt))


def random_bits(keys: Tensor, rows: Indices, width: int) -> Tensor:
    """Draw 32 bits for each row and each of its `width` heads or channels. keys: (B, 2). Returns (rows..., width)."""
    keys = keys.to(rows.graph.device)
    k0, k1 = keys[rows.graph, 0], keys[rows.graph, 1]
    row = mix(mix(k0 ^ ((rows.i * _I) & MASK32)) ^ ((rows.j * _J) & MASK32)) ^ k1
    t = (torch.arange(width, device=keys.device) * _T) & MASK32
    return mix(row.unsqueeze(-1) ^ t)


def threshold(probability: float) -> int:
    """Return the number below which one of 2^32 happens with the given probability."""
    return int(probability * (MASK32 + 1))


def kept(keys: Tensor, rows: Indices, width: int, probability: float) -> Tensor:
    """Return True for what is not dropped with `probability`. Returns (rows..., width) boolean."""
    return random_bits(keys, rows, width) >= threshold(probability)
