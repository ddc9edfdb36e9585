"""Cora through the own-data path. Its public files are pickles, which the product never reads: converted here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.cora import write_cora
from egt.data.custom import CustomSource, open_custom


@pytest.fixture(scope="module")
def cora(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> CustomSource:
    path = tmp_path_factory.mktemp("cora") / "cora.jsonl"
    write_cora(data_dir / "planetoid", path)
    return open_custom(path)


def test_schema_is_that_of_a_node_classification(cora: CustomSource) -> None:
    schema = cora.schema
    assert (schema.level, schema.kind, len(schema.classes)) == ("node", "multiclass", 7)
    assert schema.split.kind == "column"
    (words,) = schema.node_features
    assert (words.kind, words.width, words.mean) == ("continuous", 1433, ())


def test_each_split_is_the_same_graph_with_its_own_labels(cora: CustomSource) -> None:
    graphs = {split: cora.read(cora.records(split)[0]).graph for split in ("train", "val", "test")}
    scored = {}
    for split, graph in graphs.items():
        assert graph is not None
        assert (graph.num_nodes, graph.node_values.shape) == (2708, (2708, 1433))
        assert graph.is_symmetric
        # the file lists 5,429 citations, 5,278 of them distinct pairs of different papers
        assert graph.num_edges == 2 * 5278
        assert graph.node_targets is not None
        scored[split] = np.flatnonzero(~np.isnan(graph.node_targets[:, 0]))
    assert {split: len(nodes) for split, nodes in scored.items()} == {"train": 140, "val": 500, "test": 1000}
    train = graphs["train"]
    assert train is not None
    assert train.node_targets is not None
    labels = train.node_targets[scored["train"], 0]
    assert np.bincount(labels.astype(int)).tolist() == [20] * 7


def test_links_can_be_held_out(cora: CustomSource, tmp_path: Path, data_dir: Path) -> None:
    path = tmp_path / "cora.jsonl"
    write_cora(data_dir / "planetoid", path)
    source = open_custom(path, level="link")
    assert source.card.split_sizes == {"train": 10, "val": 1, "test": 1}
    test = source.read(source.records("test")[0]).graph
    assert test is not None
    assert test.query_index is not None
    assert test.query_index.shape[1] == 2 * 528
    assert test.num_edges == 2 * 4222
