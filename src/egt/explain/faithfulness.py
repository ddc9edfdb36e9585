"""Whether an explanation can be believed: does the prediction move more without the parts that it calls important?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from egt.assemble import build_model
from egt.config.run import RunConfig
from egt.explain.importance import Floats, Question
from egt.graph import IntArray
from egt.inference.backends import BACKENDS
from egt.nn.model import EGT

SHARE = 0.25
"""The share of the parts that is masked, at least two parts where there are four."""

UNTRAINED = 3
"""The number of models with fresh random weights to compare with."""

UNTRAINED_DRAWS = 20
"""The number of random masks for each of them."""

FACTOR = 2.0
"""A trained model must move farther than those by this factor."""


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """How the prediction moves without some parts of the input.

    Fields:
        parts: "nodes" or "edges".
        word: The same as users of the data say it.
        size: The number of masked parts.
        of: The number of all parts.
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
    moves = _distances(question, masks, members)
    drawn = moves[len(tops) :].reshape(len(tops), draws)
    few = np.concatenate([masks[: len(tops) + UNTRAINED_DRAWS], masks[-1:]])
    untrained = [_distances(replace(question, model=twin), few, members).max() for twin in twins]
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


def _distances(question: Question, masks: NDArray[np.bool_], members: IntArray | None) -> Floats:
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
