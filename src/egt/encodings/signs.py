"""One sign rule for every encoding made of eigenvectors or singular vectors, which are defined up to their sign."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

NEGLIGIBLE = 1e-6
"""A sum below this share of the sum of its absolute terms counts as zero: rounding may not choose a sign."""


def canonical_signs(u: Matrix, v: Matrix, node_weights: Matrix) -> NDArray[np.float64]:
    """The sign of each pair of columns (u_k, v_k) that does not depend on how the nodes are numbered.

    The pair may only be flipped jointly. Its sign is that of the first odd moment that is not negligible, out of
    `sum_i w_i m_i` for each node weight w (first w = 1) and each m in u^3, v^3, u^2 v, u v^2. Where all of them
    vanish, as they do when a symmetry of the graph maps u_k to -u_k, the first of the largest entries is positive.

    Args:
        u: (N, K) left vectors.
        v: (N, K) right vectors.
        node_weights: (N, W) quantities of the nodes that follow a renumbering, such as degrees.

    Returns:
        (K,) of 1.0 and -1.0.
    """
    signs = np.zeros(u.shape[1])
    for terms in _odd_moments(u, v, node_weights):
        moment, magnitude = terms.sum(axis=0), np.abs(terms).sum(axis=0)
        clear = np.abs(moment) > NEGLIGIBLE * magnitude
        signs = np.where((signs == 0) & clear, np.sign(moment), signs)
        if signs.all():
            return signs
    size = np.abs(u)
    largest = np.argmax(size >= (1 - NEGLIGIBLE) * size.max(axis=0), axis=0)
    fallback = np.where(u[largest, np.arange(u.shape[1])] < 0, -1.0, 1.0)
    return np.where(signs == 0, fallback, signs)


def _odd_moments(u: Matrix, v: Matrix, node_weights: Matrix) -> Iterator[Matrix]:
    """The terms (N, K) of each sum, most telling first; seldom is more than the first one computed."""
    for weight in (np.ones(len(u)), *node_weights.T):
        for x, y, z in ((u, u, u), (v, v, v), (u, u, v), (u, v, v)):
            yield weight[:, None] * x * y * z
