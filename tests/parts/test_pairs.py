"""What is chosen: the pairs of each kind, merged into one list, and the model that has only them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from egt.assemble import build_model
from egt.config.run import RunConfig
from egt.data.batching.batch import LayoutName, collate
from egt.data.encodings.encoding import ChosenPairs
from egt.errors import ConfigError
from egt.graph import Graph, IntArray
from egt.nn.randomness import graph_keys
from egt.nn.terms import PairTypes
from egt.parts.pairs import All, Edges, Expander, Nearest
from tests.graphs import fastest, graphs_of_every_kind, lively, random_graph, samples_of, tiny_config

RNG = np.random.default_rng(3)


def as_set(pairs: IntArray) -> set[tuple[int, int]]:
    return set(map(tuple, pairs.T.tolist()))


def points(n: int, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    edges = np.array([[0, 1], [1, 2]])[:, : max(0, n - 1)]
    return Graph(num_nodes=n, edge_index=edges, node_values=rng.random((n, 3)))


def test_edges_are_chosen_with_their_opposites() -> None:
    graph = points(4)
    assert [as_set(pairs) for pairs in Edges().choose(graph)] == [{(0, 1), (1, 2)}, {(1, 0), (2, 1)}]
    assert [as_set(pairs) for pairs in Edges(reverse=False).choose(graph)] == [{(0, 1), (1, 2)}]


@pytest.mark.parametrize(("n", "k"), [(1, 3), (3, 8), (30, 5)])
def test_nearest_are_the_nearest_others(n: int, k: int) -> None:
    graph = points(n)
    (pairs,) = Nearest(k=k, columns=(0, 2)).choose(graph)
    places = graph.node_values[:, [0, 2]].astype(np.float64)
    distance = np.linalg.norm(places[:, None] - places, axis=-1)
    np.fill_diagonal(distance, np.inf)
    expected = {(i, int(j)) for i in range(n) for j in np.argsort(distance[i])[: min(k, n - 1)]}
    assert as_set(pairs) == expected
    assert pairs.shape[1] == len(expected)


def test_nodes_at_one_place_are_near_and_never_themselves() -> None:
    graph = Graph(num_nodes=6, edge_index=np.zeros((2, 0)), node_values=np.zeros((6, 2)))
    i, j = Nearest(k=2, columns=(0, 1)).choose(graph)[0]
    assert (i != j).all()
    assert np.bincount(i).tolist() == [2] * 6


def test_an_expander_is_regular_connected_and_short() -> None:
    graph = points(200)
    (pairs,) = Expander(degree=6).choose(graph)
    i, j = pairs
    assert (i != j).all()
    assert (np.bincount(i) == 6).all()
    assert (np.bincount(j) == 6).all()
    assert as_set(pairs) == as_set(pairs[::-1])
    links = np.zeros((200, 200))
    links[i, j] = 1
    second = np.sort(np.abs(np.linalg.eigvalsh(links)))[-2]
    assert second < 1.15 * 2 * np.sqrt(5)  # that of the best 6-regular graphs is 2 sqrt(5)


def test_an_expander_follows_its_nodes_and_differs_between_graphs() -> None:
    graph = points(40)
    order = np.random.default_rng(1).permutation(40)
    renumbered = np.argsort(order)
    (pairs,), (permuted,) = Expander(degree=4).choose(graph), Expander(degree=4).choose(graph.permuted(order))
    assert as_set(renumbered[pairs]) == as_set(permuted)
    (other,) = Expander(degree=4).choose(points(40, seed=1))
    assert len(as_set(pairs) & as_set(other)) < 40


def test_cycles_of_nodes_that_look_alike_are_random_too() -> None:
    ring = Graph.undirected(num_nodes=50, edge_index=[np.arange(50), np.roll(np.arange(50), -1)])
    (pairs,) = Expander(degree=4).choose(ring)
    assert len(as_set(pairs)) > 180  # the two cycles are not the same one
    assert len(as_set(pairs) & as_set(ring.edge_index)) < 30


def test_a_small_graph_gets_all_pairs() -> None:
    (pairs,) = Expander(degree=10).choose(points(11))
    assert as_set(pairs) == {(i, j) for i in range(11) for j in range(11) if i != j}


def test_duplicates_are_merged_and_keep_all_types() -> None:
    graph = Graph(num_nodes=3, edge_index=[[0, 0], [1, 2]], query_index=[[2], [1]], edge_targets=[[1.0]])
    chosen = ChosenPairs((Edges(), All()))
    assert chosen.num_types == 4
    own, edge, reverse, other = 1, 2, 4, 8
    assert chosen(graph).tolist() == [
        [0, 0, own],
        [0, 1, edge | other],
        [0, 2, edge | other],
        [1, 0, reverse | other],
        [1, 1, own],
        [1, 2, other],
        [2, 0, reverse | other],
        [2, 1, other],
        [2, 2, own],
    ]
    assert [2, 1, 0] in ChosenPairs((Edges(),))(graph).tolist()  # asked for, and not attended


def sparse_config(pairs: list[Any], **model: Any) -> RunConfig:
    content = tiny_config(num_layers=3, **model).model_dump(mode="json")
    content["data"]["layout"] = "edge_list"
    content["model"]["pairs"] = pairs
    return RunConfig.model_validate(content)


VARIANTS: dict[str, dict[str, Any]] = {
    "node": {"readout": {"kind": "node"}, "gate": "centrality"},
    "edge": {"readout": {"kind": "edge"}, "edges": {"kind": "outer_sum"}},
    "virtual": {"readout": {"kind": "virtual_nodes", "num_virtual": 2}, "edge_values": "sliced", "edge_width": 8},
    "noise": {"attention_dropout": 0.3, "key_dropout": 0.2, "edge_dropout": 0.2, "drop_path": 0.2},
}


def assert_equal_models(sparse: RunConfig, dense: RunConfig) -> None:
    """Outputs and gradients of the same weights, without a term for the types."""
    graphs = graphs_of_every_kind(2)
    results: list[Any] = []
    ways: tuple[tuple[RunConfig, LayoutName], ...] = ((dense, "packed"), (sparse, "edge_list"))
    for config, layout in ways:
        torch.manual_seed(0)
        model = build_model(config, backend=fastest(layout)).train()
        if not results:
            weights = lively(model).state_dict()
        model.load_state_dict(weights, strict=False)
        for term in model.embed.pair_terms:
            if isinstance(term, PairTypes):
                torch.nn.init.zeros_(term.W.weight)
        batch = collate(samples_of(config, graphs), layout)
        output = model(replace(batch, random_keys=graph_keys(0, 3, batch.graph_ids)))
        output.square().mean().backward()
        results.append((output.detach(), {k: p.grad for k, p in model.named_parameters() if p.grad is not None}))
    (dense_output, dense_gradients), (output, gradients) = results
    torch.testing.assert_close(output, dense_output, rtol=1e-5, atol=1e-5)
    assert set(dense_gradients) == {name for name in gradients if "pair_terms.3" not in name}
    for name, expected in dense_gradients.items():
        error = (gradients[name] - expected).abs().max() / expected.abs().max().clamp(min=1.0)
        assert error < 5e-5, f"{name}: {error:.1e}"


@pytest.mark.parametrize("name", VARIANTS)
def test_all_pairs_are_dense_egt(name: str) -> None:
    assert_equal_models(sparse_config(["edges", "all"], **VARIANTS[name]), tiny_config(num_layers=3, **VARIANTS[name]))


@pytest.mark.parametrize("name", VARIANTS)
def test_edges_alone_are_egt_constrained(name: str) -> None:
    edges = [{"kind": "edges", "reverse": False}]
    constrained = tiny_config(num_layers=3, scope="neighbors", **VARIANTS[name])
    assert_equal_models(sparse_config(edges, **VARIANTS[name]), constrained)


SPARSE = ["edges", {"kind": "nearest", "k": 3, "columns": [0, 1]}, {"kind": "expander", "degree": 4}]


def test_the_type_of_a_pair_is_read() -> None:
    config = sparse_config(SPARSE)
    batch = collate(samples_of(config, [random_graph(RNG, "large")]), "edge_list")
    term = PairTypes(5, 6)
    rows = term(batch)
    types = [[bit for bit in range(5) if number >> bit & 1] for number in batch.pair["pairs"].tolist()]
    assert {bit for of_pair in types for bit in of_pair} == set(range(5))
    assert max(map(len, types)) > 2
    expected = torch.stack([term.W.weight[:, of_pair].sum(1) for of_pair in types])
    torch.testing.assert_close(rows, expected)


@pytest.mark.parametrize("readout", [{"kind": "virtual_nodes", "num_virtual": 1}, {"kind": "mean"}])
def test_a_sparse_model_does_not_see_numbering_or_its_batch(readout: dict[str, Any]) -> None:
    content = tiny_config().model_dump(mode="json")["model"]
    inputs = {"node_inputs": content["node_inputs"][:2], "pair_inputs": [*content["pair_inputs"], {"kind": "walks"}]}
    config = sparse_config(SPARSE, readout=readout, **inputs)
    graphs = [random_graph(RNG, kind) for kind in ("large", "directed", "one_node", "no_edges")]
    torch.manual_seed(0)
    model = lively(build_model(config, backend=fastest("edge_list"))).eval()
    together = model(collate(samples_of(config, graphs), "edge_list"))
    for k, graph in enumerate(graphs):
        order = np.random.default_rng(k).permutation(graph.num_nodes)
        alone = model(collate(samples_of(config, [graph.permuted(order)]), "edge_list"))
        torch.testing.assert_close(alone[0], together[k], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("pairs", "settings", "message"),
    [
        (["edges"], {"scope": "neighbors"}, "everyone"),
        (["edges", "edges"], {}, "twice"),
        ([{"kind": "nearest", "columns": [2]}], {}, "node_values"),
        ([{"kind": "expander", "degree": 5}], {}, "multiple"),
        (["hexagons"], {}, "'hexagons'"),
    ],
)
def test_wrong_choices_are_refused(pairs: list[Any], settings: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=message):
        sparse_config(pairs, **settings)


def test_chosen_pairs_need_a_list() -> None:
    content = sparse_config(["edges"]).model_dump(mode="json")
    content["data"]["layout"] = "auto"
    with pytest.raises(ValueError, match=r"data\.layout.*edge_list"):
        RunConfig.model_validate(content)
