"""Tables of numbers, bounds and yes/no: which target is what, and what the rows of the model's labels are."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egt
from egt.config.defaults import custom_task, infer_run
from egt.data.columns import column_of_values
from egt.data.custom import open_custom
from egt.data.infer import guess_targets
from egt.errors import DataError

NAN = float("nan")
YES_NO = [0, 1] * 6


def kinds(**columns: list[Any]) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    named = {name: column_of_values(values, name) for name, values in columns.items()}
    kind, classes, groups = guess_targets(named, None, "data")
    assert (kind == "mixed", classes if groups else ()) == (bool(groups), ())
    return [(group.kind, group.targets, group.classes) for group in groups]


def test_each_target_is_of_its_own_kind() -> None:
    found = kinds(b=YES_NO, y=[0.5, 1.5], word=["no", "yes", "no"], p=[1, 2, 3], other=["in", "out"])
    assert found == [
        ("regression", ("y", "p"), ()),
        ("binary", ("b",), ("0", "1")),
        ("binary", ("other",), ("in", "out")),
        ("binary", ("word",), ("no", "yes")),
    ]
    assert kinds(b=YES_NO, y=[0.5, ">2"])[0] == ("censored", ("y",), ())


@pytest.mark.parametrize(
    "columns",
    [
        {"a": [0, 1], "b": [0.5, 1]},  # too few to be no accident
        {"a": [0] * 12, "b": [0.5, 1]},
        {"a": YES_NO, "b": [0] * 12, "c": [None, 1]},
        {"a": ["no", "yes"], "b": ["yes", "yes", "no"]},
    ],
)
def test_tables_of_one_kind_are_not_mixed(columns: dict[str, list[Any]]) -> None:
    assert kinds(**columns) == []


def test_a_few_labels_of_0_and_1_are_classes_beside_others() -> None:
    assert kinds(a=YES_NO, b=[0, 1], y=[0.5])[1] == ("binary", ("a", "b"), ("0", "1"))


def test_three_classes_beside_numbers_are_refused() -> None:
    named = {"y": column_of_values([1.5, 2.5], "y"), "t": column_of_values(["a", "b", "c"], "t")}
    with pytest.raises(DataError, match="'t'"):
        guess_targets(named, None, "data")


def table(path: Path, weights: list[str] | None = None, count: int = 60) -> Path:
    pytest.importorskip("rdkit")
    header = "smiles,toxic,logS,ic50" + (",w" if weights else "")
    lines = []
    for n in range(count):
        bound = ">5" if n % 5 == 0 else f"{n % 7 + 0.5}"
        smiles = f"{'C' * (n % 15 + 1)}{'O' * (n // 15 + 1)}"
        line = f"{smiles},{'yes' if n % 3 == 0 else 'no'},{n / 10 if n % 2 else ''},{bound}"
        lines.append(line + (f",{weights[n % len(weights)]}" if weights else ""))
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_bounds_that_differ_in_every_row_are_no_names(tmp_path: Path) -> None:
    path = tmp_path / "ki.csv"
    path.write_text('smiles,"Ki, nM"\nCCO,"0,5"\nCCC,">10,25"\nCCN,3\nCCCC,"1,25"\n')
    schema = open_custom(path).schema
    assert (schema.targets, schema.kind) == (("Ki, nM",), "censored")


def test_labels_are_grouped_by_kind_with_the_weight_of_the_row_last(tmp_path: Path) -> None:
    source = open_custom(
        table(tmp_path / "m.csv", ["2", "", "0"]), target="*", overrides={"row_weight": "w", "positive": "no"}
    )
    schema = source.schema
    assert schema.targets == ("logS", "ic50", "toxic")
    assert [group.kind for group in schema.groups] == ["censored", "binary"]
    assert schema.groups[1].classes == ("yes", "no")
    labels = [source.read(record).graph.graph_targets for record in source.records("all")[:3]]
    np.testing.assert_array_equal(
        labels, [[NAN, NAN, 5, NAN, 0, 2], [0.1, 0.1, 1.5, 1.5, 1, 1], [NAN, NAN, 2.5, 2.5, 1, 0]]
    )
    task = custom_task(schema.target())
    assert (task.kind, task.names, task.label_width) == ("mixed", schema.targets, 6)
    assert infer_run(source, "m.csv", "m").trainer.select_by == "metric"  # the loss of one kind must not decide
    told = {what: decision for what, decision, _ in schema.rows()}
    assert told["weight of a row"] == "w"
    assert "positive: no" in told["toxic"]
    new = open_custom(table(tmp_path / "new.csv"), schema=schema)
    assert new.read(new.records("all")[0]).graph.graph_targets[-1] == 1


@pytest.mark.parametrize(("weight", "named"), [("-1", "row 2.*'w'"), ("much", "'much'")])
def test_a_weight_that_is_none_is_refused(tmp_path: Path, weight: str, named: str) -> None:
    with pytest.raises(DataError, match=named):
        open_custom(table(tmp_path / "m.csv", ["1", weight]), target="logS", overrides={"row_weight": "w"})


def test_a_column_cannot_be_weight_and_target(tmp_path: Path) -> None:
    data = table(tmp_path / "m.csv", ["1", "2"])
    with pytest.raises(DataError, match="'w'"):
        open_custom(data, target="w", overrides={"row_weight": "w"})
    with pytest.raises(DataError, match="nowhere"):
        open_custom(data, target="logS", overrides={"row_weight": "nowhere"})


def test_replicates_of_a_mixed_table_are_merged_by_kind(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    rows = [
        *(f"{'C' * k},{k / 2},{'yes' if k % 3 else 'no'}" for k in range(1, 12)),
        "OCC,1,yes",
        "CCO,2,yes",
        "C(O)C,6,no",
    ]
    (tmp_path / "m.csv").write_text("smiles,y,t\n" + "\n".join(rows) + "\n")
    source = open_custom(tmp_path / "m.csv", target="*", overrides={"replicates": "mean"})
    graph = source.read(source.records("all")[-1]).graph
    assert graph.graph_targets.tolist() == [3.0, 1.0]


def test_a_model_of_a_mixed_table_trains_and_answers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = table(tmp_path / "m.csv", ["1", "2"])
    with caplog.at_level(logging.WARNING):
        run = egt.train(
            data,
            ["toxic", "logS", "ic50"],
            set={"overrides.row_weight": "w", "trainer.max_epochs": 2, "split.seed": 1},
            start="none",
            out=tmp_path / "run",
            progress=False,
        )
    assert run.artifact.data["baseline"]["name"] in ("forest and GP", "mean of the training labels")
    assert isinstance(run.artifact.config.task.model_dump()["target_weights"], tuple)
    assert {*run.artifact.data["metrics_by_target"]["test"]} == {"logS", "ic50", "toxic"}
    model = egt.load(tmp_path / "run")
    [answer] = model.predict(["CCO"]).table()
    assert {"logS", "ic50", "toxic", "toxic_yes_probability"} <= {*answer}
    [bounded] = model.predict(["CCO"], interval=0.5).table()
    assert {"logS_low", "ic50_high", "toxic_set"} <= {*bounded}
    found = egt.load(tmp_path / "run", calibrated=True).predict(["CCO"])[0].values
    np.testing.assert_allclose(found[0, :2], model.predict(["CCO"])[0].values[0, :2], rtol=1e-5)
    assert model.evaluate("test")["skill"] == pytest.approx(run.artifact.metrics["test"]["skill"], abs=1e-5)
