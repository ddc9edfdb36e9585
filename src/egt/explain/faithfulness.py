"""Whether an explanation can be believed: does the prediction move more without the parts that it calls important?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from egt.assemble import build_model
from egt.config.run import RunConfig
from egt.explain.importance import Question
from egt.graph import IntArray
from egt.inference.backends import BACKENDS
from egt.nn.model import EGT

Floats = NDArray[np.float64]

SHARE = 0.25
"""Of the parts that are masked, at least two where there are four."""

UNTRAINED = 3
"""Models with fresh random weights to compare with."""

UNTRAINED_DRAWS = 20
"""Random masks that they are given."""

FACTOR = 2.0
"""How much more a trained model must move than those."""


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """How the prediction moves without some parts of the input.

    Fields:
        parts: what is masked, "nodes" or "edges".
        size: how many.
        of: of how many.
        top: how far the prediction moves without the parts that are called the most important.
        random: (draws) how far without as many parts drawn at random from all others.
        untrained: the farthest that models with random weights move under all these masks.
    """

    parts: str
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
        """Say in words why the explanation should not be believed; nothing if it can be."""
        if self.of < 2:
            return [f"there are too few {self.parts} to compare"]
        found = []
        if not self.interval[0] > 0:  # nor is NaN a proof
            share = np.mean(self.random >= self.top)
            found.append(
                f"masking {self.size} other {self.parts} at random moves the prediction as much as masking the top "
                f"{self.size} in {100 * share:.0f}% of the draws"
            )
        if not self.top > FACTOR * self.untrained:
            found.append(
                f"masking the top {self.size} {self.parts} moves it by {self.top:.3g}, and an untrained model moves by "
                f"up to {self.untrained:.3g} under such masks"
            )
        return found


def faithfulness(
    question: Question,
    twins: Sequence[EGT],
    parts: str,
    importance: Mapping[str, Floats],
    draws: int,
    members: IntArray | None = None,
) -> dict[str, Faithfulness]:
    """Mask the parts that each method calls the most important, and as many random ones of the others, several times.

    The others alone: where the prediction rests on a single part, many of all random choices would have it too.

    Args:
        question: whose answer is explained.
        twins: untrained models.
        parts: "nodes" or "edges".
        importance: method -> (parts,) how important each is said to be.
        draws: how often parts are drawn at random.
        members: (P,) for edges: the edge of each pair, -1 for none.
    """
    count = len(next(iter(importance.values())))
    if count < 2:
        return {method: Faithfulness(parts, count, count, 0.0, np.zeros(1), 0.0) for method in importance}
    size = min(max(2, round(SHARE * count)), count // 2)
    tops = [most_important(values, size) for values in importance.values()]
    random = np.random.default_rng(0)
    chosen = [*tops, *(others for top in tops for others in _others(top, count, draws, random))]
    masks = np.zeros((len(chosen) + 1, count), dtype=bool)  # the last one masks nothing
    for mask, numbers in zip(masks, chosen, strict=False):
        mask[numbers] = True
    moved = _moved(question, masks, members)
    drawn = moved[len(tops) :].reshape(len(tops), draws)
    few = np.concatenate([masks[: len(tops) + UNTRAINED_DRAWS], masks[-1:]])
    untrained = max((float(_moved(question.asked_of(twin), few, members).max()) for twin in twins), default=0.0)
    return {
        method: Faithfulness(parts, size, count, float(top), others, untrained)
        for method, top, others in zip(importance, moved, drawn, strict=False)
    }


def _others(top: IntArray, count: int, draws: int, random: np.random.Generator) -> list[IntArray]:
    """Return random choices of as many parts, none of them in `top`."""
    left = np.setdiff1d(np.arange(count), top)
    return [random.permutation(left)[: len(top)] for _ in range(draws)]


def most_important(values: Floats, size: int) -> IntArray:
    """Return the parts that raise the prediction the most, or those that lower it if they do so more.

    Together they would cancel each other, and the prediction stay where it is however right the ranking.
    """
    raising, lowering = np.argsort(-values, kind="stable")[:size], np.argsort(values, kind="stable")[:size]
    return raising if values[raising].sum() >= -values[lowering].sum() else lowering


def untrained_twins(config: RunConfig, backend: str, count: int = UNTRAINED) -> list[EGT]:
    """Return models of a run before training: an explanation of what was learned is not one of theirs.

    Args:
        config: the run.
        backend: the name of the one that computes.
        count: how many.
    """
    chosen = next(each for each in BACKENDS if each.name == backend)
    twins = []
    with torch.random.fork_rng(devices=[]):
        for seed in range(count):
            torch.manual_seed(seed)
            twins.append(build_model(config, backend=chosen).eval())
    return twins


def _moved(question: Question, masks: NDArray[np.bool_], members: IntArray | None) -> Floats:
    """Return how far the answer under each mask, (C, parts), is from that under the last one."""
    num_nodes, num_pairs = question.sample.graph.num_nodes, question.pair_index.shape[1]
    nodes, pairs = (np.ones((len(masks), size), np.float32) for size in (num_nodes, num_pairs))
    if members is None:
        nodes[masks] = 0
    else:
        pairs[:, members >= 0] = ~masks[:, members[members >= 0]]
    values = question.values(nodes, pairs)
    distance: Floats = np.abs(values[:-1] - values[-1])
    return distance
