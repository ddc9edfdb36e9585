"""Many copies of one graph through a model, each with its embeddings scaled: parts of the input turned down or off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from egt.analysis.margins import margins
from egt.batching.batch import GraphBatch, LayoutName, collate
from egt.encodings.encoding import Sample
from egt.graph import IntArray
from egt.model import EGT
from egt.nn.channels import Channels
from egt.tasks.task import Task

Factors = NDArray[np.float32]
PAIRS_AT_ONCE = 200_000
"""Of the copies that are computed together."""


@dataclass(frozen=True, eq=False)
class Question:
    """One number of a prediction (of a class: its log-odds), as a function of the embeddings of one graph.

    Fields:
        model: in evaluation mode.
        task: decodes its output.
        sample: the graph.
        layout: of the copies.
        row: of the prediction: 0 for a graph, else the number of the node, edge or query pair.
        column: of the prediction: the target or class.
    """

    model: EGT
    task: Task
    sample: Sample
    layout: LayoutName
    row: int = 0
    column: int = 0

    @cached_property
    def pair_index(self) -> IntArray:
        """(2, P) the nodes of each pair that has a row in the edge channel."""
        at = collate([self.sample], self.layout).layout
        i, j = (index.expand(at.pair_shape).flatten() for index in (at.pair_indices.i, at.pair_indices.j))
        return torch.stack([i, j]).numpy()

    def asked_of(self, model: EGT) -> Question:
        """Return the same question to another model."""
        return replace(self, model=model)

    def ends(self) -> tuple[float, float]:
        """Return the answer for the graph, and for no input at all: every embedding zero."""
        every = np.array([[1.0], [0.0]], np.float32)
        sizes = self.sample.graph.num_nodes, self.pair_index.shape[1]
        value, nothing = self.values(*(every.repeat(size, 1) for size in sizes)).tolist()
        return value, nothing

    def values(self, nodes: Factors, pairs: Factors) -> NDArray[np.float64]:
        """Return the answer for copies whose embeddings are multiplied by factors.

        Args:
            nodes: (C, N) factors of the node embeddings of each copy.
            pairs: (C, P) factors of its pair embeddings.
        """
        found: list[NDArray[np.float64]] = []
        for some in self._parts(len(nodes)):
            with torch.inference_mode(), _scaled(self.model, *map(torch.from_numpy, (nodes[some], pairs[some]))):
                found.append(self.answers(self._copies(len(nodes[some]))).double().cpu().numpy())
        return np.concatenate(found)

    def gradients(self, shares: Factors, weights: Factors) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return embeddings times the weighted sum of the answer's gradients at shares of them, summed over channels.

        Args:
            shares: (C,) the factor of all embeddings of each copy.
            weights: (C,) of the copies.

        Returns:
            (N,) of the nodes and (P,) of the pairs.
        """
        num_nodes, num_pairs = self.sample.graph.num_nodes, self.pair_index.shape[1]
        nodes, pairs = np.zeros(num_nodes), np.zeros(num_pairs)
        for some in self._parts(len(shares)):
            factor, weight = (torch.from_numpy(values[some]) for values in (shares, weights))
            with _scaled(
                self.model, factor[:, None].expand(-1, num_nodes), factor[:, None].expand(-1, num_pairs)
            ) as at:
                answer = self.answers(self._copies(len(factor)))
            slopes = torch.autograd.grad(answer.sum(), [at.h, at.e], allow_unused=True)
            for total, slope, leaf, size in ((nodes, slopes[0], at.h, num_nodes), (pairs, slopes[1], at.e, num_pairs)):
                if slope is not None:
                    product = (slope * leaf.detach()).sum(-1).view(-1, size).cpu()  # leaf is factor times embedding
                    total += (product * (weight / factor)[:, None]).sum(0).double().numpy()
        return nodes, pairs

    def answers(self, batch: GraphBatch) -> Tensor:
        """Return the answer for each graph of a batch of copies, (C,)."""
        rows = margins(self.task, self.model(batch))
        return rows.view(batch.num_graphs, -1, rows.shape[-1])[:, self.row, self.column]

    def _copies(self, count: int) -> GraphBatch:
        return collate([self.sample] * count, self.layout).to(next(self.model.parameters()).device)

    def _parts(self, count: int) -> list[slice]:
        pairs = self.pair_index.shape[1] + 16 * self.sample.graph.num_nodes  # and those with some virtual nodes
        at_once = max(1, PAIRS_AT_ONCE // pairs)
        return [slice(start, start + at_once) for start in range(0, count, at_once)]


@dataclass(eq=False)
class _At:
    """The scaled embeddings of a pass, leaves of its gradient."""

    h: Tensor
    e: Tensor


@contextmanager
def _scaled(model: EGT, nodes: Tensor, pairs: Tensor) -> Iterator[_At]:
    """Multiply the embeddings that enter the model. nodes: (C, N), pairs: (C, P)."""
    at = _At(nodes, pairs)
    handle = model.embed.register_forward_hook(_scaling(at, nodes, pairs))
    try:
        yield at
    finally:
        handle.remove()


def _scaling(at: _At, nodes: Tensor, pairs: Tensor) -> Callable[[Any, Any, Channels], Channels]:
    def scale(_: Any, __: Any, x: Channels) -> Channels:
        at.h = (x.h.detach() * nodes.to(x.h).reshape(*x.h.shape[:-1], 1)).requires_grad_(torch.is_grad_enabled())
        at.e = (x.e.detach() * pairs.to(x.e).reshape(*x.e.shape[:-1], 1)).requires_grad_(torch.is_grad_enabled())
        return replace(x, h=at.h, e=at.e)

    return scale
