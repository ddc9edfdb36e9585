"""Dropout at prediction: a trained model runs several times with what it dropped in training, drawn again each time.

A draw is a function of the seed of the run and its number alone, and the same for every graph: as if the draws were
models of their own. So an answer depends neither on the other rows nor on their order, batches or processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn

from egt.batching.batch import GraphBatch
from egt.errors import DataError
from egt.inference.forward import evaluating
from egt.model import EGT
from egt.nn.dropout import Dropping
from egt.nn.randomness import graph_keys
from egt.sources.source import Progress


def check_dropout(model: EGT, name: str, samples: int) -> None:
    """Raise a `DataError` for a model without dropout, or for too few draws.

    Args:
        model: that is to answer.
        name: of its run.
        samples: how many draws are wanted.
    """
    if samples < 2:
        raise DataError(f"{samples} dropout samples were asked for; a deviation needs at least 2 (mostly 10 to 50)")
    if not _dropping_parts(model):
        raise DataError(
            f"{name}: this model has no dropout, so that all draws would give one answer; train it with dropout "
            "(--set model.node_dropout=0.1), or several models (--ensemble 5)"
        )


@contextmanager
def dropping(model: EGT) -> Iterator[None]:
    """Yield the model as `evaluating` does, except that it drops what it dropped in training; signs are not flipped."""
    parts = _dropping_parts(model)
    with evaluating(model):
        for part in parts:
            part.train()
        try:
            yield
        finally:
            for part in parts:
                part.eval()


def draw(seed: int, number: int) -> Callable[[GraphBatch], GraphBatch]:
    """Return what gives a batch the random keys of a draw.

    Args:
        seed: of the run.
        number: of the draw, from 0; it counts as a step before training, where no training step has drawn.
    """

    def posed(batch: GraphBatch) -> GraphBatch:
        return replace(batch, random_keys=graph_keys(seed, -1 - number, torch.zeros_like(batch.graph_ids)))

    return posed


def part_of(progress: Progress | None, number: int, samples: int) -> Progress | None:
    """Return what tells `progress` about one of the draws as a part of them all."""
    if progress is None:
        return None
    return lambda stage, done, total: progress(stage, (number * (total or 0) + done) // samples, total)


def _dropping_parts(model: EGT) -> list[nn.Module]:
    return [part for part in model.modules() if isinstance(part, Dropping) and part.drops]
