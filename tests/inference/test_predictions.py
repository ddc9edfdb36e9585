"""The columns of a file of predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import egt
from egt.config.load import override
from egt.data.schema import CustomSchema
from egt.errors import RunError
from egt.explain.prediction_page import read_answers
from egt.inference.predictions import Prediction, Predictions, join
from egt.paper.presets import preset
from tests.cli.runs import TINY, blocks, read_csv, write_csv


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
    assert list(row) == Predictions(config, []).columns[2:-2]


def test_each_label_has_its_probability() -> None:
    config = override(preset("molhiv-larger"), ["task.names=[a, b]"])
    row = config.task.columns(np.array([0.25, 0.5], np.float32))
    assert row == {"a": "0", "a_probability": 0.25, "b": "1", "b_probability": 0.5}


def test_the_probability_of_a_named_class_has_its_name() -> None:
    config = override(preset("molhiv-larger"), ["task.names=[a]", "task.class_names=[active, inactive]"])
    row = config.task.columns(np.array([0.25], np.float32))
    assert row == {"a": "active", "a_active_probability": 0.75, "a_inactive_probability": 0.25}
    assert "a_probability" not in row


def some() -> Predictions:
    good = Prediction(0, "first", np.array([[0.9, 0.1], [0.2, 0.8]], np.float32), warning="odd")
    return Predictions(preset("pattern-100k"), [good, Prediction(1, "second", error="broken")])


def test_rows_of_nodes_and_the_place_of_a_bad_one() -> None:
    found = some()
    rows = found.table()
    assert found.columns[:2] == ["graph", "node"]
    assert found.columns[-2:] == ["warning", "error"]
    assert [(row["graph"], row.get("node")) for row in rows] == [("first", 0), ("first", 1), ("second", None)]
    assert rows[1]["warning"] == "odd"
    assert rows[2]["error"] == "broken"
    assert (len(found), found.num_errors, found.num_warnings) == (2, 1, 1)
    assert found[1].error == "broken"
    assert [answer.id for answer in found[1:]] == ["second"]


def test_the_frame_and_the_file_hold_the_same_table(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    found = some()
    frame = found.to_pandas()
    assert list(frame.columns) == found.columns
    found.to_csv(tmp_path / "out.csv")
    again = pandas.read_csv(tmp_path / "out.csv", keep_default_na=False)
    assert list(again.columns) == found.columns
    assert again["graph"].tolist() == frame["graph"].tolist() == ["first", "first", "second"]
    assert again["error"].tolist() == ["", "", "broken"]
    with pytest.raises(RunError):
        found.to_csv(tmp_path / "none" / "out.csv")
    with (tmp_path / "log").open("a") as log:
        log.write("before\n")
        log.flush()
        found.to_csv(f"/dev/fd/{log.fileno()}")
    assert (tmp_path / "log").read_bytes() == b"before\n" + (tmp_path / "out.csv").read_bytes()


def test_molecules_of_one_input_among_others() -> None:
    config = preset("zinc-100k")
    value = np.array([[1.5]], np.float32)
    named = Predictions(config, [Prediction(0, "a", value, smiles="CC")])
    plain = Predictions(config, [Prediction(0, "b", value)])
    assert "smiles" not in plain.columns
    both = join([named, plain])
    assert both.columns[:3] == ["id", "smiles", "y"]
    assert [row.get("smiles") for row in both.table()] == ["CC", None]


def test_a_kept_column_never_stands_in_the_place_of_an_answer() -> None:
    kept = {"y": "7", "note": "n", "error": "mine"}
    answers = [
        Prediction(0, "a", np.array([[1.5]], np.float32), kept=kept),
        Prediction(1, "b", error="broken", kept=kept),
    ]
    found = Predictions(preset("zinc-100k"), answers)
    assert found.columns == ["id", "y_input", "note", "error_input", "y", "warning", "error"]
    good, bad = found.table()
    assert (good["y"], good["note"], good["error"]) == (1.5, "n", "")
    assert (good["y_input"], good["error_input"]) == ("7", "mine"), "nothing of the input is lost"
    assert bad["y"] is None, "the label of the input is no prediction"
    assert {*bad} == {*good} == {*found.columns}
    assert (bad["note"], bad["error"]) == ("n", "broken")


def test_molecules_that_are_named_by_their_smiles_have_one_such_column() -> None:
    schema = CustomSchema(format="molecules", level="graph", kind="regression", targets=("y",), id="mol", smiles="mol")
    config = preset("zinc-100k")
    config = config.model_copy(update={"data": config.data.model_copy(update={"custom": schema})})
    found = Predictions(config, [Prediction(0, "CC", np.array([[1.5]], np.float32), smiles="CC")])
    assert found.columns == ["mol", "y", "warning", "error"]


def test_a_split_of_nodes_has_the_rows_of_its_nodes(tmp_path: Path) -> None:
    run = egt.train(blocks(tmp_path / "data"), "label", set=[*TINY, "trainer.max_epochs=1"], out=tmp_path / "run")
    nodes = read_csv(tmp_path / "data/nodes.csv")
    found = run.model.predict_split("test").table()
    held_out = [(k, node) for k, node in enumerate(nodes) if node["split"] == "test"]
    assert [(row["node"], row["node_name"], row["label_true"]) for row in found] == [
        (k, node["node"], node["label"]) for k, node in held_out
    ]
    every = {row["node"]: row for row in run.predict(tmp_path / "data").table()}
    assert len(every) == len(nodes)
    for row in found:
        assert row["label_a_probability"] == pytest.approx(every[row["node"]]["label_a_probability"], abs=1e-6)
    assert read_answers(tmp_path / "run").names == [f"0, node {k}" for k, _ in held_out]


def test_a_split_of_edges_has_the_rows_of_its_edges(tmp_path: Path) -> None:
    blocks(tmp_path / "data", masks=False)
    edges = [
        {**edge, "kind": "ab"[k % 2], "split": ("train", "val", "test")[k % 3]}
        for k, edge in enumerate(read_csv(tmp_path / "data/edges.csv"))
    ]
    edges[2]["kind"] = ""  # of the test split, and without a label
    write_csv(tmp_path / "data/edges.csv", edges)
    settings = [*TINY, "trainer.max_epochs=1", "overrides.directed=false"]
    run = egt.train(tmp_path / "data", "kind", task="edge", set=settings, out=tmp_path / "run")
    found = {
        (row["source_name"], row["target_name"]): row["kind_true"] for row in run.model.predict_split("test").table()
    }
    listed = {(edge["source"], edge["target"]): edge["kind"] for edge in edges if edge["split"] == "test"}
    assert found == {**listed, **{(j, i): kind for (i, j), kind in listed.items()}}
