from __future__ import annotations

import numpy as np

from egt.encodings.signs import canonical_signs


def test_flipping_the_vectors_flips_the_signs() -> None:
    rng = np.random.default_rng(0)
    u, v, weights = rng.standard_normal((9, 5)), rng.standard_normal((9, 5)), rng.random((9, 2))
    signs = canonical_signs(u, v, weights)
    flips = np.array([1.0, -1.0, -1.0, 1.0, -1.0])
    np.testing.assert_array_equal(canonical_signs(u * flips, v * flips, weights), signs * flips)


def test_first_clear_moment_decides() -> None:
    u = np.array([[2.0], [-1.0], [-1.0]])
    v = np.array([[-5.0], [0.0], [0.0]])
    assert canonical_signs(u, v, np.zeros((3, 0))) == [1.0]  # sum u^3 = 6, whatever v says
    balanced = np.array([[1.0], [-1.0], [0.0]])
    assert canonical_signs(balanced, v, np.zeros((3, 0))) == [-1.0]  # sum u^3 = 0, sum v^3 < 0
    assert canonical_signs(balanced, balanced, np.array([[1.0], [3.0], [2.0]])) == [-1.0]  # only the degrees tell
    assert canonical_signs(-balanced, -balanced, np.array([[1.0], [3.0], [2.0]])) == [1.0]


def test_rounding_does_not_decide() -> None:
    balanced = np.array([[1.0], [-1.0]])
    weights = np.array([[1.0], [2.0]])
    for noise in (1e-12, -1e-12):
        assert canonical_signs(balanced + noise, balanced + noise, weights) == [-1.0]


def test_symmetric_vector_still_gets_one_sign() -> None:
    balanced = np.array([[-1.0], [1.0]])
    for u in (balanced, -balanced):
        assert (u * canonical_signs(u, u, np.ones((2, 1))))[0, 0] == 1.0
