"""Which graphs are computed when: pure functions of (seed, epoch, position, rank), so any step can be repeated.

Planned batches -> tensors, in worker processes if asked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from egt.data.batching.batch import GraphBatch, LayoutName, collate
from egt.data.encodings.encoding import Sample
from egt.data.preparing import end_with_parent
from egt.data.source import OnDemand
from egt.errors import ConfigError

IntArray = NDArray[np.int64]

MAX_PADDED_SHARE = 0.1
"""Groups for the padded layout are made so that at most this share of their pair cells is padding."""


def split(sizes: IntArray, layout: LayoutName, pair_budget: int | None = None) -> list[IntArray]:
    """Return groups of graphs, each sorted by size: as few as the layout and the pair budget allow.

    The padded layout takes graphs of like size together; the others have no padding and need no groups. The budget is
    the most pair cells, padding included, that a group may have; it means nothing to "edge_list". Of the (B,) sizes,
    each position occurs in exactly one group.
    """
    order = np.argsort(sizes, kind="stable")
    sorted_sizes = sizes[order]
    groups = _like_sizes(sorted_sizes) if layout == "padded" else [np.arange(len(sizes))]
    if pair_budget is None or layout == "edge_list":
        return [order[group] for group in groups if len(group)]
    parts = (part for group in groups for part in _within(sorted_sizes[group], layout, pair_budget, group))
    return [order[part] for part in parts if len(part)]


def _like_sizes(sorted_sizes: IntArray) -> list[IntArray]:
    """Find the fewest groups of neighbors in size whose padding stays below the limit (dynamic program)."""
    values, counts = np.unique(sorted_sizes, return_counts=True)
    last = np.cumsum(counts)
    start = last - counts
    real = int((sorted_sizes**2).sum())
    # cells[a, b]: pair cells of one group with the sizes a..b.
    cells = (last[None, :] - start[:, None]) * (values**2)[None, :].astype(np.float64)
    cells[np.tril_indices(len(values), -1)] = np.inf
    best, cuts = cells[0], list[IntArray]()  # best[b]: cells of the sizes up to b in len(cuts) + 1 groups
    while best[-1] * (1 - MAX_PADDED_SHARE) > real:
        options = best[:-1, None] + cells[1:, :]  # the last group starts at size 1 + row
        cuts.append(np.argmin(options, axis=0))
        best = options.min(axis=0)
    end, groups = len(values) - 1, list[IntArray]()
    for cut in reversed(cuts):
        groups.append(np.arange(start[cut[end] + 1], last[end]))
        end = int(cut[end])
    groups.append(np.arange(last[end]))
    return groups[::-1]


def _within(sizes: IntArray, layout: LayoutName, pair_budget: int, group: IntArray) -> Iterator[IntArray]:
    """Cut a sorted group where it would exceed the budget."""
    first, pairs = 0, 0
    for k, size in enumerate(sizes.tolist()):
        pairs = pairs + size**2 if layout == "packed" else (k + 1 - first) * size**2
        if pairs > pair_budget and k > first:
            yield group[first:k]
            first, pairs = k, size**2
    yield group[first:]


def check_budget(sizes: IntArray, layout: LayoutName, pair_budget: int | None) -> None:
    """Raise a `ConfigError` that names the largest graph when it alone exceeds the budget."""
    if pair_budget is None or layout == "edge_list" or not len(sizes):
        return
    largest = int(np.argmax(sizes))
    nodes = int(sizes[largest])
    if nodes**2 > pair_budget:
        raise ConfigError(
            f"graph {largest} has {nodes} nodes, {nodes**2:,} pairs, more than data.pair_budget {pair_budget:,} allows "
            f"at once; raise data.pair_budget to at least {nodes**2} or leave such graphs out"
        )


_WINDOW = 64
"""Buckets are sorted inside windows of this many batches: near-equal sizes, yet other companions in every epoch."""


@dataclass(frozen=True, eq=False)
class Sampling:
    """The optimizer steps of an epoch, each a set of graphs, and how a process computes its share of them.

    "exact" takes random batches, as the paper does, whose graphs are then grouped by size: the gradient is that of the
    whole batch. "buckets" makes batches of like size. Nothing is dropped, nothing occurs twice. A process computes up
    to `pair_budget` pairs at once; a batch is that of all processes, and a step has `accumulate` of them.
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
        """Return the steps of an epoch from position `start` on."""
        return Epoch(self, _cut(self._batches(epoch), self.accumulate)[start:])

    def _batches(self, epoch: int) -> list[IntArray]:
        """Return all batches of an epoch, over all processes."""
        order = permutation(len(self.sizes), self.seed, epoch)
        if self.mode == "exact":
            return _cut(order, self.batch_size)
        batches = []
        for window in _cut(order, _WINDOW * self.batch_size):
            batches += _cut(window[np.argsort(self.sizes[window], kind="stable")], self.batch_size)
        return [batches[k] for k in permutation(len(batches), self.seed, epoch, 1)]


