from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egt.data.links import count_links, hide_links, link_graph
from egt.data.schema import link_codes
from egt.data.source import SPLITS
from egt.errors import DataError
from egt.graph import Graph


def split_links(
    graph: Graph,
    *,
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1),
    directed: bool | None = None,
    seed: int = 0,
) -> dict[str, list[Graph]]:
    """All training, validation and test graphs of a graph."""
    directed = not graph.is_symmetric if directed is None else directed
    pairs = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
    codes = link_codes(pairs, graph.num_nodes, fractions, seed, directed=directed)
    counts = count_links(pairs, codes, graph.num_nodes, directed=directed)

    def one(split: str, number: int) -> Graph:
        return link_graph(graph, split, number, fractions=fractions, directed=directed, seed=seed)

    return {split: [one(split, number) for number in range(counts[split])] for split in SPLITS}


def random_graph(num_nodes: int, num_edges: int, directed: bool, seed: int) -> Graph:
    generator = np.random.default_rng(seed)
    edges = generator.integers(num_nodes, size=(2, num_edges))
    if not directed:
        edges = np.sort(edges, axis=0)
    edges = np.unique(edges, axis=1)
    weight = np.arange(edges.shape[1], dtype=np.float32) + 1
    if directed:
        return Graph(num_nodes=num_nodes, edge_index=edges, edge_weight=weight)
    return Graph.undirected(num_nodes=num_nodes, edge_index=edges, edge_weight=weight)


def pairs(index: np.ndarray, either: bool = False) -> set[tuple[int, int]]:
    given = {(int(i), int(j)) for i, j in index.T}
    return given | {(j, i) for i, j in given} if either else given


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 25), st.integers(8, 120), st.booleans(), st.integers(0, 3))
def test_no_graph_shows_what_it_is_asked_and_no_split_shows_held_out_edges(
    num_nodes: int, num_edges: int, directed: bool, seed: int
) -> None:
    graph = random_graph(num_nodes, num_edges, directed, seed)
    if (graph.edge_index[0] == graph.edge_index[1]).all():
        return
    parts = split_links(graph, seed=seed, directed=directed)
    full = pairs(graph.edge_index)
    positives: dict[str, list[set[tuple[int, int]]]] = {"train": [], "val": [], "test": []}
    for split, graphs in parts.items():
        for part in graphs:
            assert part.query_index is not None
            assert part.edge_targets is not None
            labels = part.edge_targets[:, 0].astype(bool)
            asked, negative = pairs(part.query_index[:, labels]), pairs(part.query_index[:, ~labels])
            shown = pairs(part.edge_index)
            positives[split].append(asked)
            assert asked <= full
            assert shown <= full
            assert not negative & full, "a negative is no edge of the full graph"
            assert len(negative) == (~labels).sum(), "negatives are distinct"
            assert all(i != j for i, j in negative | asked)
            assert not pairs(part.query_index, either=not directed) & shown
            assert part.is_symmetric or directed
    held_out = set().union(*positives["val"], *positives["test"])
    held_out |= set() if directed else {(j, i) for i, j in held_out}
    for graphs in parts.values():
        for part in graphs:
            assert not pairs(part.edge_index) & held_out
    train = set().union(*positives["train"])
    assert sum(map(len, positives["train"])) == len(train), "each training edge is asked once"
    train |= set() if directed else {(j, i) for i, j in train}
    assert {(i, j) for i, j in full if i != j} == train | held_out, "no edge is lost"


def test_edges_keep_their_features_and_seeds_repeat() -> None:
    graph = random_graph(20, 60, True, 0)
    assert graph.edge_weight is not None
    weight_of = {(int(i), int(j)): float(w) for (i, j), w in zip(graph.edge_index.T, graph.edge_weight, strict=True)}
    first, again, other = (hide_links(graph, seed=seed) for seed in (1, 1, 2))
    assert first.edge_weight is not None
    for (i, j), weight in zip(first.edge_index.T, first.edge_weight, strict=True):
        assert weight_of[int(i), int(j)] == weight
    np.testing.assert_array_equal(first.query_index, again.query_index)
    assert not np.array_equal(first.edge_index, other.edge_index)


def test_a_fifth_is_hidden_and_as_many_negatives_are_drawn() -> None:
    graph = random_graph(40, 100, False, 1)
    num_pairs = int((graph.edge_index[0] < graph.edge_index[1]).sum())
    hidden = hide_links(
        graph,
    )
    assert hidden.edge_targets is not None
    positive = int(hidden.edge_targets.sum())
    assert positive == round(0.2 * num_pairs)
    assert len(hidden.edge_targets) == 2 * positive


def test_a_complete_graph_has_no_negatives() -> None:
    i, j = np.triu_indices(5, 1)
    hidden = hide_links(Graph.undirected(num_nodes=5, edge_index=np.stack([i, j])))
    assert hidden.edge_targets is not None
    assert hidden.edge_targets.tolist() == [[1.0], [1.0]]


def test_codes_do_not_depend_on_the_order_or_direction_of_the_list() -> None:
    edges = np.array([[0, 1, 2, 3, 4, 1], [1, 2, 3, 4, 0, 1]])
    codes = link_codes(edges, 5, (0.4, 0.4, 0.2), 0, directed=False)
    order = np.array([5, 3, 1, 0, 2, 4])
    np.testing.assert_array_equal(
        link_codes(edges[::-1][:, order], 5, (0.4, 0.4, 0.2), 0, directed=False), codes[order]
    )
    assert codes[5] == 0, "a self-loop is never held out"
    graph = Graph.undirected(num_nodes=5, edge_index=edges)
    made = split_links(graph, fractions=(0.4, 0.4, 0.2))
    assert count_links(edges, codes, 5, directed=False) == {split: len(graphs) for split, graphs in made.items()}


def test_what_cannot_be_done() -> None:
    lonely = Graph(num_nodes=2, edge_index=np.array([[0], [0]]), id="g")
    with pytest.raises(DataError, match="'g'"):
        link_graph(lonely, "train", 0, directed=False)
