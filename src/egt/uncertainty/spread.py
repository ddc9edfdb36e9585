"""`Spread`: the mean and the deviation of several answers to one question, added up one after another.

    n = n_a + n_b,  m = m_a + (m_b - m_a) n_b / n,  S = S_a + S_b + (m_b - m_a)^2 n_a n_b / n

with S the sum of squared distances from the mean: nothing is subtracted from itself, and no answer has to be kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.uncertainty.conformal import Floats


@dataclass(frozen=True, eq=False)
class Spread:
    """What is known of answers: of several models, or of random draws of one.

    Fields:
        count: n, how many answers.
        mean: (...) m of each number.
        squares: (...) S of each number.
    """

    count: int
    mean: Floats
    squares: Floats

    @classmethod
    def of(cls, mean: NDArray[Any], std: NDArray[Any] | None = None, count: int = 1) -> Spread:
        """Return the spread of `count` answers with this mean and sample deviation; a single answer has none."""
        squares = np.zeros(mean.shape) if std is None else std.astype(np.float64) ** 2 * (count - 1)
        return cls(count, mean.astype(np.float64), squares)

    def __add__(self, other: Spread) -> Spread:
        """Return the spread of the answers of both."""
        count, distance = self.count + other.count, other.mean - self.mean
        mean = self.mean + distance * (other.count / count)
        squares = self.squares + other.squares + distance**2 * (self.count * other.count / count)
        return Spread(count, mean, squares)

    @property
    def std(self) -> Floats:
        """(...) the sample deviation, of at least two answers."""
        found: Floats = np.sqrt(self.squares / (self.count - 1))
        return found