class Epoch(OnDemand[list[IntArray]]):
    """The steps of an epoch; entry k is what this process computes for step k.

    That is a list of micro-batches, each the numbers of its graphs sorted by size.

    Attributes:
        steps: for each step its batches, each the numbers of its graphs, over all processes.
    """

    def __init__(self, sampling: Sampling, steps: Sequence[Sequence[IntArray]]) -> None:
        self.sampling, self.steps = sampling, steps

    def __len__(self) -> int:
        return len(self.steps)

    def item(self, index: int) -> list[IntArray]:
        """Return what this process computes for a step."""
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
    """Draw an order of 0..length-1 from the key alone (not from numpy's version: its raw bits are stable)."""
    bits: NDArray[np.uint64] = np.random.PCG64(np.random.SeedSequence(key)).random_raw(length)
    return np.argsort(bits, kind="stable")


_Rows = TypeVar("_Rows", IntArray, list[IntArray])


def _cut(rows: _Rows, length: int) -> list[_Rows]:
    return [rows[start : start + length] for start in range(0, len(rows), length)]


Plan = Sequence[IntArray]  # the micro-batches of a step, each the numbers of its graphs


def graph_sizes(samples: Sequence[Sample]) -> IntArray:
    """(n,) number of nodes of each graph; a store knows them without reading the graphs."""
    known = getattr(samples, "sizes", None)
    if known is None:
        known = [sample.graph.num_nodes for sample in samples]
    return np.asarray(known, dtype=np.int64)


def in_epoch(samples: Sequence[Sample], epoch: int) -> Sequence[Sample]:
    """Return the samples of an epoch: the same in each one, unless they are drawn, as the pieces of large graphs."""
    drawn: Sequence[Sample] = samples.in_epoch(epoch) if hasattr(samples, "in_epoch") else samples
    return drawn


class _Steps(Dataset[list[GraphBatch]]):
    """The batches of a plan. The number of a graph in the data set is its `graph_ids` entry."""

    def __init__(self, samples: Sequence[Sample], layout: LayoutName) -> None:
        self.samples, self.layout = samples, layout

    def __getitem__(self, plan: Any) -> list[GraphBatch]:
        return [collate([self.samples[k] for k in group.tolist()], self.layout, group.tolist()) for group in plan]


def step_loader(
    samples: Sequence[Sample], plans: Sequence[Plan], layout: LayoutName, num_workers: int = 0
) -> DataLoader[list[GraphBatch]]:
    """Return a loader of the micro-batches of each plan, in order, whatever the number of workers.

    `plans` may make them when they are asked for. Worker processes collate; with 0 of them this process does it.
    """
    return DataLoader(
        _Steps(samples, layout),
        batch_size=None,
        sampler=plans,
        num_workers=num_workers,
        # Forked workers start at once and end with their parent, whatever way this process itself was started.
        multiprocessing_context="fork" if num_workers and sys.platform == "linux" else None,
        worker_init_fn=_stand_apart,
        collate_fn=list,
        generator=torch.Generator(),  # its own, so that loading never touches the global one
    )


def _stand_apart(_: int) -> None:
    """In a worker: Ctrl-C and signals to all processes of a command are for the main one, which ends its workers.

    Where that one is killed, torch ends them, except a worker that has only just been started.
    """
    if os.name == "posix":
        os.setpgid(0, 0)
    end_with_parent()
