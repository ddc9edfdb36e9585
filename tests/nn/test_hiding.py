"""What pre-training hides of a batch: nothing that is hidden reaches the model, and all of it is asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from egt.data.batching.batch import GraphBatch, LayoutName, collate
from egt.data.encodings.encoding import Preparation, ShortestPaths
from egt.graph import UNKNOWN, FeatureSchema, Graph
from egt.nn.hiding import hide
from egt.nn.randomness import graph_keys
from egt.parts.inputs import RandomWalks

HOPS = 3
SCHEMA = FeatureSchema(node_categories=(5,), num_node_values=1, edge_categories=(4,), num_edge_values=1)
STRUCTURE = ("distance", "random_walk")


def batch(layout: LayoutName = "packed", shift: int = 0, sizes: tuple[int, ...] = (6, 9)) -> GraphBatch:
    """Rings with a feature of each kind; `shift` changes every one of them."""
    prepare = Preparation(SCHEMA, (ShortestPaths(HOPS), RandomWalks(4)))
    samples = []
    for size in sizes:
        nodes = np.arange(size)
        graph = Graph.undirected(
            num_nodes=size,
            edge_index=np.stack([nodes, (nodes + 1) % size]),
            node_categories=((nodes + shift) % 5)[:, None],
            node_values=(nodes + shift + 0.5)[:, None],
            edge_categories=((nodes + shift) % 4)[:, None],
            edge_values=(nodes + shift + 0.25)[:, None],
        )
        samples.append(prepare(graph))
    return collate(samples, layout)


def keyed(given: GraphBatch, step: int) -> GraphBatch:
    return replace(given, random_keys=graph_keys(7, step, given.graph_ids))


def hidden_rows(given: GraphBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """Which nodes and which edges of a packed batch have lost their features."""
    return given.node_categories[:, 0] == UNKNOWN, given.edge_categories[:, 0] == UNKNOWN


def test_a_hidden_feature_reaches_no_input() -> None:
    """Graphs that differ in their hidden features alone are the same to the model."""
    first, other = hide(batch(), 0.4, HOPS), hide(batch(shift=1), 0.4, HOPS)
    nodes, edges = hidden_rows(first)
    assert 0 < nodes.sum() < len(nodes)
    assert 0 < edges.sum() < len(edges)
    for name, rows in (("node", nodes), ("edge", edges)):
        for kind in ("categories", "values"):
            a, b = getattr(first, f"{name}_{kind}"), getattr(other, f"{name}_{kind}")
            assert torch.equal(a[rows], b[rows])
            assert (a[~rows] != b[~rows]).all()
    for name in STRUCTURE:
        assert torch.equal(first.pair[name], other.pair[name])
    assert torch.equal(first.edge_pairs, other.edge_pairs)
    assert torch.equal(first.queries, other.queries)
    assert first.node_targets is not None
    assert other.node_targets is not None
    assert (first.node_targets[nodes] != other.node_targets[nodes]).all()


def test_what_is_hidden_is_asked_for() -> None:
    whole, given = batch(), hide(batch(), 0.4, HOPS)
    nodes, edges = hidden_rows(given)
    assert given.node_targets is not None
    assert given.edge_targets is not None
    true_nodes = torch.cat([whole.node_categories, whole.node_values], dim=1).float()
    assert torch.equal(given.node_targets[nodes], true_nodes[nodes])
    assert given.node_targets[~nodes].isnan().all()
    true_edges = torch.cat([whole.edge_categories, whole.edge_values], dim=1).float()
    assert torch.equal(given.edge_targets[: edges.sum(), :2], true_edges[edges])
    assert torch.equal(given.queries[: edges.sum()], whole.edge_pairs[edges])
    far = given.queries[edges.sum() :]
    assert torch.equal(given.edge_targets[edges.sum() :, 2], whole.pair["distance"][far].float())
    assert given.edge_targets[: edges.sum(), 2].isnan().all()
    assert given.edge_targets[edges.sum() :, :2].isnan().all()


def test_a_hidden_pair_tells_nothing_and_edges_stay() -> None:
    whole, given = batch(), hide(batch(), 0.4, HOPS)
    far = given.queries[hidden_rows(given)[1].sum() :]
    assert (whole.pair["distance"][far] > 1).all()
    assert (given.pair["distance"][far] == HOPS + 1).all()
    assert (given.pair["random_walk"][far] == 0).all()
    others = torch.ones(len(given.pair["distance"]), dtype=torch.bool)
    others[far] = False
    for name in STRUCTURE:
        assert torch.equal(given.pair[name][others], whole.pair[name][others])


def test_both_directions_are_hidden_together() -> None:
    given = hide(batch(), 0.4, HOPS)
    index = given.layout.pair_indices
    asked = {(int(index.graph[row]), int(index.i[row]), int(index.j[row])) for row in given.queries}
    assert asked == {(graph, j, i) for graph, i, j in asked}


def test_a_step_decides_what_is_hidden_and_without_one_it_stays() -> None:
    def hidden(given: GraphBatch) -> list[bool]:
        found: list[bool] = hidden_rows(hide(given, 0.4, HOPS))[0].tolist()
        return found

    assert hidden(keyed(batch(), 1)) == hidden(keyed(batch(), 1)) != hidden(keyed(batch(), 2))
    assert hidden(batch()) == hidden(batch())


def test_the_share_is_hidden() -> None:
    nodes, edges = hidden_rows(hide(batch(sizes=(400,)), 0.2, HOPS))
    assert nodes.float().mean().item() == pytest.approx(0.2, abs=0.07)
    assert edges.float().mean().item() == pytest.approx(0.2, abs=0.07)


def test_every_layout_hides_the_same() -> None:
    packed, padded = hide(batch("packed"), 0.4, HOPS), hide(batch("padded"), 0.4, HOPS)

    def known(values: torch.Tensor | None) -> NDArray[np.float32]:
        assert values is not None
        return values.nan_to_num(nan=-9).numpy()

    assert np.array_equal(known(packed.node_targets), known(padded.node_targets))
    assert np.array_equal(known(packed.edge_targets), known(padded.edge_targets))


def test_a_list_of_edges_hides_features_and_no_distances() -> None:
    given = hide(batch("edge_list"), 0.4, 0)
    edges = hidden_rows(given)[1]
    assert given.edge_targets is not None
    assert given.edge_targets.shape == (edges.sum(), 2)
    assert torch.equal(given.queries, given.edge_pairs[edges])
