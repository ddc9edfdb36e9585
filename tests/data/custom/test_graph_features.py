"""Columns as features of whole graphs: scaled by the training rows, checked row by row, needed in new data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.data.custom import CustomSource, open_custom
from egt.errors import DataError
from egt.graph import Graph

TABLE = """smiles,temperature,pH,split,rate
CCO,10,1,train,0.5
CCC,30,3,train,1.5
CCN,,5,val,2.5
CCS,1000,9,test,3.5
"""


def opened(tmp_path: Path, content: str = TABLE, **options: Any) -> CustomSource:
    path = tmp_path / "rows.csv"
    path.write_text(content)
    return open_custom(path, **options)


def trained(tmp_path: Path) -> CustomSource:
    return opened(tmp_path, overrides={"graph_features": ["temperature", "pH"]})


def values(source: CustomSource, split: str) -> list[list[float]]:
    readings = source.read_all(list(source.records(split)))
    return [reading.graph.graph_values.tolist() for reading in readings if reading.graph is not None]


def test_training_rows_decide_the_scale(tmp_path: Path) -> None:
    source = trained(tmp_path)
    assert [(each.name, each.mean, each.std) for each in source.schema.graph_features] == [
        ("temperature", (20.0,), (10.0,)),
        ("pH", (2.0,), (1.0,)),
    ]
    assert source.schema.targets == ("rate",), "what is a feature is no candidate for the target"
    assert values(source, "train") == [[-1.0, -1.0], [1.0, 1.0]]
    assert values(source, "test") == [[98.0, 7.0]]
    assert source.card.schema.num_graph_values == 2


def test_a_missing_value_becomes_the_training_mean_with_a_warning(tmp_path: Path) -> None:
    source = trained(tmp_path)
    [reading] = source.read_all(list(source.records("val")))
    assert reading.graph is not None
    assert reading.graph.graph_values.tolist() == [0.0, 3.0]
    assert reading.warning == "feature 'temperature' is missing: the training mean is taken"


def test_new_data_needs_the_columns(tmp_path: Path) -> None:
    schema = trained(tmp_path).schema
    with pytest.raises(DataError, match="pH"):
        opened(tmp_path, "smiles,temperature\nCC,1\n", schema=schema)
    new = opened(tmp_path, "smiles,pH,temperature\nCC,2,warm\nCC,4,20\nCC,4,inf\n", schema=schema)
    bad, good, infinite = new.read_all(list(new.records("all")))
    assert bad.error.endswith("rows.csv row 1: feature 'temperature' is 'warm', not a finite number")
    assert "row 3: feature 'temperature' is 'inf'" in infinite.error
    assert good.graph is not None
    assert good.graph.graph_values.tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    ("features", "target", "message"),
    [
        (["temp"], None, "'temp'"),
        (["smiles"], "rate", r"'smiles'.*'CCO'"),
        (["pH"], "pH", "'pH'"),
        ([3], None, "columns"),
    ],
)
def test_columns_that_cannot_be_features(tmp_path: Path, features: list[Any], target: str | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        opened(tmp_path, target=target, overrides={"graph_features": features})


def test_patterns_and_single_names(tmp_path: Path) -> None:
    for given in ("temp*", ["temp*"]):
        found = opened(tmp_path, target="rate", overrides={"graph_features": given}).schema.graph_features
        assert [feature.name for feature in found] == ["temperature"]


def test_without_features_nothing_changes(tmp_path: Path) -> None:
    plain = opened(tmp_path, target="rate")
    assert values(plain, "train") == [[], []]
    assert plain.fingerprint() != opened(tmp_path, target="rate", overrides={"graph_features": "pH"}).fingerprint()


def test_labels_may_differ_under_other_conditions(tmp_path: Path) -> None:
    rows = "smiles,pH,split,rate\n" + "".join(f"CCO,{k},train,{10 * k}.5\n" for k in range(4))
    assert opened(tmp_path, rows, target="rate").warnings()
    assert not opened(tmp_path, rows, target="rate", overrides={"graph_features": "pH"}).warnings()


def test_graphs_and_graph_tables(tmp_path: Path) -> None:
    graphs = [Graph(num_nodes=1, edge_index=[], graph_values=[k, 1.0], graph_targets=[k + 0.5]) for k in range(10)]
    source = open_custom({"train": graphs[:3], "val": graphs[3:]})
    assert source.schema.graph_features[0].width == 2
    np.testing.assert_allclose(values(source, "train")[0], [-np.sqrt(1.5), 0.0], rtol=1e-6)
    path = tmp_path / "graphs.jsonl"
    line = '{{"num_nodes": 2, "edges": [[0, 1]], "features": {{"heat": {k}}}, "targets": {{"y": {k}.5}}}}'
    path.write_text("\n".join(line.format(k=k) for k in range(10)))
    table = open_custom(path)
    assert table.schema.features().num_graph_values == 1, "the file says itself that it is a feature"
    assert len(values(table, "train")[0]) == 1
    path.write_text(line.format(k=1).replace("heat", "y"))
    with pytest.raises(DataError, match="'y'"):
        open_custom(path)
