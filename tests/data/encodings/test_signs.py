from __future__ import annotations

import numpy as np

from egt.data.encodings.loops import canonical_signs

EQUAL = np.ones((1, 3))


def test_flipping_the_vectors_flips_the_signs() -> None:
    rng = np.random.default_rng(0)
    u, v, weights = rng.standard_normal((9, 5)), rng.standard_normal((9, 5)), rng.random((2, 9))
    signs = canonical_signs(weights, u, v)
    assert set(np.abs(signs)) == {1.0}
    flips = np.array([1.0, -1.0, -1.0, 1.0, -1.0])
    np.testing.assert_array_equal(canonical_signs(weights, u * flips, v * flips), signs * flips)


def test_first_clear_moment_decides() -> None:
    u = np.array([[2.0], [-1.0], [-1.0]])
    v = np.array([[-5.0], [0.0], [0.0]])
    assert canonical_signs(EQUAL, u) == [1.0]
    assert canonical_signs(EQUAL, u, v) == [1.0]  # sum u^3 = 6, whatever v says
    balanced = np.array([[1.0], [-1.0], [0.0]])
    assert canonical_signs(EQUAL, balanced, v) == [-1.0]  # sum u^3 = 0, sum v^3 < 0
    degrees = np.array([[1.0, 1.0, 1.0], [1.0, 3.0, 2.0]])
    for other in (None, balanced):
        assert canonical_signs(degrees, balanced, other) == [-1.0]  # only the degrees tell
    assert canonical_signs(degrees, -balanced) == [1.0]


def test_mixed_moment_decides_where_pure_ones_vanish() -> None:
    u = np.array([[-1.0], [1.0], [0.0], [0.0]])  # the first entry alone would say -1
    v = np.array([[0.0], [2.0], [-2.0], [0.0]])
    assert canonical_signs(np.ones((1, 4)), u, v) == [1.0]  # sum u^2 v = 2
    assert canonical_signs(np.ones((1, 4)), -u, -v) == [-1.0]


def test_rounding_does_not_decide() -> None:
    balanced = np.array([[1.0], [-1.0]])
    for noise in (1e-12, -1e-12):
        assert canonical_signs(np.array([[1.0, 1.0], [1.0, 2.0]]), balanced + noise) == [-1.0]


def test_each_column_has_its_own_deciding_moment() -> None:
    u = np.array([[2.0, 1.0], [-1.0, -1.0], [-1.0, 0.0]])
    np.testing.assert_array_equal(canonical_signs(np.array([[1.0, 1.0, 1.0], [1.0, 3.0, 2.0]]), u), [1.0, -1.0])


def test_symmetric_vector_still_gets_one_sign() -> None:
    balanced = np.array([[-1.0], [1.0]])
    for u in (balanced, -balanced):
        assert (u * canonical_signs(np.ones((1, 2)), u))[0, 0] == 1.0
