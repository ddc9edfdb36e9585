"""What is known around a node: shares of labels, in plain numbers; which nodes a source tells the label of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.data.custom import open_custom
from egt.data.encodings.encoding import LabelsAround, neighbors_of
from egt.data.source import SPLITS
from egt.errors import GraphError
from egt.graph import FeatureSchema, Graph

SPLIT = ["train", "train", "val", "test", "train", None]


def test_shares_are_those_of_known_neighbors_and_of_long_walks() -> None:
    # 0 - 1, 0 - 2, 0 - 3, 3 - 4; node 5 is alone
    labels = [-1, 0, 1, -1, 1, 0]
    graph = Graph.undirected(num_nodes=6, edge_index=[[0, 0, 0, 3], [1, 2, 3, 4]], known_labels=labels)
    rows = LabelsAround(num_classes=2, folds=2)(graph)
    assert rows.shape == (6, 4)
    np.testing.assert_allclose(rows[[0, 1, 3, 5], :2], [[0.5, 0.5], [0, 0], [0, 1], [0, 0]], atol=1e-6)
    np.testing.assert_allclose(rows[5, 2:], [1, 0], atol=1e-6)  # its own label, which its pieces hide
    S, y = neighbors_of(graph).toarray(), np.array([[0, 0], [1, 0], [0, 1], [0, 0], [0, 1], [1, 0]], float)
    walks = y
    for _ in range(50):
        walks = 0.9 * S @ walks + 0.1 * y
    np.testing.assert_allclose(rows[:, 2:], walks / walks.sum(1, keepdims=True), atol=1e-5)


def test_a_hidden_label_counts_as_if_it_were_not_there() -> None:
    around, hidden = LabelsAround(num_classes=2, folds=2), np.array([False, True, False])
    edges = [[0, 1], [1, 2]]
    graph = Graph.undirected(num_nodes=3, edge_index=edges, known_labels=[0, 1, 1])
    without = Graph.undirected(num_nodes=3, edge_index=edges, known_labels=[0, -1, 1])
    assert np.array_equal(around.without(graph, hidden, neighbors_of(graph)), around(without))


def _path(path: Path, *, split: bool = True, labels: bool = True) -> Path:
    nodes: dict[str, Any] = {"x": [0.1 * k for k in range(6)]} | ({"split": SPLIT} if split else {})
    graph: dict[str, Any] = {"nodes": nodes, "edges": [[k, k + 1] for k in range(5)], "directed": False}
    if labels:
        graph["node_targets"] = {"topic": ["a", "b", "a", "a", None, "b"]}
    path.write_text(json.dumps(graph))
    return path


def test_only_labels_of_the_training_nodes_are_known_in_every_split(tmp_path: Path) -> None:
    source = open_custom(_path(tmp_path / "path.jsonl"), target="topic")
    for split in (*SPLITS, "all"):
        graph = source.read(source.records(split)[0]).graph
        assert graph is not None
        assert graph.known_labels is not None
        assert graph.known_labels.tolist() == [0, 1, -1, -1, -1, -1], split


@pytest.mark.parametrize(("split", "known"), [(True, [0, 1, -1, -1, -1, -1]), (False, [0, 1, 0, 0, -1, 1])])
def test_new_data_tells_the_labels_that_it_has_or_those_of_its_training_nodes(
    tmp_path: Path, split: bool, known: list[int]
) -> None:
    schema = open_custom(_path(tmp_path / "path.jsonl"), target="topic").schema
    source = open_custom(_path(tmp_path / "new.jsonl", split=split), schema=schema)
    graph = source.read(source.records("all")[0]).graph
    assert graph is not None
    assert graph.known_labels is not None
    assert graph.known_labels.tolist() == known


def test_a_model_of_labels_asks_for_them(tmp_path: Path) -> None:
    schema = open_custom(_path(tmp_path / "path.jsonl"), target="topic").schema
    source = open_custom(_path(tmp_path / "new.jsonl", labels=False), schema=schema)
    graph = source.read(source.records("all")[0]).graph
    assert graph is not None
    assert graph.known_labels is None
    with pytest.raises(GraphError, match="target"):
        FeatureSchema(num_node_values=1, known_labels=2).check(graph)
