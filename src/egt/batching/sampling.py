"""Which graphs are computed when: pure functions of (seed, epoch, position, rank), so any step can be repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, overload

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
        check_budget(self.sizes, self.layout, self.pair_budget)

    @property
    def num_steps(self) -> int:
        """Optimizer steps of an epoch."""
        num_batches = -(-len(self.sizes) // self.batch_size)
        return -(-num_batches // self.accumulate)

    def epoch(self, epoch: int, start: int = 0) -> Epoch:
        """The steps of an epoch from position `start` on."""
        batches = self._batches(epoch)
        steps = _cut(batches, self.accumulate)[start:]
        return Epoch(self, steps)

    def _batches(self, epoch: int) -> list[IntArray]:
        """All batches of an epoch, over all processes."""
        order = permutation(len(self.sizes), self.seed, epoch)
        if self.mode == "exact":
            return _cut(order, self.batch_size)
        batches = []
        for window in _cut(order, _WINDOW * self.batch_size):
            batches += _cut(window[np.argsort(self.sizes[window], kind="stable")], self.batch_size)
        return [batches[k] for k in permutation(len(batches), self.seed, epoch, 1)]


class Epoch(Sequence[list[IntArray]]):
    """The steps of an epoch; entry k is what this process computes for step k.

    That is a list of micro-batches, each the numbers of its graphs sorted by size.

    Attributes:
        steps: for each step its batches, each the numbers of its graphs, over all processes.
    """

    def __init__(self, sampling: Sampling, steps: Sequence[Sequence[IntArray]]) -> None:
        self.sampling, self.steps = sampling, steps

    def __len__(self) -> int:
        return len(self.steps)

    @overload
    def __getitem__(self, index: int) -> list[IntArray]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[IntArray]]: ...
    def __getitem__(self, index: int | slice) -> list[IntArray] | list[list[IntArray]]:
        """What this process computes for a step."""
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        how, micro_batches = self.sampling, []
        for batch in self.steps[index]:
            # Dealt out in order of size, so that every process has like work.
            own = batch[np.argsort(how.sizes[batch], kind="stable")][how.rank :: how.num_ranks]
            micro_batches += [own[group] for group in split(how.sizes[own], how.layout, how.pair_budget)]
        return micro_batches


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
    check_budget(sizes, layout, pair_budget)
    own = np.argsort(sizes, kind="stable")[rank::num_ranks]
    return [batch[group] for batch in _cut(own, batch_size) for group in split(sizes[batch], layout, pair_budget)]


def permutation(length: int, *key: int) -> IntArray:
    """A random order of 0..length-1 that depends on the key alone (and not on numpy's version: raw bits are stable)."""
    bits: NDArray[np.uint64] = np.random.PCG64(np.random.SeedSequence(key)).random_raw(length)
    return np.argsort(bits, kind="stable")


_Rows = TypeVar("_Rows", IntArray, list[IntArray])


def _cut(rows: _Rows, length: int) -> list[_Rows]:
    return [rows[start : start + length] for start in range(0, len(rows), length)]
