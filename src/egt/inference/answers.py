"""What is computed for one graph, and how the answers of several runs become one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from egt.graph import IntArray
from egt.uncertainty.spread import Spread

Answer = tuple[NDArray[np.float32], IntArray | None, NDArray[np.float32] | None] | str
"""Values, pairs and (of several runs) deviations of a graph, or the reason why there are none."""


def pooled(runs: Iterable[Sequence[Answer]], count: int = 1) -> list[Answer]:
    """Return for each graph the mean and the deviation over runs: models of an ensemble, or draws of dropout.

    Args:
        runs: the answers of each for the same graphs; at least two, or one of several draws.
        count: of how many draws the answers of a run are the mean.
    """
    total: list[Spread | str] = []
    last: Sequence[Answer] = ()
    for last in runs:
        each = [answer if isinstance(answer, str) else Spread.of(answer[0], answer[2], count) for answer in last]
        total = [_added(*both) for both in zip(total, each, strict=True)] if total else each
    return [_answer(spread, answer) for spread, answer in zip(total, last, strict=True)]


def _added(one: Spread | str, other: Spread | str) -> Spread | str:
    """Return the sum, or the reason of the first that has none."""
    if isinstance(one, str):
        return one
    return other if isinstance(other, str) else one + other


def _answer(spread: Spread | str, last: Answer) -> Answer:
    if isinstance(spread, str) or isinstance(last, str):
        return spread if isinstance(spread, str) else last
    return spread.mean.astype(np.float32), last[1], spread.std.astype(np.float32)
