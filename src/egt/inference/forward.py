"""Samples through a model, without gradients, in batches of like size.

Dropout at prediction: a trained model runs several times with what it dropped in training, drawn again each time.

A draw is a function of the seed of the run and its number alone, and the same for every graph: as if the draws were
models of their own. So an answer depends neither on the other rows nor on their order, batches or processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from egt.config.run import RunConfig
from egt.data.batching.batch import GraphBatch, LayoutName
from egt.data.batching.loader import IntArray, evaluation_batches, graph_sizes, step_loader
from egt.data.encodings.encoding import Sample
from egt.data.source import Progress
from egt.errors import DataError
from egt.inference.backends import execution, stop_spinning
from egt.nn.model import EGT
from egt.nn.randomness import Dropping, graph_keys
from egt.processes import ALONE, Processes

Mode = Callable[[EGT], AbstractContextManager[None]]  # a state of a model while it computes, without gradients
PAIRS_AT_ONCE = 2_000_000
"""How many pairs are computed at once when the run does not say; a larger graph is computed alone."""

GRAPHS_AT_ONCE = 256
"""How many graphs, if their pairs are few: more were not faster, and fewer leave much of the time to Python."""


def forward(
    model: EGT,
    config: RunConfig,
    samples: Sequence[Sample],
    progress: Progress | None = None,
    processes: Processes = ALONE,
    *,
    stage: str = "predicting",
    layout: LayoutName | None = None,
    num_workers: int = 0,
    in_step: bool = False,
    stop: Callable[[], bool] = lambda: False,
    pose: Callable[[GraphBatch], GraphBatch] = lambda batch: batch,
    mode: Mode | None = None,
) -> Iterator[tuple[IntArray, GraphBatch, Tensor]]:
    """Yield the outputs of a model for all samples, or for the share of one of several processes.

    Args:
        model: on the device that computes.
        config: of its run: layout, pair budget, and a batch size that is taken if it is larger than usual here.
        samples: prepared graphs.
        progress: receives how far it is.
        processes: that share the work.
        stage: what `progress` calls the work.
        layout: of the batches; by default what suits the device.
        num_workers: worker processes that make the batches; 0 makes them here.
        in_step: every process runs the model equally often, as a model that is spread over them needs it.
        stop: is asked after each batch whether to end early.
        pose: what is done to each batch before the model sees it (`Task.posed`).
        mode: what the model is in meanwhile; by default `evaluation_mode`.

    Yields:
        The numbers of the graphs of a batch, the batch on the host, and (rows, outputs) as and where the model gave
        them. Every sample occurs once, in one of the processes.
    """
    stop_spinning()
    sizes = graph_sizes(samples)
    if not len(sizes):
        return
    device = next(model.parameters()).device
    layout = layout or execution(config, device, training=False).layout
    budget = evaluation_budget(config.data.pair_budget, sizes)
    most = graphs_at_once(config.data.batch_size, layout)
    shares = [
        evaluation_batches(sizes, most, layout, pair_budget=budget, rank=rank, num_ranks=processes.count)
        for rank in (range(processes.count) if in_step else [processes.rank])
    ]
    own = shares[processes.rank if in_step else 0]
    # A process with less work than the others repeats a batch of theirs, which counts nowhere.
    spare = shares[0][:1] * (max(map(len, shares)) - len(own))
    done = 0
    with (mode or evaluation_mode)(model):
        loader = step_loader(samples, [[numbers] for numbers in (*own, *spare)], layout, num_workers)
        for k, [batch] in enumerate(loader):
            batch = pose(batch)
            output = model(batch.to(device))
            if k < len(own):
                yield own[k], batch, output
                done += len(own[k])
                if progress is not None:
                    progress(stage, min(done * processes.count, len(sizes)), len(sizes))
            if stop():
                return


def graphs_at_once(batch_size: int, layout: LayoutName) -> int:
    """Return how many graphs at most are computed at once without gradients, within the budget of pairs.

    That budget says nothing about lists of edges: they are taken as in training.
    """
    return batch_size if layout == "edge_list" else max(batch_size, GRAPHS_AT_ONCE)


def evaluation_budget(pair_budget: int | None, sizes: IntArray) -> int:
    """Return the most pairs that are computed at once without gradients: those of a single graph if it has more."""
    return max(pair_budget or PAIRS_AT_ONCE, int(sizes.max()) ** 2)


@contextmanager
def evaluation_mode(model: EGT) -> Iterator[None]:
    """Yield the model in evaluation mode and without gradients; afterwards it is as it was."""
    was_training = model.training
    if was_training:  # else it need not be gone through, module by module, for every few graphs
        model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        if was_training:
            model.train()


def rows_per_graph(samples: Sequence[Sample], numbers: IntArray, level: str) -> list[int]:
    """Return how many rows of the output belong to each graph of a batch."""
    graphs = [samples[k].graph for k in numbers.tolist()]
    if level == "graph":
        return [1] * len(graphs)
    if level == "node":
        return [graph.num_nodes for graph in graphs]
    return [graph.num_edges if graph.query_index is None else graph.query_index.shape[1] for graph in graphs]


def split_rows(rows: Tensor, counts: Sequence[int]) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    """(rows, outputs) cut into the parts of the graphs."""
    array = rows.float().cpu().numpy()
    return np.split(array, np.cumsum(counts)[:-1])


def check_dropout(model: EGT, name: str, samples: int) -> None:
    """Raise a `DataError` for a model without dropout, or for too few draws. name: of its run."""
    if samples < 2:
        raise DataError(f"{samples} dropout samples were asked for; a deviation needs at least 2 (mostly 10 to 50)")
    if not _dropping_parts(model):
        raise DataError(
            f"{name}: this model has no dropout, so that all draws would give one answer; train it with dropout "
            "(--set model.node_dropout=0.1), or several models (--ensemble 5)"
        )


@contextmanager
def dropout_mode(model: EGT) -> Iterator[None]:
    """Let the model drop what it dropped in training, and else be as in `evaluation_mode`: signs are not flipped."""
    parts = _dropping_parts(model)
    with evaluation_mode(model):
        for part in parts:
            part.train()
        try:
            yield
        finally:
            for part in parts:
                part.eval()


def draw(seed: int, number: int) -> Callable[[GraphBatch], GraphBatch]:
    """Return a function that gives a batch the random keys of a draw.

    Draw `number`, from 0, counts as a step before training, where no training step has drawn.
    """
    return lambda batch: replace(batch, random_keys=graph_keys(seed, -1 - number, torch.zeros_like(batch.graph_ids)))


def part_of(progress: Progress | None, number: int, samples: int) -> Progress | None:
    """Return a progress that counts one of the draws as a part of them all."""
    if progress is None:
        return None
    return lambda stage, done, total: progress(stage, (number * (total or 0) + done) // samples, total)


def _dropping_parts(model: EGT) -> list[nn.Module]:
    return [part for part in model.modules() if isinstance(part, Dropping) and part.drops]
