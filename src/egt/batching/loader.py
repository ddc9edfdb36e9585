"""Planned batches -> tensors, in worker processes if asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from egt.batching.batch import GraphBatch, LayoutName, collate
from egt.batching.sampling import IntArray
from egt.encodings.encoding import Sample
from egt.encodings.store.workers import end_with_parent

Plan = Sequence[IntArray]
"""The micro-batches of a step, each the numbers of its graphs."""


def graph_sizes(samples: Sequence[Sample]) -> IntArray:
    """(n,) number of nodes of each graph; a store knows them without reading the graphs."""
    known = getattr(samples, "sizes", None)
    if known is None:
        known = [sample.graph.num_nodes for sample in samples]
    return np.asarray(known, dtype=np.int64)


@runtime_checkable
class Redrawn(Protocol):
    """Samples that are others in each epoch, such as the pieces of large graphs."""

    def in_epoch(self, epoch: int) -> Sequence[Sample]:
        """Return those of an epoch; as many as there are of any other."""


def in_epoch(samples: Sequence[Sample], epoch: int) -> Sequence[Sample]:
    """Return the samples of an epoch: the same in each one, unless they are drawn."""
    return samples.in_epoch(epoch) if isinstance(samples, Redrawn) else samples


class _Steps(Dataset[list[GraphBatch]]):
    """The batches of a plan. The number of a graph in the data set is its `graph_ids` entry."""

    def __init__(self, samples: Sequence[Sample], layout: LayoutName) -> None:
        self.samples, self.layout = samples, layout

    def __getitem__(self, plan: Any) -> list[GraphBatch]:
        return [collate([self.samples[k] for k in group.tolist()], self.layout, group.tolist()) for group in plan]


class _Plans(Sampler[Plan]):
    """Hands out plans in order, instead of numbers."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.plans = plans

    def __iter__(self) -> Iterator[Plan]:
        return iter(self.plans)

    def __len__(self) -> int:
        return len(self.plans)


def step_loader(
    samples: Sequence[Sample], plans: Sequence[Plan], layout: LayoutName, num_workers: int = 0
) -> DataLoader[list[GraphBatch]]:
    """Return a loader of the micro-batches of each plan, in order, whatever the number of workers.

    Args:
        samples: prepared graphs.
        plans: what each step computes; may make the plans when they are asked for.
        layout: of the batches.
        num_workers: worker processes that collate; 0 does it in this one.
    """
    return DataLoader(
        _Steps(samples, layout),
        batch_size=None,
        sampler=_Plans(plans),
        num_workers=num_workers,
        # Forked workers start at once and end with their parent, whatever way this process itself was started.
        multiprocessing_context="fork" if num_workers and sys.platform == "linux" else None,
        worker_init_fn=_stand_apart,
        collate_fn=_as_it_is,
        generator=torch.Generator(),  # its own, so that loading never touches the global one
    )


def _stand_apart(_: int) -> None:
    """In a worker: Ctrl-C and signals to all processes of a command are for the main one, which ends its workers.

    Where that one is killed, torch ends them, except a worker that has only just been started.
    """
    if os.name == "posix":
        os.setpgid(0, 0)
    end_with_parent()


def _as_it_is(batches: list[GraphBatch]) -> list[GraphBatch]:
    return batches
