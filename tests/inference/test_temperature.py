"""The temperature undoes what has made probabilities too sure, and leaves honest ones alone."""

from __future__ import annotations

import numpy as np
import pytest

from egt.inference.uncertainty import fit_temperature, surprise, warm

RNG = np.random.default_rng(0)
HONEST = RNG.dirichlet((1.0, 1.0, 2.0), size=4000)
LABELS = np.array([RNG.choice(3, p=row) for row in HONEST])


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 3.0])
def test_the_temperature_that_was_applied_is_found(sharpness: float) -> None:
    distorted = warm(HONEST, 1 / sharpness)
    temperature = fit_temperature(distorted, LABELS)
    assert temperature == pytest.approx(sharpness, rel=0.08)
    repaired = warm(distorted, temperature)
    np.testing.assert_allclose(repaired, HONEST, atol=0.03)
    assert surprise(repaired, LABELS) <= surprise(distorted, LABELS)


def test_warm_probabilities_are_flatter_in_the_same_order() -> None:
    np.testing.assert_allclose(warm(np.array([[0.8, 0.2]]), 2.0), [[2 / 3, 1 / 3]])  # odds 4 -> 2
    np.testing.assert_allclose(warm(np.array([[1.0, 0.0]]), 1.0), [[1.0, 0.0]], atol=1e-12)


def test_without_labels_nothing_changes_and_without_errors_it_ends_somewhere() -> None:
    assert fit_temperature(np.zeros((0, 2)), np.zeros(0, np.int64)) == 1.0
    assert fit_temperature(np.array([[0.9, 0.1]]), np.array([0])) == pytest.approx(0.1, rel=1e-3)
