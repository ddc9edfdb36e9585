"""How much each node and each pair of a graph matters for one prediction: by attention rollout and by gradients.

Faithfulness says whether to believe it: how far the prediction moves when the most important parts are masked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from egt.assemble import build_model
from egt.config.run import RunConfig
from egt.data.batching.batch import LayoutName, collate
from egt.data.encodings.encoding import Sample
from egt.graph import Graph, IntArray
from egt.inference.attention_capture import Attention
from egt.inference.backends import BACKENDS
from egt.nn.channels import Channels
from egt.nn.model import EGT
from egt.parts.tasks.task import Task

Factors = NDArray[np.float32]
Floats = NDArray[np.float64]
PAIRS_AT_ONCE = 200_000  # the pairs of all copies that are computed together
STEPS = (32, 128, 512)  # the numbers of steps of integrated gradients
MOST_PAIRS = 3_000_000  # the most pairs that all steps together compute for a graph, which takes some seconds
LARGEST_GAP = 0.1  # values whose sum misses its target by more than this part of their size are not believed
_NEAR_CERTAIN = 1e-6


def margins(task: Task, outputs: Tensor) -> Tensor:
    """Return numbers decoded, and of classes the log-odds, log p / (1 - p); (rows, outputs), like the outputs.

    A probability near 1 hardly moves under any mask, and has no gradient; log-odds do not saturate. With an output
    for each class they are z_c - log sum_(k != c) exp z_k, with one for yes and no they are that output.
    """
    decoded = task.decode(outputs)
    if len(pieces := task.part.pieces) > 1:  # each target has one output
        return torch.cat(
            [(outputs.float() if piece.part.has_classes else decoded)[:, piece.targets] for piece in pieces], dim=1
        )
    if not pieces[0].part.has_classes:
        return decoded
    z = outputs.float()
    odds = z
    if task.part.num_outputs != len(task.part.names):
        itself = torch.eye(z.shape[1], dtype=torch.bool, device=z.device)
        others = z[:, None].expand(-1, z.shape[1], -1).masked_fill(itself, -torch.inf)  # (rows, C, C)
        odds = z - others.logsumexp(-1)
    if torch.allclose(odds.sigmoid(), decoded, atol=1e-4):
        return odds
    return decoded.logit(_NEAR_CERTAIN)  # a task of another package, whose outputs are no logits


@dataclass(frozen=True, eq=False)
class Question:
    """One number of a prediction (of a class: its log-odds), as a function of the embeddings of one graph.

    Fields:
        layout: The layout of the copies of the graph.
        row: 0 for a graph, else the number of the node, edge or query pair.
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

    def ends(self) -> tuple[float, float]:
        """Return the answer for the graph, and for no input at all: every embedding zero."""
        every = np.array([[1.0], [0.0]], np.float32)
        sizes = self.sample.graph.num_nodes, self.pair_index.shape[1]
        value, nothing = self.values(*(every.repeat(size, 1) for size in sizes)).tolist()
        return value, nothing

    def values(self, nodes: Factors, pairs: Factors) -> Floats:
        """Return the answer for copies whose embeddings are scaled: nodes (C, N) and pairs (C, P) have the factors."""
        values: list[Floats] = []
        for some in self._parts(len(nodes)):
            with (
                torch.inference_mode(),
                _scale_embeddings(self.model, *map(torch.from_numpy, (nodes[some], pairs[some]))),
            ):
                values.append(self._answers(len(nodes[some])).double().cpu().numpy())
        return np.concatenate(values)

    def gradients(self, shares: Factors, weights: Factors) -> tuple[Floats, Floats]:
        """Return embeddings times the weighted sum of the answer's gradients at shares of them, summed over channels.

        shares: (C,) the factor of all embeddings of each copy; weights: (C,). Returns (N,) and (P,).
        """
        num_nodes, num_pairs = self.sample.graph.num_nodes, self.pair_index.shape[1]
        nodes, pairs = np.zeros(num_nodes), np.zeros(num_pairs)
        for some in self._parts(len(shares)):
            factor, weight = (torch.from_numpy(values[some])[:, None] for values in (shares, weights))
            with _scale_embeddings(self.model, factor.expand(-1, num_nodes), factor.expand(-1, num_pairs)) as leaves:
                answer = self._answers(len(factor))
            slopes = torch.autograd.grad(answer.sum(), leaves, allow_unused=True)
            for total, slope, leaf in zip((nodes, pairs), slopes, leaves, strict=True):
                if slope is not None:
                    product = (slope * leaf.detach()).sum(-1).view(-1, len(total)).cpu()  # leaf: factor times embedding
                    total += (product * (weight / factor)).sum(0).double().numpy()
        return nodes, pairs

    def _answers(self, count: int) -> Tensor:
        """Return the answer for each copy of the graph, (C,)."""
        batch = collate([self.sample] * count, self.layout).to(next(self.model.parameters()).device)
        rows = margins(self.task, self.model(batch))
        return rows.view(count, -1, rows.shape[-1])[:, self.row, self.column]

    def _parts(self, count: int) -> list[slice]:
        pairs = self.pair_index.shape[1] + 16 * self.sample.graph.num_nodes  # and those with some virtual nodes
        at_once = max(1, PAIRS_AT_ONCE // pairs)
        return [slice(start, start + at_once) for start in range(0, count, at_once)]


@contextmanager
def _scale_embeddings(model: EGT, nodes: Tensor, pairs: Tensor) -> Iterator[list[Tensor]]:
    """Multiply the embeddings of a model by factors, (C, N) and (C, P); the list gets the products, h and e."""
    leaves: list[Tensor] = []

    def scale(_: Any, __: Any, x: Channels) -> Channels:
        leaves[:] = (
            (channel.detach() * factor.to(channel).reshape(*channel.shape[:-1], 1)).requires_grad_(
                torch.is_grad_enabled()
            )
            for channel, factor in ((x.h, nodes), (x.e, pairs))
        )
        return replace(x, h=leaves[0], e=leaves[1])

    handle = model.embed.register_forward_hook(scale)
    try:
        yield leaves
    finally:
        handle.remove()


@dataclass(frozen=True, eq=False)
class Importance:
    """What one method says.

    Fields:
        nodes: (N,).
        pairs: (P,).
        signed: Whether a negative value means that the part lowers the prediction.
        gap: The part of their size by which the values miss their target sum; 0 where they have none.
    """

    method: str
    nodes: Floats
    pairs: Floats
    signed: bool
    gap: float = 0.0

    @property
    def adds_up(self) -> bool:
        """Whether the values add up to the prediction."""
        return abs(self.gap) <= LARGEST_GAP

    def of_edges(self, members: IntArray) -> Floats:
        """Return the importance of edges, (E,): the sum over the pairs of each. members: (P,) edge of a pair or -1."""
        kept = members >= 0
        sums = np.bincount(members[kept], self.pairs[kept], minlength=int(members.max(initial=-1)) + 1)
        return sums.astype(np.float64)


def edges_of(graph: Graph, pair_index: IntArray) -> tuple[IntArray, IntArray]:
    """Return (2, E) the edges of a graph without direction, i <= j, and (P,) the edge of each pair, -1 without one."""
    low, high = np.sort(graph.edge_index, axis=0)
    codes = np.unique(low * graph.num_nodes + high)
    pair_low, pair_high = np.sort(pair_index, axis=0)
    pair_codes = pair_low * graph.num_nodes + pair_high
    place = np.searchsorted(codes, pair_codes)
    found = np.isin(pair_codes, codes)
    return np.stack(np.divmod(codes, graph.num_nodes)), np.where(found, place, -1)


def integrated_gradients(question: Question, steps: Sequence[int] = STEPS) -> Importance:
    """Return the integral of the gradient from no input (all embeddings zero) to the input, times the embeddings.

    Sundararajan et al. 2017. A zero embedding is what a model gives to a category that it never saw. The values of all
    nodes and pairs add up to the prediction minus the one for no input, up to the error of the rule: midpoints of t,
    with t^4 of the input, as layer norms make most of the way in the first hundredth of it. The next number of steps is
    tried if they do not add up and the graph is not too large.
    """
    value, nothing = question.ends()
    for count in steps:
        t = (np.arange(count) + 0.5) / count
        nodes, pairs = question.gradients((t**4).astype(np.float32), (4 * t**3 / count).astype(np.float32))
        size = float(np.abs(nodes).sum() + np.abs(pairs).sum())
        gap = float(nodes.sum() + pairs.sum() - (value - nothing))
        if abs(gap) <= 0.02 * size or 4 * count * len(pairs) > MOST_PAIRS:
            break
    return Importance("gradients", nodes, pairs, signed=True, gap=gap / max(size, 1e-30))


def rollout(found: Attention, readers: Floats) -> Importance:
    """Follow the prediction back through the layers to the nodes that it came from.

    A layer hands node i the share 1 / (1 + w_i) of what it had and A_ij / (1 + w_i) of node j, with A_ij = mean over
    heads of s_i A_tilde_ij (gates and scalers included) and w_i = sum_j A_ij. Abnar and Zuidema 2020, except that
    closed gates let less pass.

    readers: (n,) the share of each node, virtual ones first, in the prediction; adds up to 1. Returns the share of each
    node in the prediction's sources, and for each pair (i, j) the flow from j to i in all layers.
    """
    i, j = found.pair_index
    size = found.num_nodes
    pairs = np.zeros(len(i))
    for product, scalers in zip(found.product[::-1], found.scalers[::-1], strict=True):
        weight = (product * scalers[:, i]).mean(0).astype(np.float64)  # (P,)
        kept = 1 / (1 + np.bincount(i, weight, minlength=size))  # (n,)
        flow = readers[i] * kept[i] * weight
        pairs += np.where(i != j, flow, 0.0)
        readers = readers * kept + np.bincount(j, flow, minlength=size)
    q = found.num_virtual
    real = (i >= q) & (j >= q)
    return Importance("rollout", readers[q:], pairs[real], signed=False)


def readers_of(found: Attention, level: str, row: int, pairs: IntArray) -> Floats:
    """Return the share of each node, (n,), in one row of a prediction; pairs: (2, R) the edges or pairs of its rows."""
    q, readers = found.num_virtual, np.zeros(found.num_nodes)
    if level == "graph":
        readers[: q or None] = 1.0
    elif level == "node":
        readers[q + row] = 1.0
    else:
        readers[q + pairs[:, row]] = 1.0
    shares: Floats = readers / readers.sum()
    return shares


SHARE = 0.25  # the share of the parts that is masked, at least two parts where there are four
UNTRAINED = 3  # the number of models with fresh random weights to compare with
UNTRAINED_DRAWS = 20  # the number of random masks for each of them
FACTOR = 2.0  # a trained model must move farther than those by this factor


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """How the prediction moves without some parts of the input.

    Fields:
        word: The same as users of the data say it.
        top: The distance that the prediction moves without the most important parts.
        random: (draws) the distances without as many parts drawn at random from all others.
        untrained: The largest distance that models with random weights move under these masks.
    """

    parts: str
    word: str
    size: int
    of: int
    top: float
    random: Floats
    untrained: float

    @property
    def score(self) -> float:
        """How much farther the prediction moves than without random parts, on average."""
        return float(self.top - self.random.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """The range of `score` over the random draws: the 5th and 95th percentile."""
        low, high = np.percentile(self.top - self.random, [5, 95])
        return float(low), float(high)

    @property
    def doubts(self) -> list[str]:
        """The reasons not to believe the explanation, in words."""
        if self.of < 2:
            return [f"there are too few {self.word} to compare"]
        doubts = []
        if not self.interval[0] > 0:  # nor is NaN a proof
            share = np.mean(self.random >= self.top)
            doubts.append(
                f"masking {self.size} other {self.word} at random moves the prediction as much as masking the top "
                f"{self.size} in {100 * share:.0f}% of the draws"
            )
        if not self.top > FACTOR * self.untrained:
            doubts.append(
                f"masking the top {self.size} {self.word} moves it by {self.top:.3g}, and an untrained model moves by "
                f"up to {self.untrained:.3g} under such masks"
            )
        return doubts


def faithfulness(
    question: Question,
    twins: Sequence[EGT],
    parts: str,
    word: str,
    importance: Mapping[str, Floats],
    draws: int,
    members: IntArray | None = None,
) -> dict[str, Faithfulness]:
    """Mask the most important parts of each method, and as many random ones of the others, several times.

    The others alone: where the prediction rests on a single part, many of all random choices would have it too.

    importance: method -> (parts,). twins: untrained models. members: (P,) the edge of each pair, -1 for none.
    """
    count = len(next(iter(importance.values())))
    if count < 2:
        return {method: Faithfulness(parts, word, count, count, 0.0, np.zeros(1), 0.0) for method in importance}
    size = min(max(2, round(SHARE * count)), count // 2)
    tops = [most_important(values, size) for values in importance.values()]
    random = np.random.default_rng(0)
    others = [np.setdiff1d(np.arange(count), top) for top in tops for _ in range(draws)]
    chosen = [*tops, *(random.permutation(left)[:size] for left in others)]
    masks = np.zeros((len(chosen) + 1, count), dtype=bool)  # the last one masks nothing
    for mask, numbers in zip(masks, chosen, strict=False):
        mask[numbers] = True
    moves = _measure_moves(question, masks, members)
    drawn = moves[len(tops) :].reshape(len(tops), draws)
    few = np.concatenate([masks[: len(tops) + UNTRAINED_DRAWS], masks[-1:]])
    untrained = [_measure_moves(replace(question, model=twin), few, members).max() for twin in twins]
    farthest = float(max(untrained, default=0.0))
    return {
        method: Faithfulness(parts, word, size, count, float(top), rest, farthest)
        for method, top, rest in zip(importance, moves, drawn, strict=False)
    }


def most_important(values: Floats, size: int) -> IntArray:
    """Return the parts that raise the prediction the most, or those that lower it if they do so more.

    Masked together, they would cancel each other, and the prediction would stay however right the ranking is.
    """
    raising, lowering = np.argsort(-values, kind="stable")[:size], np.argsort(values, kind="stable")[:size]
    return raising if values[raising].sum() >= -values[lowering].sum() else lowering


def untrained_twins(config: RunConfig, backend: str, count: int = UNTRAINED) -> list[EGT]:
    """Return models of a run before training; backend: the name of the one that computes."""
    chosen = next(each for each in BACKENDS if each.name == backend)
    twins = []
    with torch.random.fork_rng(devices=[]):
        for seed in range(count):
            torch.manual_seed(seed)
            twins.append(build_model(config, backend=chosen).eval())
    return twins


def _measure_moves(question: Question, masks: NDArray[np.bool_], members: IntArray | None) -> Floats:
    """Return the distance of the answer under each mask, (C, parts), from that under the last one."""
    num_nodes, num_pairs = question.sample.graph.num_nodes, question.pair_index.shape[1]
    nodes, pairs = (np.ones((len(masks), size), np.float32) for size in (num_nodes, num_pairs))
    if members is None:
        nodes[masks] = 0
    else:
        pairs[:, members >= 0] = ~masks[:, members[members >= 0]]
    values = question.values(nodes, pairs)
    distance: Floats = np.abs(values[:-1] - values[-1])
    return distance
