"""The submission file holds what OGB's evaluator writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from egt.errors import ConfigError
from egt.inference.predictions import Prediction, Predictions, save_submission
from egt.paper.presets import preset


def answers(name: str, *values: float | None) -> Predictions:
    found = [
        Prediction(k, str(k), error="bad") if value is None else Prediction(k, str(k), np.array([[value]], np.float32))
        for k, value in enumerate(values)
    ]
    return Predictions(preset(name), found)


def test_one_array_of_float32_in_order_without_gaps(tmp_path: Path) -> None:
    path = tmp_path / "y_pred_pcqm4m-v2_test-dev.npz"
    save_submission(answers("pcqm4mv2-small", 1.5, None, 4.5), path)
    with np.load(path) as content:
        assert list(content) == ["y_pred"]
        assert content["y_pred"].dtype == np.float32
        np.testing.assert_array_equal(content["y_pred"], [1.5, 3.0, 4.5])


def test_only_for_one_number_per_graph(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="number"):
        save_submission(answers("pattern-100k", 1.0), tmp_path / "y.npz")
