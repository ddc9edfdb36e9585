"""The columns of a file of predictions."""

from __future__ import annotations

import numpy as np

from egt.config.load import override
from egt.config.presets import preset
from egt.inference.predictor import Prediction
from egt.inference.table import answer_columns, table


def test_numbers_are_the_shortest_that_are_the_same() -> None:
    config = preset("zinc-100k")
    value = np.array([0.1], np.float32)
    assert config.task.columns(value) == {"y": 0.1}
    assert np.float32(config.task.columns(value)["y"]) == value[0]


def test_classes_carry_their_probabilities() -> None:
    config = override(preset("pattern-100k"), ["task.names=[side]", "task.class_names=[left, right]"])
    row = config.task.columns(np.array([0.25, 0.75], np.float32))
    assert row == {
        "side": "right", "side_probability": 0.75, "side_left_probability": 0.25, "side_right_probability": 0.75,
    }  # fmt: skip
    assert list(row) == answer_columns(config)


def test_each_label_has_its_probability() -> None:
    config = override(preset("molhiv-larger"), ["task.names=[a, b]"])
    row = config.task.columns(np.array([0.25, 0.5], np.float32))
    assert row == {"a": "0", "a_probability": 0.25, "b": "1", "b_probability": 0.5}


def test_rows_of_nodes_and_the_place_of_a_bad_one() -> None:
    config = preset("pattern-100k")
    good = Prediction(0, "first", np.array([[0.9, 0.1], [0.2, 0.8]], np.float32), warning="odd")
    columns, rows = table(config, [good, Prediction(1, "second", error="broken")])
    found = list(rows)
    assert columns[:2] == ["graph", "node"]
    assert columns[-2:] == ["warning", "error"]
    assert [(row["graph"], row.get("node")) for row in found] == [("first", 0), ("first", 1), ("second", None)]
    assert found[1]["warning"] == "odd"
    assert found[2]["error"] == "broken"
