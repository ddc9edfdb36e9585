"""Baselines without a network, on cases whose answer is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from egt.data.molecules import graphs_from_smiles
from egt.data.source import TargetSchema
from egt.errors import ConfigError
from egt.graph import Graph
from egt.paper.rules import fingerprint, forest, nearest, propagation

CLASSES = TargetSchema("node", "multiclass", ("cluster",), 2)


def molecule(smiles: str, target: float = 0.0) -> Graph:
    (found,) = graphs_from_smiles([smiles], vocabulary="ogb", ids=[smiles], graph_targets=[np.array([target])])
    assert isinstance(found, tuple)
    return found[0]


def test_a_fingerprint_knows_a_molecule_however_it_is_written() -> None:
    assert np.array_equal(fingerprint(molecule("OCC")), fingerprint(molecule("CCO")))
    assert not np.array_equal(fingerprint(molecule("CCO")), fingerprint(molecule("COC")))
    butane, pentane = fingerprint(molecule("CCCC")), fingerprint(molecule("CCCCC"))
    assert np.minimum(butane, pentane).sum() / butane.sum() > 0.5  # most neighborhoods are shared
    assert butane.sum() == 3 * 4  # every atom with 0, 1 and 2 bonds around it


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_a_forest_tells_alcohols_from_chlorides(kind: str) -> None:
    chains = ["C" * k for k in range(1, 13)]
    graphs = [molecule(f"{c}O", 1.0) for c in chains] + [molecule(f"{c}Cl", 0.0) for c in chains]
    target = TargetSchema("graph", kind, ("y",))
    answers = forest(graphs, target, 0, [molecule("CC(C)CO"), molecule("CC(C)CCl")])
    assert [answer.shape for answer in answers] == [(1, 1)] * 2
    assert answers[0][0, 0] > answers[1][0, 0]


def test_a_forest_leaves_out_missing_labels() -> None:
    graphs = [molecule("CO", 1.0), molecule("CCO", 1.0), molecule("CCl", np.nan)]
    (answer,) = forest(graphs, TargetSchema("graph", "binary", ("y",)), 0, [molecule("CCC")])
    assert answer[0, 0] > 0  # all that it knows is yes


def test_the_tour_goes_to_the_two_nearest() -> None:
    graph = Graph(
        num_nodes=4,
        edge_index=[[0, 0, 0, 1, 1, 1], [1, 2, 3, 0, 2, 3]],
        edge_values=np.array([[0.3], [0.1], [0.2], [0.3], [0.5], [0.4]], np.float32),
    )
    (answer,) = nearest([], TargetSchema("edge", "multiclass", ("in_tour",), 2), 0, [graph])
    assert answer.argmax(1).tolist() == [0, 1, 1, 1, 0, 1]


def two_paths(**more: object) -> Graph:
    return Graph.undirected(num_nodes=6, edge_index=[[0, 1, 3, 4], [1, 2, 4, 5]], id="g", **more)


def test_labels_spread_from_training_nodes_of_the_same_graph() -> None:
    known = two_paths(node_targets=np.array([0, np.nan, np.nan, 1, np.nan, np.nan])[:, None])
    (answer,) = propagation([known], CLASSES, 0, [two_paths()])
    assert answer.argmax(1).tolist() == [0, 0, 0, 1, 1, 1]


def test_labels_spread_from_nodes_that_carry_them_as_input() -> None:
    seeds = two_paths(node_categories=np.array([[0], [0], [2], [1], [0], [0]]))
    (answer,) = propagation([replace(seeds, id="other", node_targets=np.zeros((6, 1)))], CLASSES, 0, [seeds])
    assert answer.argmax(1).tolist() == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("rule", [forest, nearest])
def test_a_rule_refuses_what_it_cannot_predict(rule: Any) -> None:
    with pytest.raises(ConfigError):
        rule([], CLASSES, 0, [])


def test_labels_are_propagated_for_classes_of_nodes_alone() -> None:
    with pytest.raises(ConfigError):
        propagation([], TargetSchema("graph", "regression", ("y",)), 0, [])
