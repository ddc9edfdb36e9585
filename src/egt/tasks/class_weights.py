"""Weights of classes in the loss, from how often each occurs in training: every class then counts as much in all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def balanced(labels: NDArray[np.float64], num_classes: int) -> tuple[float, ...]:
    """Return w_c = n / (k n_c) for n labels of k classes, n_c of class c: the mean weight of a label is 1.

    A class without labels has the weight 1, and is none of the k.

    Args:
        labels: (n,) class ids; NaN where one is missing.
        num_classes: of all, those without labels included.
    """
    known = labels[~np.isnan(labels)].astype(np.int64)
    counts = np.bincount(known, minlength=num_classes)
    present = max(int((counts > 0).sum()), 1)
    weights = np.where(counts > 0, len(known) / (present * np.maximum(counts, 1)), 1.0)
    return tuple(weights.tolist())
