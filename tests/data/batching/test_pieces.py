"""Pieces ask about every labeled row once, are parts of the whole graph, and are all of it if nothing is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from egt.data.batching.batch import collate
from egt.data.batching.pieces import Pieces
from egt.data.encodings.encoding import (
    ChosenPairs,
    Encoding,
    LabelsAround,
    Listed,
    OutDegree,
    Preparation,
    Sample,
    ShortestPaths,
)
from egt.graph import FeatureSchema, Graph
from egt.parts.pairs import Edges, Expander

SCHEMA = FeatureSchema(node_categories=(3,), num_node_values=2, edge_categories=(4,), num_edge_values=1)


def _graph(num_nodes: int = 40, seed: int = 0, **fields: Any) -> Graph:
    """A ring with chords, whose edges are in no order."""
    random = np.random.default_rng(seed)
    ring = np.stack([np.arange(num_nodes), (np.arange(num_nodes) + 1) % num_nodes])
    chords = random.integers(num_nodes, size=(2, 30))
    both = np.concatenate([ring, chords[:, chords[0] != chords[1]]], axis=1)
    codes = random.permutation(np.unique(both.min(0) * num_nodes + both.max(0)))
    edges = np.stack(np.divmod(codes, num_nodes))
    count = edges.shape[1]
    given: dict[str, Any] = {
        "node_categories": random.integers(3, size=(num_nodes, 1)),
        "node_values": random.normal(size=(num_nodes, 2)),
        "edge_categories": random.integers(4, size=(count, 1)),
        "edge_values": random.normal(size=(count, 1)),
        "edge_weight": random.random(count),
        "id": "ring",
    }
    return Graph.undirected(num_nodes=num_nodes, edge_index=edges, **{**given, **fields})


def _prepared(graph: Graph, *encodings: Encoding) -> Sample:
    return Preparation(SCHEMA, (*encodings, Listed(ShortestPaths(3)), OutDegree()))(graph)


def _labels(count: int, every: int = 3) -> np.ndarray[Any, Any]:
    labels = np.full((count, 1), np.nan)
    labels[::every, 0] = np.arange(len(labels[::every]))
    return labels


def _linked(graph: Graph) -> Graph:
    queries = np.array([[0, 3, 7, 0, 5], [20, 9, 30, 21, 5]])
    return replace(graph, query_index=queries, edge_targets=np.arange(5.0)[:, None])


SAMPLES = {
    "node": _prepared(_graph(node_targets=_labels(40))),
    "edge": _prepared(replace(_graph(), edge_targets=_labels(_graph().num_edges))),
    "link": _prepared(_linked(_graph())),
    "chosen": _prepared(_graph(node_targets=_labels(40)), ChosenPairs((Edges(), Expander(degree=2)))),
}


def _level(kind: str) -> Any:
    return "node" if kind in ("node", "chosen") else "edge"


def _assert_equal(one: Sample, other: Sample) -> None:
    for name, value in vars(one.graph).items():
        np.testing.assert_array_equal(value, getattr(other.graph, name), err_msg=name)
    assert one.node.keys() == other.node.keys()
    assert one.listed.keys() == other.listed.keys()
    for part in ("node", "listed"):
        for name, array in getattr(one, part).items():
            np.testing.assert_array_equal(array, getattr(other, part)[name], err_msg=name)


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_piece_with_everything_is_the_whole_graph(kind: str) -> None:
    whole = SAMPLES[kind]
    pieces = Pieces([whole], _level(kind), 1000, [None] * 40)
    assert len(pieces) == 1
    assert pieces.sizes.tolist() == [40]
    _assert_equal(pieces[0], whole)
    _assert_equal(pieces.in_epoch(5)[0], whole)


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_label_is_asked_for_once_in_each_epoch(kind: str) -> None:
    whole = SAMPLES[kind]
    targets = whole.graph.node_targets if _level(kind) == "node" else whole.graph.edge_targets
    assert targets is not None
    pieces = Pieces([whole, whole], _level(kind), 4, [2, 1], seed=3)
    for drawn in (pieces, pieces.in_epoch(0), pieces.in_epoch(1)):
        found: dict[int, list[float]] = {0: [], 1: []}
        for k in range(len(drawn)):
            asked, graph = drawn.asked(k), drawn[k].graph
            labels = graph.node_targets if _level(kind) == "node" else graph.edge_targets
            assert labels is not None
            assert len(labels) == asked.num_rows
            assert len(asked.rows) <= 4
            np.testing.assert_array_equal(labels[asked.places], targets[asked.rows])
            assert np.count_nonzero(~np.isnan(labels)) == len(asked.rows)
            found[asked.graph] += labels[asked.places, 0].tolist()
        known = sorted(targets[~np.isnan(targets)].tolist())
        assert sorted(found[0]) == sorted(found[1]) == known


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_piece_is_the_part_of_the_graph_between_its_nodes(kind: str) -> None:
    whole = SAMPLES[kind]
    pieces = Pieces([whole], _level(kind), 3, [3, 2], seed=1).in_epoch(0)
    piece = pieces[1]
    nodes = pieces._nodes(1)
    assert 3 < len(nodes) < 40
    assert len(nodes) <= pieces.sizes[1]
    inner = np.isin(whole.graph.edge_index, nodes).all(axis=0)
    np.testing.assert_array_equal(nodes[piece.graph.edge_index], whole.graph.edge_index[:, inner])
    np.testing.assert_array_equal(piece.graph.edge_values, whole.graph.edge_values[inner])
    np.testing.assert_array_equal(piece.graph.node_values, whole.graph.node_values[nodes])
    np.testing.assert_array_equal(piece.node["out_degree"], whole.node["out_degree"][nodes])  # that of the whole graph
    listed = {tuple(pair): k for k, pair in enumerate(whole.listed_pairs.T.tolist())}
    own = [listed[tuple(pair)] for pair in nodes[piece.listed_pairs].T.tolist()]
    np.testing.assert_array_equal(piece.listed["distance"], whole.listed["distance"][own])
    Graph(**vars(piece.graph))  # all rules of a graph hold
    collate([piece, pieces[0]], "edge_list")


def test_pieces_follow_seed_and_epoch() -> None:
    def drawn(seed: int, epoch: int) -> list[list[int]]:
        pieces = Pieces([SAMPLES["node"]], "node", 5, [2], seed=seed).in_epoch(epoch)
        return [pieces._nodes(k).tolist() for k in range(len(pieces))]

    assert drawn(0, 1) == drawn(0, 1)
    assert drawn(0, 1) != drawn(0, 2)
    assert drawn(0, 1) != drawn(1, 1)


def test_all_rows_are_asked_about_in_order_where_every_one_is_wanted() -> None:
    unlabeled = _prepared(_graph())
    for every, sample in ((True, SAMPLES["node"]), (False, unlabeled), (True, unlabeled)):
        pieces = Pieces([sample], "node", 16, [1], every=every)
        assert [pieces.asked(k).rows.tolist() for k in range(3)] == [
            list(range(16)), list(range(16, 32)), list(range(32, 40)),
        ]  # fmt: skip
    assert Pieces([unlabeled], "node", 16, [1])[0].graph.node_targets is None


def test_without_any_label_all_rows_are_asked_about() -> None:
    unknown = _prepared(_graph(node_targets=np.full((40, 1), np.nan)))
    assert len(Pieces([unknown], "node", 16, [1])) == 3
    assert len(Pieces([unknown, SAMPLES["node"]], "node", 16, [1])) == 1  # the fourteen labels of the other


AROUND = LabelsAround(num_classes=3, folds=4)


def _knowing(labels: np.ndarray[Any, Any]) -> Sample:
    known = np.where(labels < 0, np.nan, labels)[:, None]
    graph = _graph(node_targets=known, known_labels=labels)
    return Preparation(replace(SCHEMA, known_labels=3), (AROUND, Listed(ShortestPaths(3))))(graph)


def _told(labels: np.ndarray[Any, Any], *, every: bool) -> Pieces:
    return Pieces([_knowing(labels)], "node", 4, [3, 2], seed=1, every=every, labels=AROUND).in_epoch(2)


@pytest.mark.parametrize("every", [False, True])
def test_no_input_of_a_piece_depends_on_the_labels_that_it_is_asked_about(every: bool) -> None:
    random = np.random.default_rng(0)
    labels = np.where(random.random(40) < 0.6, random.integers(3, size=40), -1)
    pieces = _told(labels, every=every)
    asked = np.concatenate([pieces.asked(k).rows for k in range(len(pieces))])
    assert np.array_equal(np.sort(asked), np.arange(40) if every else np.flatnonzero(labels >= 0))
    for k in range(len(pieces)):
        roots = pieces.asked(k).rows
        known, others = roots[labels[roots] >= 0], np.setdiff1d(np.flatnonzero(labels >= 0), roots)
        shuffled, elsewhere = labels.copy(), labels.copy()
        shuffled[known] = (labels[known] + 1) % 3
        elsewhere[others] = (labels[others] + 1) % 3
        same = _told(shuffled, every=every)[k]
        assert same.graph.known_labels is None
        assert np.array_equal(same.node["known_labels"], pieces[k].node["known_labels"])
        assert not np.array_equal(_told(elsewhere, every=every)[k].node["known_labels"], same.node["known_labels"])


def test_nodes_without_a_label_are_told_all_that_are_known() -> None:
    labels = np.where(np.arange(40) % 2 == 0, np.arange(40) % 3, -1)
    whole, pieces = _knowing(labels), Pieces([_knowing(labels)], "node", 50, None, every=True, labels=AROUND)
    told = [labels[pieces.asked(k).rows[0]] < 0 for k in range(len(pieces))]
    assert told == [True, False, False, False, False]  # those without a label, and four parts of the others
    [unlabeled] = [piece for piece, without in zip(pieces, told, strict=True) if without]
    assert np.array_equal(unlabeled.node["known_labels"], whole.node["known_labels"])
    assert unlabeled.graph.num_nodes == 40
