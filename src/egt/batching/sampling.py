"""Which graphs are computed when: pure functions of (seed, epoch, position, rank), so any step can be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from egt.batching.batch import LayoutName
from egt.batching.groups import IntArray, check_budget, split

_WINDOW = 64
"""Buckets are sorted inside windows of this many batches: near-equal sizes, yet other companions in every epoch."""


@dataclass(frozen=True, eq=False)
class Sampling:
    """The optimizer steps of an epoch, each a set of graphs, and how a process computes its share of them.

    "exact" takes random batches, as the paper does, whose graphs are then grouped by size: the gradient is that of
    the whole batch. "buckets" makes batches of like size. Nothing is dropped, nothing occurs twice.

    Args:
        sizes: (n,) number of nodes of each graph.
        batch_size: graphs of a batch, over all processes.
        seed: of the order.
        mode: "exact" or "buckets".
        layout: how a micro-batch is stored.
        pair_budget: the most pair cells that a process computes at once.
        accumulate: batches of an optimizer step.
        rank: which process this is.
        num_ranks: how many processes share a batch.
    """

    sizes: IntArray
    batch_size: int
    seed: int = 0
    mode: Literal["exact", "buckets"] = "exact"
    layout: LayoutName = "packed"
    pair_budget: int | None = None
    accumulate: int = 1
    rank: int = 0
    num_ranks: int = 1

    def __post_init__(self) -> None:
        check_budget(self.sizes, self.pair_budget)

    @property
    def num_steps(self) -> int:
        """Optimizer steps of an epoch."""
        num_batches = -(-len(self.sizes) // self.batch_size)
        return -(-num_batches // self.accumulate)

    def batches(self, epoch: int, position: int) -> list[IntArray]:
        """The batches of a step, each the numbers of its graphs, over all processes."""
        epoch_batches = self._epochs(epoch)
        return epoch_batches[position * self.accumulate : (position + 1) * self.accumulate]

    def step(self, epoch: int, position: int) -> list[IntArray]:
        """What this process computes for a step: micro-batches, each the numbers of its graphs sorted by size.

        Graphs of a batch are dealt out in order of size, so that every process has like work.
        """
        micro = []
        for batch in self.batches(epoch, position):
            own = batch[np.argsort(self.sizes[batch], kind="stable")][self.rank :: self.num_ranks]
            groups = split(self.sizes[own], self.layout, pair_budget=self.pair_budget)
            micro += [own[group] for group in groups]
        return micro

    def steps(self, epoch: int, start: int = 0) -> Iterator[list[IntArray]]:
        """The steps of an epoch from position `start` on."""
        return (self.step(epoch, position) for position in range(start, self.num_steps))

    @cached_property
    def _epochs(self) -> lru_cache[list[IntArray]]:  # type: ignore[type-arg]
        return lru_cache(maxsize=2)(self._epoch)

    def _epoch(self, epoch: int) -> list[IntArray]:
        """All batches of an epoch."""
        order = permutation(len(self.sizes), self.seed, epoch)
        if self.mode == "exact":
            return _cut(order, self.batch_size)
        batches = []
        for window in _cut(order, _WINDOW * self.batch_size):
            batches += _cut(window[np.argsort(self.sizes[window], kind="stable")], self.batch_size)
        return [batches[k] for k in permutation(len(batches), self.seed, epoch, 1)]


def evaluation_batches(
    sizes: IntArray,
    batch_size: int,
    layout: LayoutName,
    *,
    pair_budget: int | None = None,
    rank: int = 0,
    num_ranks: int = 1,
) -> list[IntArray]:
    """Batches of like size in which this process evaluates its share of a split; together every graph occurs once.

    Arguments as in `Sampling`. Returns the numbers of the graphs of each batch.
    """
    check_budget(sizes, pair_budget)
    own = np.argsort(sizes, kind="stable")[rank::num_ranks]
    return [
        batch[group]
        for batch in _cut(own, batch_size)
        for group in split(sizes[batch], layout, pair_budget=pair_budget)
    ]


def permutation(length: int, *key: int) -> IntArray:
    """A random order of 0..length-1 that depends on the key alone (and not on numpy's version: raw bits are stable)."""
    bits: NDArray[np.uint64] = np.random.PCG64(np.random.SeedSequence(key)).random_raw(length)
    return np.argsort(bits, kind="stable")


def _cut(array: IntArray, length: int) -> list[IntArray]:
    return [array[start : start + length] for start in range(0, len(array), length)]
