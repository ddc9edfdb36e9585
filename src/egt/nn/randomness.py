"""Counter-based randomness: every mask, dropout and sign is a pure function of (seed, step, graph, layer, head, i, j).

So every layout and every fast path draws the same numbers, a backward pass can draw them again instead of keeping
them, the number of loader workers does not matter, and a resumed run continues exactly. All numbers are unsigned
32-bit: those of graphs are held in int64 tensors, and those of the many rows in int32 ones, whose products wrap around.

What a training step drops is drawn from it: entries, branches, pairs and keys.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from egt.data.batching.layout import Indices
from egt.errors import ConfigError

if TYPE_CHECKING:
    from egt.nn.channels import AttentionContext

MASK32 = 0xFFFFFFFF
_SIGN = 1 << 31
_I, _J, _T = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B

Number = TypeVar("Number", Tensor, int)


class Stream(IntEnum):
    """What a random number is drawn for; streams of one layer are independent, with 16 numbers for each."""

    POSITIONS = 0
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
    TRIPLET_DROPOUT = 16  # which is 0 of the layer behind it, and positions are drawn in layer 0 alone


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


def _mix_in_place(x: Tensor) -> Tensor:
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
    i, j = _count(rows.i, _I), _count(rows.j, _J)
    row = _mix_in_place(_mix_in_place(k0 ^ i) ^ j) ^ k1
    return _mix_in_place(row.unsqueeze(-1) ^ _count(torch.arange(width, dtype=torch.int32, device=row.device), _T))


def _count(numbers: Tensor, factor: int) -> Tensor:
    """Multiply numbers from 0 to 2^31 - 1 by an odd one, modulo 2^32.

    The mask changes none of them. Without it inductor takes the product with a range of numbers for an index, whose
    overflow is undefined in the C++ that it writes: the process crashed.
    """
    return numbers.to(torch.int32).bitwise_and(MASK32 >> 1) * _signed(factor)


def normal(keys: Tensor, rows: Indices, width: int) -> Tensor:
    """Draw standard normal numbers for each row. keys: (B, 2). Returns (rows..., width) float32."""
    bits = random_bits(keys, rows, 2 * width)
    # 24 bits are all that a float32 holds; the half keeps the logarithm finite.
    u = ((bits >> 8).bitwise_and_((1 << 24) - 1).float() + 0.5) * 2.0**-24
    radius, angle = u.split(width, dim=-1)
    return (-2 * radius.log()).sqrt() * (2 * torch.pi * angle).cos()


def threshold(probability: float) -> int:
    """Return the number below which one of 2^32 happens with the given probability."""
    return int(probability * (MASK32 + 1))


def kept(keys: Tensor, rows: Indices, width: int, probability: float) -> Tensor:
    """Return True for what is not dropped with `probability`. Returns (rows..., width) boolean."""
    # A flipped sign puts signed numbers into the order of the unsigned ones.
    return random_bits(keys, rows, width).bitwise_xor_(_signed(_SIGN)) >= threshold(probability) - _SIGN


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


Draw = Callable[["Dropout", int, "AttentionContext"], Tensor]
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
