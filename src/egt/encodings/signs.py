"""One sign rule for every encoding made of eigenvectors or singular vectors, which are defined up to their sign."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

NEGLIGIBLE = 1e-6
"""A sum below this share of the sum of its absolute terms counts as zero: rounding may not choose a sign."""


def canonical_signs(weights: Iterable[Vector], u: Matrix, v: Matrix | None = None) -> Vector:
    """The sign of each column u_k, or pair of columns (u_k, v_k), that does not depend on how the nodes are numbered.

    A pair may only be flipped jointly. Its sign is that of the first odd moment that is not negligible, out of
    `sum_i w_i m_i` for each w of the weights and each m in u^3, v^3, u^2 v, u v^2. Where all of them vanish, as
    they do when a symmetry of the graph maps u_k to -u_k, the first of the largest entries is positive.

    Args:
        weights: quantities (N,) of the nodes that follow a renumbering: first ones, then for example degrees. Those
            after the deciding moments are not asked for, so they may be computed one by one.
        u: (N, K) left vectors, K at least 1.
        v: (N, K) right vectors; None if there are none, or if they are u or -u.

    Returns:
        (K,) of 1.0 and -1.0.
    """
    terms = (u * u * u,) if v is None else (u * u * u, v * v * v, u * u * v, u * v * v)
    sizes = [np.abs(term) for term in terms]
    signs = np.zeros(u.shape[1])
    for weight in weights:
        for term, size in zip(terms, sizes, strict=True):
            moments = weight @ term
            clear = np.abs(moments) > NEGLIGIBLE * (np.abs(weight) @ size)
            signs = np.where((signs == 0) & clear, np.sign(moments), signs)
            if signs.all():
                return signs
    size = np.abs(u)
    largest = (size >= (1 - NEGLIGIBLE) * size.max(axis=0)).argmax(axis=0)
    return np.where(signs == 0, np.where(u[largest, np.arange(len(signs))] < 0, -1.0, 1.0), signs)
