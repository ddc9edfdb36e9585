"""Cells such as `>5` are labels with one end, wherever labels are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.data.columns import bound_of, encode_bounds, objects
from egt.data.custom import open_custom
from egt.data.infer import guess_target
from egt.data.labels import repeats
from egt.errors import DataError

NAN = float("nan")
CELLS = [">5", "<= 0.1", "~3", " >= 10 ", "4.5", "", "≤2e-1", "=7"]
BOUNDS = [[5, NAN], [NAN, 0.1], [3, 3], [10, NAN], [4.5, 4.5], [NAN, NAN], [NAN, 0.2], [7, 7]]


@pytest.mark.parametrize("text", ["5", "", ">", ">five", "5-10", ">5 uM", ">inf", "<nan", ">1e400"])
def test_other_texts_are_no_bounds(text: str) -> None:
    assert bound_of(text) is None


def test_a_bound_has_one_end_and_a_number_two() -> None:
    encoded, strange = encode_bounds(objects([cell or None for cell in CELLS]))
    np.testing.assert_array_equal(encoded, BOUNDS)
    assert strange == []
    encoded, strange = encode_bounds(objects([">5", "high", "inf"]))
    np.testing.assert_array_equal(encoded, [[5, NAN], [NAN, NAN], [NAN, NAN]])
    assert sorted(strange) == ["high", "inf"]


def test_numbers_with_bounds_are_censored_and_classes_stay_classes() -> None:
    assert guess_target({"y": objects(["1.5", ">5", "2", "~3"])}, None, "data") == ("censored", ())
    several = {"y": objects(["1.5", ">5", "2", "3"]), "z": np.array([1.0, 2.5, 3.0, NAN])}
    assert guess_target(several, None, "data") == ("censored", ())
    assert guess_target({"y": objects(["<5", ">5"] * 5)}, None, "data")[0] == "binary"
    assert guess_target({"y": objects(["<5", "5-10", ">10"] * 9)}, None, "data")[0] == "multiclass"
    with pytest.raises(DataError, match=r"'high'.*overrides.kind=censored"):
        guess_target({"y": objects(["1.5", ">5", "high", "2", "3", "4"])}, None, "data")


def table(path: Path, labels: list[str]) -> Path:
    pytest.importorskip("rdkit")
    rows = [f"{'C' * (n % 9 + 1)}{'O' * (n // 9 + 1)},{label}" for n, label in enumerate(labels)]
    path.write_text("smiles,y\n" + "\n".join(rows) + "\n")
    return path


def test_the_table_counts_bounds_and_their_direction(tmp_path: Path) -> None:
    source = open_custom(table(tmp_path / "m.csv", CELLS), target="y")
    assert source.schema.kind == "censored"
    [told] = [decision for what, decision, _ in source.schema.rows() if what == "bounds"]
    assert told.startswith("6 of 7 labels")
    assert "2 above a number (>), 2 below one (<), 2 about one" in told
    assert source.unknown_labels() == []
    targets = [source.read(record).graph.graph_targets for record in source.records("all")]
    np.testing.assert_array_equal(targets, BOUNDS)


def test_bounds_of_new_data_are_read_as_the_model_was_trained(tmp_path: Path) -> None:
    plain = open_custom(table(tmp_path / "a.csv", ["1.5", "2.5", "4.25"]), target="y").schema
    bounded = open_custom(table(tmp_path / "b.csv", ["1.5", ">2.5", "4.25"]), target="y").schema
    new = table(tmp_path / "c.csv", [">1", "2"])
    [warning] = open_custom(new, schema=plain).unknown_labels()
    assert "'>1'" in warning
    source = open_custom(new, schema=bounded)
    assert source.unknown_labels() == []
    numbers = open_custom(table(tmp_path / "d.csv", ["1", "2"]), schema=bounded)
    assert source.read(source.records("all")[0]).graph.graph_targets.tolist()[0] == 1
    assert numbers.read(numbers.records("all")[1]).graph.graph_targets.tolist() == [2, 2]


def test_bounds_of_nodes(tmp_path: Path) -> None:
    def line(*labels: Any) -> str:
        nodes = {"kind": ["a", "b", "a"]}
        return json.dumps({"nodes": nodes, "edges": [[0, 1], [1, 2]], "node_targets": {"y": labels}})

    (tmp_path / "g.jsonl").write_text("\n".join([line(1.5, ">2", None), line("0.5", 3, "<1")] * 5))
    source = open_custom(tmp_path / "g.jsonl")
    assert (source.schema.level, source.schema.kind) == ("node", "censored")
    graph = source.read(source.records("all")[0]).graph
    assert graph is not None
    np.testing.assert_array_equal(graph.node_targets, [[1.5, 1.5], [2, NAN], [NAN, NAN]])


def test_bounds_of_atoms(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    rows = ['CCO,"[1.5, "">2"", 0.25]"', 'CC,"["">3"", 1.25]"', 'C,"[0.75]"', "CCCC,"]
    (tmp_path / "m.csv").write_text("smiles,y\n" + "\n".join(rows * 4) + "\n")
    source = open_custom(tmp_path / "m.csv", target="y", level="node")
    assert source.schema.kind == "censored"
    graphs = [source.read(record).graph for record in source.records("all")]
    np.testing.assert_array_equal(graphs[0].node_targets, [[1.5, 1.5], [2, NAN], [0.25, 0.25]])
    assert np.isnan(graphs[3].node_targets).all()
    assert graphs[3].node_targets.shape == (4, 2)


def test_repeated_rows_conflict_where_bounds_exclude_each_other() -> None:
    def warn(*labels: list[float]) -> list[str]:
        rows = np.array([*labels, *([[float(k)] * 2 for k in range(10)])])[:, None]
        keys = [*("twice" for _ in labels), *(str(k) for k in range(10))]
        return repeats(keys, keys, rows, None, classes=[False], what="molecule", advice="")

    assert warn([5, NAN], [30, 30]) == []
    assert warn([5, NAN], [9, NAN]) == []
    assert len(warn([30, NAN], [5, 5])) == 1
    assert len(warn([30, NAN], [NAN, 5])) == 1


def test_bounds_are_divided_with_the_numbers_they_name(tmp_path: Path) -> None:
    labels = [f"{'>' * (n % 2)}{n / 10}" for n in range(100)]
    source = open_custom(table(tmp_path / "m.csv", labels), target="y", split="stratified")
    assert dict(source.card.split_sizes) == {"train": 80, "val": 10, "test": 10}
