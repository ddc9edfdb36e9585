"""Temperature scaling: the logits of probabilities that are too sure, or not sure enough, are divided by one number.

    p' = softmax(log p / temperature)

The order of the classes stays the same. The temperature is the one that makes validation labels most likely; their mean
negative log-likelihood is convex in 1 / temperature, so that a search between two ends finds it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ENDS = (0.1, 10.0)
"""The coldest and the warmest temperature; labels without a single error would ask for 0."""
_STEPS = 60
_LEAST = 1e-30
_GOLDEN = (np.sqrt(5) - 1) / 2

Floats = NDArray[np.float64]


def warmed(probabilities: Floats, temperature: float) -> Floats:
    """(rows, C) probabilities at a temperature. probabilities: (rows, C)."""
    logits = np.log(np.maximum(probabilities, _LEAST)) / temperature
    powers = np.exp(logits - logits.max(1, keepdims=True))
    found: Floats = powers / powers.sum(1, keepdims=True)
    return found


def fit_temperature(probabilities: Floats, labels: NDArray[np.int64]) -> float:
    """Return the temperature that makes the labels most likely; 1 without labels.

    Args:
        probabilities: (rows, C).
        labels: (rows,) numbers of classes.
    """
    if not len(labels):
        return 1.0
    low, high = 1 / _ENDS[1], 1 / _ENDS[0]  # of 1 / temperature
    for _ in range(_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if surprise(warmed(probabilities, 1 / left), labels) < surprise(warmed(probabilities, 1 / right), labels):
            high = right
        else:
            low = left
    return float(2 / (low + high))


def surprise(probabilities: Floats, labels: NDArray[np.int64]) -> float:
    """Return the mean negative log-likelihood of labels. Arguments as in `fit_temperature`."""
    chosen = probabilities[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(chosen, _LEAST)).mean())
