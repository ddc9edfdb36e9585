"""One sign rule for every encoding made of eigenvectors or singular vectors, which are defined up to their sign."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from egt.encodings.loops import signs_of_pairs

Matrix = NDArray[np.float64]


def canonical_signs(weights: Matrix, u: Matrix, v: Matrix | None = None) -> NDArray[np.float64]:
    """Choose the sign of each column u_k, or pair (u_k, v_k), independently of how the nodes are numbered.

    A pair may only be flipped jointly. Its sign is that of the first odd moment that is not negligible, out of
    `sum_i w_i m_i` for each row w of the weights and each m in u^3, v^3, u^2 v, u v^2. Where all of them vanish, as
    they do when a symmetry of the graph maps u_k to -u_k, the first of the largest entries is positive.

    Args:
        weights: (W, N) quantities of the nodes that follow a renumbering: first ones, then for example degrees.
        u: (N, K) left vectors.
        v: (N, K) right vectors; None if there are none, or if they are u or -u (their moments say the same).

    Returns:
        (K,) of 1.0 and -1.0.
    """
    left = np.ascontiguousarray(u)
    right = left if v is None else np.ascontiguousarray(v)
    return signs_of_pairs(np.ascontiguousarray(weights), left, right)
