"""A calibration comes back from its file as it was; what is no calibration is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from egt.errors import ArtifactError, DataError
from egt.inference.uncertainty import Calibration

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
    with pytest.raises(ArtifactError, match="here: is not a calibration"):
        Calibration.from_json(json.dumps(content), "here")
