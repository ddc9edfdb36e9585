"""A calibration comes back from its file as it was; what is no calibration is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from egt.errors import ArtifactError, DataError
from egt.inference.uncertainty import Calibration, bounds_of, calibrate, holds
from egt.parts.tasks.regression import Regression

VALUES = np.array([[1.0], [2.0], [4.0]])
NUMBERS = Calibration.of_numbers(VALUES, VALUES + np.array([[0.5], [-1.0], [2.0]]), transductive=True)
CLASSES = Calibration.of_classes(np.array([[[0.9, 0.1]], [[0.6, 0.4]]]), np.array([[0.0], [1.0]]), folds=5)


@pytest.mark.parametrize("calibration", [NUMBERS, CLASSES])
def test_round_trip(calibration: Calibration) -> None:
    content = calibration.to_json(["y"])
    assert content["targets"][0]["name"] == "y"
    assert Calibration.from_json(json.dumps(content), "here") == calibration


def test_bounds_are_intervals_of_numbers_and_sets_of_classes() -> None:
    np.testing.assert_array_equal(NUMBERS.bounds(np.array([[10.0]]), 0.5), [[[9.0, 11.0]]])
    assert NUMBERS.temperatures == ()
    assert CLASSES.bounds(np.array([[[0.9, 0.1]]]), 0.3).tolist() == [[[True, False]]]
    assert len(CLASSES.temperatures) == 1


@pytest.mark.parametrize("coverage", [0.0, 1.0, 90.0, -0.1, float("nan")])
def test_a_coverage_is_between_0_and_1(coverage: float) -> None:
    with pytest.raises(DataError, match="between 0 and 1"):
        NUMBERS.bounds(VALUES, coverage)


def changed(**change: Any) -> Any:
    return {**NUMBERS.to_json(["y"]), **change}


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        changed(format=2),
        changed(kind="guess"),
        changed(targets=[{"name": "y", "groups": [{"count": 2, "scores": [2.0, 1.0]}]}]),
        changed(targets=[{"name": "y", "groups": [{"count": 1, "scores": [1.0, 2.0]}]}]),
        changed(targets=[{"name": "y", "groups": [{"count": 1, "scores": ["nan"]}]}]),
        changed(targets=[{"name": "y"}]),
    ],
)
def test_what_is_no_calibration_is_refused(content: Any) -> None:
    with pytest.raises(ArtifactError, match="calibration"):
        Calibration.from_json(json.dumps(content), "here")


def test_intervals_widen_with_distance_where_errors_do() -> None:
    rng = np.random.default_rng(0)
    familiarity = rng.uniform(0, 1, 4000)
    truth = np.stack([rng.laplace(size=4000) * (1 + 4 * (1 - familiarity)), rng.laplace(size=4000)], axis=1)
    part = Regression(names=("far", "even"))
    found = calibrate(part, np.zeros((2000, 2)), truth[:2000], familiarity[:2000])
    plain = calibrate(part, np.zeros((2000, 2)), truth[:2000])
    assert found is not None
    assert plain is not None
    assert found.widening == (4.0, 0.0)
    assert Calibration.from_json(json.dumps(found.to_json(part.names)), "file") == found
    far = familiarity[2000:] < 0.25
    covered = {}
    for name, each in (("found", found), ("plain", plain)):
        bounds = bounds_of(part, each, np.zeros((2000, 2)), 0.9, familiarity[2000:])
        covered[name] = holds(bounds, truth[2000:])[far, 0].mean()
    assert covered["plain"] < 0.86
    assert 0.87 < covered["found"] < 0.93
    few = calibrate(part, np.zeros((20, 2)), truth[:20], familiarity[:20])
    assert few is not None
    assert few.widening == ()
