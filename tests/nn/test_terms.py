"""The learned inputs: each term against its definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from egt.config.run_data import preparation
from egt.data.batching.batch import GraphBatch, LayoutName, collate
from egt.data.encodings.encoding import Preparation, Sample
from egt.graph import FeatureSchema, Graph
from egt.nn import terms
from egt.nn.randomness import graph_keys
from tests.graphs import graphs_of_every_kind, tiny_config

SCHEMA = FeatureSchema(node_categories=(3, 4), num_node_values=1, edge_categories=(2,), num_edge_values=2)


def small_graph() -> Graph:
    return Graph(
        num_nodes=3,
        edge_index=[[0, 1], [1, 2]],
        node_categories=[[0, 3], [2, -1], [1, 1]],
        node_values=[[0.5], [1.0], [-2.0]],
        edge_categories=[[1], [-1]],
        edge_values=[[1.0, 2.0], [3.0, 4.0]],
    )


def batch_of(graph: Graph, layout: LayoutName = "padded") -> GraphBatch:
    return collate([Preparation(SCHEMA)(graph)], layout)


def test_categories_are_summed_and_an_unknown_one_adds_nothing() -> None:
    term = terms.NodeCategoryEmbedding((3, 4), 6)
    table = term.categories.table.weight
    h = term(batch_of(small_graph()))[0]
    torch.testing.assert_close(h[0], table[1 + 0] + table[1 + 3 + 3])
    torch.testing.assert_close(h[1], table[1 + 2])
    torch.testing.assert_close(h[2], table[1 + 1] + table[1 + 3 + 1])


@pytest.mark.parametrize("shape", [(7,), (2, 3, 3), (0,)])
def test_rows_of_a_table_add_up_the_gradients_of_their_places(shape: tuple[int, ...]) -> None:
    table = torch.arange(12.0).view(4, 3).requires_grad_()
    index = torch.arange(int(np.prod(shape))).view(shape) % 3
    rows = terms.rows_of(table, index)
    assert torch.equal(rows, table[index])
    rows.backward(torch.ones_like(rows))
    asked = torch.bincount(index.flatten(), minlength=4)  # row 3 is never asked for
    assert table.grad is not None
    assert torch.equal(table.grad, asked.unsqueeze(1).expand(4, 3).float())


@pytest.mark.parametrize("absent", ["zero", "learned"])
def test_unknown_categories_add_nothing_and_train_no_row(absent: terms.Absent) -> None:
    table = terms.CategoryTable((3, 4), 5, absent)
    out = table(torch.tensor([[0, 3], [-1, 2], [2, -1], [-1, -1]]))
    weight = table.table.weight
    expected = torch.stack([weight[1] + weight[7], weight[6], weight[3], torch.zeros(5)])
    torch.testing.assert_close(out, expected)
    out.sum().backward()
    assert weight.grad is not None
    assert weight.grad[:, 0].tolist() == [0, 1, 0, 1, 0, 0, 1, 1]


@pytest.mark.parametrize("layout", ["packed", "padded"])
@pytest.mark.parametrize("absent", ["zero", "learned"])
def test_edge_categories_and_the_value_of_non_edges(absent: terms.Absent, layout: LayoutName) -> None:
    term = terms.EdgeCategoryEmbedding((2,), 5, absent)
    table = term.categories.table.weight
    assert bool(table[0].any()) == (absent == "learned")
    e = term(batch_of(small_graph(), layout)).view(3, 3, 5)
    torch.testing.assert_close(e[0, 1], table[1 + 1])
    torch.testing.assert_close(e[1, 2], torch.zeros(5))  # an edge of unknown category
    torch.testing.assert_close(e[1, 0], table[0])
    torch.testing.assert_close(e[2, 2], table[0])


@pytest.mark.parametrize("layout", ["packed", "padded", "edge_list"])
def test_values_of_a_graph_reach_each_of_its_nodes_and_no_other(layout: LayoutName) -> None:
    term = terms.GraphValueProjection(2, 5)
    graphs = [Graph(num_nodes=n, edge_index=[[0], [0]], graph_values=[n, -1.0]) for n in (1, 3)]
    batch = collate([Sample(graph) for graph in graphs], layout)
    expected = torch.cat([term.W(torch.tensor([[float(n), -1.0]])).expand(n, -1) for n in (1, 3)])
    torch.testing.assert_close(batch.layout.node_rows(term(batch)), expected)


def test_edge_values_of_non_edges() -> None:
    batch = batch_of(small_graph())
    learned, zero = terms.EdgeValueProjection(2, 5, "learned"), terms.EdgeValueProjection(2, 5, "zero")
    torch.testing.assert_close(learned(batch)[0, 0, 1], learned.W(torch.tensor([1.0, 2.0])))
    torch.testing.assert_close(learned(batch)[0, 1, 0], learned.W.bias)
    torch.testing.assert_close(zero(batch)[0, 1, 0], torch.zeros(5))


@pytest.mark.parametrize("layout", ["packed", "padded"])
@pytest.mark.parametrize("absent", ["zero", "learned"])
def test_a_term_of_edges_is_added_to_what_pairs_have(absent: terms.Absent, layout: LayoutName) -> None:
    batch = batch_of(small_graph(), layout)
    e = torch.randn(*batch.layout.pair_shape, 5)
    for term in (terms.EdgeCategoryEmbedding((2,), 5, absent), terms.EdgeValueProjection(2, 5, absent)):
        torch.testing.assert_close(term.added_to(e, batch), e + term(batch))


def test_zero_row_is_not_trained_and_the_learned_one_is() -> None:
    for absent, trained in (("zero", False), ("learned", True)):
        term = terms.EdgeCategoryEmbedding((2,), 5, absent)
        term(batch_of(small_graph())).sum().backward()
        gradient = term.categories.table.weight.grad
        assert gradient is not None
        assert bool(gradient[0].any()) is trained


def test_distance_table_has_a_row_for_farther() -> None:
    graph = Graph(num_nodes=6, edge_index=[[0, 1, 2, 3], [1, 2, 3, 4]])
    term = terms.DistanceTable(2, 4)
    distance = np.array([[0, 1, 2, 3, 4, 9]] * 6, np.uint8)
    e = term(collate([Sample(graph, {}, {"distance": distance})], "padded"))[0, 0]
    table = term.table.weight
    assert table.shape == (4, 4)
    torch.testing.assert_close(e, table[[0, 1, 2, 3, 3, 3]])


def test_reachability_is_the_affine_map_of_stacked_matrices() -> None:
    graph = Graph(num_nodes=5, edge_index=[[0, 1, 2], [1, 2, 3]])
    hops = 3
    A = graph.adjacency()
    stack = np.stack([(np.linalg.matrix_power(A, k) > 0) for k in range(1, hops + 1)], -1)
    distance = np.minimum(hops + 1, [[abs(j - i) if i <= j < 4 or i == j else 9 for j in range(5)] for i in range(5)])
    term = terms.ReachabilityProjection(hops, 4)
    e = term(collate([Sample(graph, {}, {"distance": distance.astype(np.uint8)})], "padded"))[0]
    torch.testing.assert_close(e, term.W(torch.from_numpy(stack).float()))


def svd_batch(training_step: int | None) -> GraphBatch:
    config = tiny_config()
    batch = collate([preparation(config)(graph) for graph in graphs_of_every_kind(0, 3)])
    return batch if training_step is None else replace(batch, random_keys=graph_keys(1, training_step, batch.graph_ids))


def test_signs_flip_u_and_v_together() -> None:
    """The products u_ik v_jk, and so the approximated adjacency matrix, survive the flips; single entries do not."""
    rank = 4
    term = terms.SignedProjection("svd", rank, 2, 2 * rank)
    with torch.no_grad():
        term.W_enc.weight.copy_(torch.eye(2 * rank))
        term.W_enc.bias.zero_()
    batch = svd_batch(training_step=0)
    flipped, plain = term.train()(batch), term.eval()(batch)
    assert torch.equal(plain, batch.node["svd"])
    assert not torch.equal(flipped, plain)
    torch.testing.assert_close(flipped.abs(), plain.abs())
    assert torch.equal(flipped[:, :rank] * flipped[:, rank:], plain[:, :rank] * plain[:, rank:])


def test_one_sign_per_graph_and_column_fair_and_new_every_step() -> None:
    term = terms.SignedProjection("svd", 4, 2, 8)
    steps = torch.stack([term.signs(svd_batch(step)) for step in range(200)])  # (steps, graphs, rank)
    assert set(steps.unique().tolist()) == {-1.0, 1.0}
    assert steps.mean(0).abs().max() < 0.3  # 4 standard deviations
    assert abs(float(steps.mean())) < 0.03
    assert torch.equal(steps[0], term.signs(svd_batch(0)))
    assert not torch.equal(steps[0], steps[1])
    flat = steps.flatten(1)
    assert ((flat.T @ flat / 200 - torch.eye(flat.shape[1])).abs().max()) < 0.35  # independent of each other


def test_signs_are_canonical_at_inference() -> None:
    term = terms.SignedProjection("svd", 4, 2, 8).eval()
    assert torch.equal(term(svd_batch(0)), term(svd_batch(1)))
    fixed = terms.SignedProjection("svd", 4, 2, 8, flips=False).train()
    assert torch.equal(fixed(svd_batch(0)), fixed(svd_batch(1)))


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_dropped_features_are_zero_the_others_grow_and_only_in_training(layout: LayoutName) -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform(1, 2, (40, 30))
    graph = Graph(num_nodes=40, edge_index=[[], []], node_values=values)
    batch = collate([Preparation(FeatureSchema(num_node_values=30))(graph)], layout)
    batch = replace(batch, random_keys=graph_keys(0, 5, batch.graph_ids))
    term = terms.NodeValueProjection(30, 30, dropout=0.25)
    with torch.no_grad():
        term.W.weight.copy_(torch.eye(30))
        term.W.bias.zero_()
    kept = term(batch).reshape(40, 30)
    torch.testing.assert_close(kept, torch.where(kept == 0, 0.0, torch.from_numpy(values).float() / 0.75))
    assert abs((kept == 0).double().mean() - 0.25) < 0.05
    torch.testing.assert_close(term(batch), term(batch))
    torch.testing.assert_close(term.eval()(batch), term.W(batch.node_values))


def test_dropped_features_are_the_same_on_every_layout() -> None:
    config = tiny_config()
    term = terms.NodeValueProjection(2, 4, dropout=0.5)
    samples = [preparation(config)(graph) for graph in graphs_of_every_kind(3)]
    rows = []
    for layout in ("packed", "padded", "edge_list"):
        batch = collate(samples, layout)
        rows.append(batch.layout.node_rows(term(replace(batch, random_keys=graph_keys(1, 2, batch.graph_ids)))))
    torch.testing.assert_close(rows[0], rows[1])
    torch.testing.assert_close(rows[0], rows[2])
