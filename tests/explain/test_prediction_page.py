"""What a report shows of predictions follows from what a task answers, not from its name."""

from __future__ import annotations

from typing import Any

import numpy as np

from egt.config.run import RunConfig
from egt.explain.prediction_page import Answers, plots, worst_sheet
from tests.training.tiny import tiny_config


def answers(task: dict[str, Any], truth: list[list[float]], said: list[list[float]]) -> Answers:
    config = RunConfig.model_validate(tiny_config().model_dump(mode="json") | {"task": task})
    return Answers(config, [f"g{k}" for k in range(len(truth))], np.array(truth), np.array(said))


def test_numbers_with_deviations_are_numbers() -> None:
    found = answers({"kind": "gaussian", "names": ["y"]}, [[1.0], [2.0], [np.nan]], [[1.5, 9.0], [4.0, 9.0], [0, 9]])
    assert "mean absolute error 1.25" in plots(found)
    sheet = worst_sheet(found)
    assert sheet.columns[-1] == "error"
    assert sheet.rows == [("g1", "y", "2", "4", "2"), ("g0", "y", "1", "1.5", "0.5")]


def test_two_classes_have_their_names() -> None:
    task = {"kind": "binary", "names": ["y"], "class_names": ["active", "inactive"]}
    found = answers(task, [[0.0], [1.0]], [[0.75], [0.625]])
    page = plots(found)
    assert "ROC curve" in page
    assert all(name in page for name in ("active", "inactive"))
    sheet = worst_sheet(found)
    assert sheet.columns[-1] == "missing probability"
    assert sheet.rows == [("g0", "y", "active", "inactive", "0.75"), ("g1", "y", "inactive", "inactive", "0.375")]


def test_several_classes_are_confused_by_name() -> None:
    task = {"kind": "multiclass", "names": ["y"], "num_classes": 3, "class_names": ["a", "b", "c"]}
    found = answers(task, [[2.0], [0.0]], [[0.5, 0.25, 0.25], [0.75, 0.25, 0.0]])
    assert "True class (rows) and predicted class (columns)" in plots(found)
    assert worst_sheet(found).rows[0] == ("g0", "y", "c", "a", "0.75")


def test_errors_of_several_targets_are_compared_in_units_of_their_spread() -> None:
    truth, said = [[0.0, 0.0], [1.0, 1000.0]], [[0.9, 0.0], [1.0, 1300.0]]
    sheet = worst_sheet(answers({"kind": "regression", "names": ["small", "large"]}, truth, said))
    assert [row[1] for row in sheet.rows][:2] == ["small", "large"]
