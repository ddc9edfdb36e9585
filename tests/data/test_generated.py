from __future__ import annotations

import pickle
from multiprocessing import get_context

import numpy as np
import pytest

from egt.data.benchmark import GeneratedSource, graph_random
from egt.errors import DataError
from egt.graph import Graph
from egt.paper.benchmarks.block_models import CLUSTER, PATTERN, cluster_graph, pattern_graph


def same(a: Graph | None, b: Graph | None) -> bool:
    assert a is not None
    assert b is not None
    assert a.node_targets is not None
    assert b.node_targets is not None
    return (
        np.array_equal(a.edge_index, b.edge_index)
        and np.array_equal(a.node_categories, b.node_categories)
        and np.array_equal(a.node_targets, b.node_targets)
    )


def test_random_numbers_depend_on_seed_split_and_number() -> None:
    draws = {
        graph_random(seed, split, number).random()
        for seed in (0, 1)
        for split in ("train", "val", "test")
        for number in (0, 1)
    }
    assert len(draws) == 12
    assert graph_random(3, "val", 4).random() == graph_random(3, "val", 4).random()


def test_order_and_processes_do_not_matter() -> None:
    source = GeneratedSource(PATTERN, pattern_graph, 5, "test", {"train": 4, "val": 2})
    records = source.records("train")
    forward = [source.read(record).graph for record in records]
    backward = [source.read(record).graph for record in records[::-1]][::-1]
    with get_context("fork").Pool(2) as pool:
        parallel = [reading.graph for reading in pool.map(source.read, records, chunksize=1)]
    assert all(same(a, b) and same(a, c) for a, b, c in zip(forward, backward, parallel, strict=True))


def test_card_says_that_the_graphs_are_generated_and_has_the_sizes_asked_for() -> None:
    source = GeneratedSource(CLUSTER, cluster_graph, 7, "a recipe", {"train": 3})
    assert "Generated with seed 7 (a recipe), not the published files." in source.card.notes
    assert dict(source.card.split_sizes) == {"train": 3}
    assert source.records("train") == [("train", 0), ("train", 1), ("train", 2)]
    assert dict(GeneratedSource(CLUSTER, cluster_graph, 7, "").card.split_sizes) == dict(CLUSTER.split_sizes)


def test_fingerprint_follows_seed_and_sizes() -> None:
    prints = {
        GeneratedSource(CLUSTER, cluster_graph, seed, "", sizes).fingerprint()
        for seed in (0, 1)
        for sizes in (None, {"train": 3})
    }
    assert len(prints) == 4
    source = GeneratedSource(CLUSTER, cluster_graph, 0, "")
    assert pickle.loads(pickle.dumps(source)).fingerprint() == source.fingerprint()


def test_graphs_do_not_depend_on_the_sizes() -> None:
    small = GeneratedSource(CLUSTER, cluster_graph, 0, "", {"train": 3})
    assert same(small.read(("train", 2)).graph, GeneratedSource(CLUSTER, cluster_graph, 0, "").read(("train", 2)).graph)


def test_wrong_sizes_and_splits_are_reported() -> None:
    for sizes in ({"valid": 3}, {"train": -1}):
        with pytest.raises(DataError, match="train"):
            GeneratedSource(CLUSTER, cluster_graph, 0, "", sizes)
    with pytest.raises(DataError, match="'valid'"):
        GeneratedSource(CLUSTER, cluster_graph, 0, "").records("valid")
