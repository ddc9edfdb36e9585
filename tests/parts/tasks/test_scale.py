"""The scale of targets as checkpoints and artifacts keep it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from egt.parts.tasks.task import TargetScale


def test_a_scale_comes_back_from_json() -> None:
    scale = TargetScale.of([np.array([1.0, np.nan]), np.array([3.0, 5.0])])
    assert scale == TargetScale((2.0, 5.0), (1.0, 1.0))
    assert TargetScale.from_json(json.loads(json.dumps(scale.to_json()))) == scale
    assert TargetScale.from_json(None) is None


@pytest.mark.parametrize("unit", [1e-200, 1e-19, 1e-12, 1.0, 1e19])
def test_the_unit_of_labels_does_not_matter(unit: float) -> None:
    scale = TargetScale.of([np.array([unit * value]) for value in (1.0, 2.0, 3.0, 6.0)])
    np.testing.assert_allclose([*scale.mean, *scale.std], [3.0 * unit, np.sqrt(3.5) * unit], rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e-19, 338.8])
def test_labels_that_are_all_the_same_have_no_spread(value: float) -> None:
    assert TargetScale.of([np.array([value])] * 7).std == (1.0,)
