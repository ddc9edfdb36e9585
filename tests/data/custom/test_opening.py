"""Vocabularies and scales come from the training split and from nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.data.custom import CustomSource, SplitPlan, open_custom


def lines(tmp_path: Path, graphs: list[dict[str, Any]], **options: Any) -> CustomSource:
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(json.dumps(graph) for graph in graphs))
    return open_custom(path, **options)


def one(split: str, kinds: list[str], values: list[float | None], y: float, weight: float) -> dict[str, Any]:
    return {
        "split": split,
        "nodes": {"kind": kinds, "value": values},
        "edges": [{"source": 0, "target": 1, "weight": weight}],
        "targets": {"y": y},
    }


GRAPHS = [
    one("train", ["b", "a"], [1.5, 3.5], 10.5, 1.0),
    one("train", ["a", "a"], [5.5, None], 20.5, 3.0),
    one("val", ["c", "a"], [100.5, None], 1000.5, 500.0),
]


def test_training_rows_decide(tmp_path: Path) -> None:
    schema = lines(tmp_path, GRAPHS).schema
    kind, value = schema.node_features
    assert kind.vocabulary == ("a", "b"), "c is seen in validation only"
    assert value.mean == (3.5,)
    assert value.std == pytest.approx((np.std([1.5, 3.5, 5.5]),))
    assert schema.edge_features[0].mean == (2.0,)


def test_a_graph_with_vectors_where_others_have_labels_is_refused_alone(tmp_path: Path) -> None:
    plain = [{"nodes": {"z": [k % 2, 1, 0]}, "edges": [[0, 1]]} for k in range(6)]
    source = lines(tmp_path, [*plain, {"nodes": {"z": [[1, 2]]}, "edges": []}], level="node", target="z")
    errors = [source.read(record).error for record in source.records("all")]
    assert errors[:6] == [""] * 6
    assert errors[6].endswith("the target 'z' holds vectors; it must hold one label per row")


@pytest.mark.parametrize("lists", [[None, []], [[1, 2], [3, 4]]])
def test_a_graph_with_lists_where_others_have_categories_is_refused_alone(tmp_path: Path, lists: list[Any]) -> None:
    plain = [{"nodes": {"x": [1, 2, k % 2]}, "edges": [[0, 1]], "targets": {"y": k / 8}} for k in range(4)]
    source = lines(tmp_path, [*plain, {"nodes": {"x": lists}, "edges": [], "targets": {"y": 0.1}}])
    errors = [source.read(record).error for record in source.records("all")]
    assert errors[:4] == [""] * 4
    assert "data.jsonl row 5: 'x' holds vectors" in errors[4]


def test_unseen_and_missing_values_are_filled_in_with_a_warning(tmp_path: Path) -> None:
    source = lines(tmp_path, GRAPHS)
    reading = source.read(source.records("val")[0])
    assert reading.graph is not None
    assert reading.graph.node_categories.tolist() == [[-1], [0]]
    np.testing.assert_allclose(reading.graph.node_values[:, 0], [97 / float(np.std([1.5, 3.5, 5.5])), 0.0], rtol=1e-6)
    assert "'kind' holds categories not seen in training: c" in reading.warning
    assert "1 missing values of 'value' filled with the training mean" in reading.warning
    assert reading.graph.graph_targets is not None
    assert reading.graph.graph_targets.tolist() == [1000.5], "targets stay in their unit"
    clean = source.read(source.records("train")[0])
    assert clean.warning == ""
    assert clean.graph is not None
    assert clean.graph.edge_values.tolist() == [[-1.0], [-1.0]]
    assert clean.graph.edge_weight is not None
    assert clean.graph.edge_weight.tolist() == [1.0, 1.0]


def test_bags_of_words_are_taken_as_they_are(tmp_path: Path) -> None:
    graph = {"nodes": {"words": [[0, 1, 0], [1, 0, 0]]}, "node_targets": {"y": [0, 1]}, "edges": [[0, 1]]}
    source = lines(tmp_path, [graph], split=SplitPlan(kind="random", fractions=(1.0, 0.0, 0.0)))
    (words,) = source.schema.node_features
    assert (words.width, words.mean) == (3, ())
    read = source.read(source.records("train")[0]).graph
    assert read is not None
    assert read.node_values.tolist() == [[0, 1, 0], [1, 0, 0]]


def test_vectors_of_mostly_zeros_keep_their_zeros(tmp_path: Path) -> None:
    counts = [[0.0, 3.0, 0.0], [4.0, 0.0, 0.0]]
    graph = {"nodes": {"words": counts}, "node_targets": {"y": [0, 1]}, "edges": [[0, 1]]}
    source = lines(tmp_path, [graph], split=SplitPlan(kind="random", fractions=(1.0, 0.0, 0.0)))
    (words,) = source.schema.node_features
    assert words.mean == (0.0, 0.0, 0.0)
    assert words.std == pytest.approx((12.5**0.5,) * 3)
    read = source.read(source.records("train")[0]).graph
    assert read is not None
    np.testing.assert_allclose(read.node_values, np.array(counts) / 12.5**0.5, rtol=1e-6)


def test_held_out_links_teach_nothing(tmp_path: Path) -> None:
    edges = [{"source": k, "target": k + 1, "length": k + 0.5} for k in range(20)]
    source = lines(tmp_path, [{"num_nodes": 21, "edges": edges}], level="link")
    train = source.read(source.records("val")[0]).graph
    assert train is not None
    shown = np.unique(train.edge_index[:, train.edge_index[0] < train.edge_index[1]][0]) + 0.5
    assert len(shown) == 16
    (length,) = source.schema.edge_features
    assert length.mean == pytest.approx((shown.mean(),))
    assert length.std == pytest.approx((shown.std(),))


def test_a_number_that_no_graph_can_hold_spoils_its_graph_only(tmp_path: Path) -> None:
    graphs = [
        {"split": "train", "nodes": {"x": [value, 1.0]}, "edges": [[0, 1]], "targets": {"y": 0.5 * k}}
        for k, value in enumerate((2.5, 1e300, 4.5))
    ]
    source = lines(tmp_path, graphs)
    [feature] = source.schema.node_features
    assert list(feature.mean) == pytest.approx([2.0])
    assert np.isfinite(feature.std).all()
    readings = [source.read(record) for record in source.records("all")]
    assert [reading.graph is None for reading in readings] == [False, True, False]
    assert "'x' is 1e+300; numbers must be finite" in readings[1].error


def test_an_infinite_weight_is_told_by_its_name(tmp_path: Path) -> None:
    edges = [{"source": 0, "target": 1, "weight": w} for w in (1.0, float("inf"))]
    source = lines(tmp_path, [{"num_nodes": 2, "edges": [edge], "targets": {"y": 0.5}} for edge in edges])
    errors = [source.read(record).error for record in source.records("all")]
    assert errors[0] == ""
    assert "edge weight 'weight' is inf" in errors[1]
