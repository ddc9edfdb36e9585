"""The counter-based random numbers: fixed for ever, uniform, and independent of each other."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from egt.data.batching.layout import Packed, Padded
from egt.native.library import compiler
from egt.nn.randomness import MASK32, Stream, derive, graph_keys, kept, mix, random_bits, threshold
from tests import reference


def test_values_stay_the_same_across_versions() -> None:
    """A change here would break the exact repetition of every earlier run."""
    assert mix(torch.tensor(1)).item() == mix(1) == 0x688990C0 == reference.mix(1)
    assert graph_keys(1, 2, torch.tensor([3, 4])).tolist() == [[1854021176, 3370117030], [3517115464, 841087220]]
    keys = derive(torch.tensor([[1, 2]]), 3, Stream.EDGE_DROPOUT)
    assert tuple(keys[0].tolist()) == (0x5188A1B5, 0x80D11247) == reference.stream_keys((1, 2), 3, 4)


def test_bits_equal_integer_arithmetic() -> None:
    keys = graph_keys(5, 6, torch.tensor([0, 1]))
    layout = Packed([2, 3])
    bits = random_bits(keys, layout.pair_indices, 4)
    index = layout.pair_indices
    for row in range(layout.num_pairs):
        graph, i, j = int(index.graph[row]), int(index.i[row]), int(index.j[row])
        pair = (int(keys[graph, 0]), int(keys[graph, 1]))
        unsigned = [number & MASK32 for number in bits[row].tolist()]
        assert unsigned == [reference.bits(pair, i, j, t) for t in range(4)]


@pytest.mark.parametrize("probability", [1e-9, 0.1, 0.5, 0.7, 1 - 1e-9])
def test_what_is_kept_follows_the_order_of_unsigned_numbers(probability: float) -> None:
    keys, rows = graph_keys(5, 6, torch.arange(2)), Packed([9, 13]).pair_indices
    unsigned = random_bits(keys, rows, 5).to(torch.int64) & MASK32
    assert torch.equal(kept(keys, rows, 5, probability), unsigned >= threshold(probability))


def test_layouts_draw_the_same_numbers() -> None:
    keys = graph_keys(5, 6, torch.tensor([8, 9]))
    packed = random_bits(keys, Packed([2, 3]).pair_indices, 2)
    padded_layout = Padded(torch.tensor([2, 3]), 3)
    padded = random_bits(keys, padded_layout.pair_indices, 2)
    assert torch.equal(padded[padded_layout.real_pairs], packed)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_shares_are_right(probability: float) -> None:
    keys = graph_keys(0, 0, torch.arange(16))
    keep = kept(keys, Packed([32] * 16).pair_indices, 8, probability).float()
    expected = 1 - probability
    tolerance = 5 * (expected * probability / keep.numel()) ** 0.5
    assert abs(float(keep.mean()) - expected) < tolerance


def test_seed_step_graph_layer_stream_head_and_pair_all_matter() -> None:
    rows = Packed([6]).pair_indices

    def draw(
        seed: int = 0, step: int = 0, graph: int = 0, layer: int = 0, stream: Stream = Stream.SIGNS
    ) -> torch.Tensor:
        return random_bits(derive(graph_keys(seed, step, torch.tensor([graph])), layer, stream), rows, 4)

    base = draw()
    others = [draw(seed=1), draw(step=1), draw(graph=1), draw(layer=1), draw(stream=Stream.ATTENTION_MASK)]
    others += [draw(seed=2**40), draw(step=2**33), draw(graph=2**34)]
    for other in others:
        assert (base == other).float().mean() < 0.01
    assert len(base.unique()) == base.numel()
    halves = (base < 0).double()
    assert abs(float(torch.corrcoef(halves.T).triu(1).abs().max())) < 0.6


def test_no_stream_reaches_into_the_next_layer() -> None:
    numbers = [16 * k + stream for stream in Stream for k in range(1 if stream is Stream.POSITIONS else 4)]
    assert len(set(numbers)) == len(numbers)


COMPILED = """
import torch
from egt.data.batching.layout import Padded
from egt.nn.randomness import random_bits

keys, layout = torch.tensor([[1, 2], [3, 4000000000]]), Padded(torch.tensor([2, 3]), 3)
compiled = torch.compile(lambda keys: random_bits(keys, layout.pair_indices, 64))
assert compiled(keys).equal(random_bits(keys, layout.pair_indices, 64))
"""


@pytest.mark.slow
def test_compiled_code_draws_the_same_numbers() -> None:
    """In a process of its own, which ends where the compiled code takes a product for an index."""
    if compiler() is None:
        pytest.skip("no C++ compiler")
    subprocess.run([sys.executable, "-c", COMPILED], check=True)
