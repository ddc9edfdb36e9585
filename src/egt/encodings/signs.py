"""One sign rule for every encoding made of eigenvectors or singular vectors, which are defined up to their sign."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

NEGLIGIBLE = 1e-6
"""A sum below this share of the sum of its absolute terms counts as zero: rounding may not choose a sign."""


def canonical_signs(weights: Matrix, u: Matrix, v: Matrix | None = None) -> NDArray[np.float64]:
    """The sign of each column u_k, or pair of columns (u_k, v_k), that does not depend on how the nodes are numbered.

    A pair may only be flipped jointly. Its sign is that of the first odd moment that is not negligible, out of
    `sum_i w_i m_i` for each row w of the weights and each m in u^3, v^3, u^2 v, u v^2. Where all of them vanish, as
    they do when a symmetry of the graph maps u_k to -u_k, the first of the largest entries is positive.

    Args:
        weights: (W, N) quantities of the nodes that follow a renumbering: first ones, then for example degrees.
        u: (N, K) left vectors, K at least 1.
        v: (N, K) right vectors; None if there are none, or if they are u or -u.

    Returns:
        (K,) of 1.0 and -1.0.
    """
    columns = np.arange(u.shape[1])
    terms = u * u * u if v is None else np.concatenate([u * u * u, v * v * v, u * u * v, u * v * v], axis=1)  # (N, M K)
    moments = weights @ terms  # (W, M K)
    clear = np.abs(moments) > NEGLIGIBLE * (np.abs(weights) @ np.abs(terms))
    candidates = (moments * clear).reshape(-1, len(columns))  # (W M, K)
    signs = np.sign(candidates[(candidates != 0).argmax(axis=0), columns])
    if signs.all():
        return np.asarray(signs)
    size = np.abs(u)
    largest = (size >= (1 - NEGLIGIBLE) * size.max(axis=0)).argmax(axis=0)
    return np.where(signs == 0, np.where(u[largest, columns] < 0, -1.0, 1.0), signs)
