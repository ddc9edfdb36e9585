"""What a model says beside the truth: plots and tables that suit the task."""

from __future__ import annotations

import numpy as np

from egt.config.load import override
from egt.config.presets import preset
from egt.reporting.answers import Answers, plots, worst


def test_numbers_with_a_deviation_are_drawn_as_numbers() -> None:
    config = override(preset("zinc-100k"), ["task.kind=gaussian"])
    said = np.array([[1.0, 0.1], [2.5, 0.1], [0.0, 9.0]])  # mean, deviation
    answers = Answers(config, ["a", "b", "c"], np.array([[1.0], [2.0], [np.nan]]), said)
    assert "2 rows, mean absolute error 0.25" in plots(answers)
    sheet = worst(answers)
    assert sheet.columns[-1] == "error"
    assert [(row[0], row[-1]) for row in sheet.rows] == [("b", "0.5"), ("a", "0")]
