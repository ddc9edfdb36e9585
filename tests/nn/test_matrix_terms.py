"""The terms of matrices and positions: against their definitions, on every layout and backend, under motions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from egt import testing
from egt.config.run import RunConfig
from egt.data.batching.batch import GraphBatch, LayoutName, collate
from egt.data.encodings.encoding import Sample
from egt.graph import Graph
from egt.inference.backends import on_backend
from egt.nn.model import EGT
from egt.nn.randomness import graph_keys, normal
from egt.nn.terms import DistanceBasis, NumbersOfPairs, PairCategoryEmbedding, PairValueProjection, SignedVolumes
from egt.parts.inputs import SignedVolumes as SignedVolumesInput
from egt.parts.pairs import All, Within
from tests.graphs import backend_named, graphs_of_every_kind, samples_of, tiny_config, tiny_model

LAYOUTS: tuple[LayoutName, ...] = ("packed", "padded", "edge_list")
CONFORMERS = 2


def dense_graphs(seed: int, count: int = 8) -> list[Graph]:
    """Graphs of every kind with two matrices, a categorical one and two conformers, some of it missing."""
    rng = np.random.default_rng(seed)
    found = []
    for graph in graphs_of_every_kind(seed)[:count]:
        n = graph.num_nodes
        values, positions = rng.normal(size=(n, n, 2)), rng.normal(size=(n, CONFORMERS, 3))
        values[rng.random(values.shape) < 0.2] = np.nan
        positions[0, rng.integers(CONFORMERS)] = np.nan
        ids = rng.integers(-1, 9, (n, n, 1))
        found.append(replace(graph, pair_values=values, pair_categories=ids, positions=positions))
    return found


def dense_config(**model: Any) -> RunConfig:
    """A tiny EGT that reads what `dense_graphs` makes."""
    base = tiny_config().model.model_dump(mode="json")["pair_inputs"]
    dense = [
        {"kind": "pair_values", "num_values": 2, "num_basis": 3},
        {"kind": "pair_categories", "sizes": [9]},
        {"kind": "positions", "shape": [CONFORMERS, 3], "num_basis": 5, "types": 5, "noise": 0.1},
    ]
    svd = {"kind": "svd", "rank": 3, "matrix": 1}
    nodes = tiny_config().model.model_dump(mode="json")["node_inputs"][:2]
    return tiny_config(pair_inputs=[*base, *dense], node_inputs=[*nodes, svd], **model)


def batch_of(graphs: list[Graph], layout: LayoutName = "packed", **model: Any) -> GraphBatch:
    config = dense_config(**model)
    if layout == "edge_list":
        config = config.model_copy(update={"data": config.data.model_copy(update={"layout": "edge_list"})})
    return collate(samples_of(config, graphs), layout)


def each_pair(batch: GraphBatch, rows: torch.Tensor) -> list[tuple[int, int, int, torch.Tensor]]:
    """Graph, i and j of each pair of a batch that is no padding, with its row."""
    at, shape = batch.layout.pair_indices, batch.layout.pair_shape
    real = batch.layout.real_pairs
    keep = torch.ones(shape, dtype=torch.bool).flatten() if real is None else real.flatten()
    index = (x.expand(shape).flatten()[keep].tolist() for x in (at.graph, at.i, at.j))
    return list(zip(*index, rows.flatten(0, -2)[keep], strict=True))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("num_basis", [0, 3])
def test_a_pair_gets_its_numbers_and_a_vector_where_one_is_missing(layout: LayoutName, num_basis: int) -> None:
    graphs = dense_graphs(0)
    batch = batch_of(graphs, layout, scope="neighbors")
    term = PairValueProjection(2, num_basis, 4)
    config = dense_config()
    if num_basis:
        term.fit(samples_of(config, graphs))
        with torch.no_grad():
            term.s.mul_(torch.rand_like(term.s) + 0.5)
    for graph, i, j, row in each_pair(batch, term(batch)):
        matrices = graphs[graph].pair_values
        assert matrices is not None
        read: list[float] = []
        for f, x in enumerate(matrices[i, j].tolist()):
            if num_basis:
                low, high = term.range[:, f].tolist()
                u = (x - low) / (high - low)
                gauss = torch.exp(-((term.s[f] * (u - term.c[f])) ** 2) / 2).tolist()
                read += [0.0] * num_basis if np.isnan(x) else gauss
            else:
                read.append(0.0 if np.isnan(x) else x)
        read += np.isnan(matrices[i, j]).astype(float).tolist()
        torch.testing.assert_close(row, term.W(torch.tensor(read)), atol=1e-5, rtol=1e-5)


def test_the_range_is_that_of_the_training_graphs() -> None:
    matrix = np.linspace(5.0, 9.0, 40**2).reshape(40, 40)
    graph = Graph(num_nodes=40, edge_index=[], pair_values=np.stack([matrix, np.full((40, 40), np.nan)], -1))
    config = tiny_config(node_inputs=[{"kind": "constant"}], pair_inputs=[{"kind": "pair_values", "num_values": 2}])
    term = PairValueProjection(2, 4, 3)
    term.fit(samples_of(config, [graph]))
    torch.testing.assert_close(term.range, torch.tensor([[5.04, 0.0], [8.96, 1.0]]), atol=1e-4, rtol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_pair_gets_its_distance_by_the_types_of_its_ends(layout: LayoutName) -> None:
    graphs = dense_graphs(1)
    batch = batch_of(graphs, layout, scope="neighbors")
    term = DistanceBasis(5, 4, types=5)
    assert term.of_types is not None
    with torch.no_grad():
        term.of_types.normal_(std=0.3)
        term.range[1] = 3.0
    for graph, i, j, row in each_pair(batch, term(batch)):
        places, types = graphs[graph].positions, graphs[graph].node_categories[:, 0] + 1
        assert places is not None
        read = []
        a, b = term.of_types[types[i] * 6 + types[j]].tolist()
        for d in np.linalg.norm(places[i] - places[j], axis=-1).tolist():
            u = ((1 + a) * d + b) / 3
            gauss = torch.exp(-((term.s[0] * (u - term.c[0])) ** 2) / 2)
            read.append(torch.cat([torch.zeros(5), torch.ones(1)] if np.isnan(d) else [gauss, torch.zeros(1)]))
        torch.testing.assert_close(row, term.W(torch.stack(read).mean(0)), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_pair_gets_the_rows_of_its_categories(layout: LayoutName) -> None:
    graphs = [replace(each, pair_categories=np.concatenate([each.pair_categories, each.pair_categories % 2], -1))
              for each in dense_graphs(2) if each.pair_categories is not None]  # fmt: skip
    config = tiny_config(
        node_inputs=[{"kind": "node_categories", "sizes": [5]}, {"kind": "node_values", "num_values": 2}],
        pair_inputs=[
            *tiny_config().model.model_dump(mode="json")["pair_inputs"],
            {"kind": "pair_categories", "sizes": [9, 2]},
        ],
        scope="neighbors",
    )
    graphs = [replace(graph, pair_values=None, positions=None) for graph in graphs]
    config = config.model_copy(update={"data": config.data.model_copy(update={"layout": layout})})
    batch = collate(samples_of(config, graphs), layout)
    term = PairCategoryEmbedding((9, 2), 4)
    for graph, i, j, row in each_pair(batch, term(batch)):
        ids = graphs[graph].pair_categories
        assert ids is not None
        first, second = ids[i, j].tolist()
        torch.testing.assert_close(row, term.table.weight[first + 1] + term.table.weight[10 + second + 1])


def volume_term() -> SignedVolumes:
    term = SignedVolumes(2, 5, 4, types=5)
    assert term.of_types is not None
    with torch.no_grad():
        term.of_types.normal_(std=0.3)
        term.range[1] = 3.0
    return term


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_node_gets_the_volumes_of_what_lies_around_it(layout: LayoutName) -> None:
    graphs = dense_graphs(6)
    batch = batch_of(graphs, layout, scope="neighbors")
    term = volume_term()
    assert term.of_types is not None
    rows = batch.layout.node_rows(term(batch)).split([graph.num_nodes for graph in graphs])
    neighbors: dict[tuple[int, int], list[int]] = {}
    for of, i, j, _ in each_pair(batch, torch.zeros(*batch.layout.pair_shape, 1)):
        neighbors.setdefault((of, i), []).append(j)
    for number, graph in enumerate(graphs):
        places, types = graph.positions, graph.node_categories[:, 0] + 1
        assert places is not None
        for i in range(graph.num_nodes):
            volumes = torch.zeros(CONFORMERS, 2)
            for c in range(CONFORMERS):
                around = torch.zeros(6, 3)  # a, b and c of each volume
                for j in neighbors[number, i]:
                    r = torch.from_numpy(places[j, c] - places[i, c])
                    d = float(r.norm())
                    if np.isnan(d) or d == 0:
                        continue
                    scale, shift = term.of_types[types[i] * 6 + types[j]].tolist()
                    u = ((1 + scale) * d + shift) / 3
                    gauss = torch.exp(-((term.s[0] * (u - term.c[0])) ** 2) / 2)
                    around += term.W(torch.cat([gauss, torch.zeros(1)]))[:, None] * (r / d)[None]
                for v in range(2):
                    volumes[c, v] = torch.linalg.det(torch.stack([around[v], around[2 + v], around[4 + v]]))
            torch.testing.assert_close(rows[number][i], term.O(volumes.mean(0)), atol=1e-5, rtol=1e-4)


def test_volumes_stay_the_same_when_moved_and_change_their_sign_in_a_mirror() -> None:
    graphs, term = dense_graphs(6), volume_term()

    def volumes(motion: np.ndarray[Any, Any], shift: float) -> torch.Tensor:
        rows: torch.Tensor = term(batch_of([moved(graph, motion, shift) for graph in graphs])) - term.O.bias
        return rows

    expected = volumes(np.eye(3), 0.0)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    rotation[0] *= np.linalg.det(rotation)
    torch.testing.assert_close(volumes(rotation, 3.0), expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(volumes(np.diag([1.0, -1.0, 1.0]), 0.0), -expected, atol=1e-5, rtol=1e-4)
    assert expected.abs().max() > 0.1


def model_and_samples(layout: LayoutName = "packed", **chosen: Any) -> tuple[RunConfig, EGT, list[Sample]]:
    config = dense_config()
    data, parts = config.data.model_copy(update={"layout": layout}), config.model.model_copy(update=chosen)
    config = config.model_copy(update={"data": data, "model": parts})
    model, samples = tiny_model(config), samples_of(config, dense_graphs(3))
    for term in model.embed.pair_terms:
        if isinstance(term, NumbersOfPairs):
            term.fit(samples)
            term.W.weight.data *= 4  # so that answers depend on it
    return config, model, samples


def test_layouts_backends_and_numberings_agree() -> None:
    config, plain, samples = model_and_samples()
    testing.check_layouts_agree(plain, samples, atol=2e-5)
    testing.check_permutation(plain, samples, "graph")
    testing.check_masked(plain, samples)
    testing.check_batch_independence(plain, samples, "padded")
    testing.check_finite_gradients(plain, samples)
    testing.check_models_agree(on_backend(plain, config, backend_named("cpu")), plain, samples)


def test_layouts_and_numberings_agree_about_volumes() -> None:
    volumes = SignedVolumesInput(shape=(CONFORMERS, 3), types=5)
    _, plain, samples = model_and_samples(node_inputs=(*dense_config().model.node_inputs, volumes))
    testing.check_layouts_agree(plain, samples, atol=2e-5)
    testing.check_permutation(plain, samples, "graph")
    testing.check_batch_independence(plain, samples, "padded")
    testing.check_finite_gradients(plain, samples)


@pytest.mark.parametrize("wrong", [{"shape": (2,)}, {"types": 6}])
def test_volumes_need_space_and_types_that_exist(wrong: dict[str, Any]) -> None:
    volumes = SignedVolumesInput(**{"shape": (CONFORMERS, 3), **wrong}).model_dump(mode="json")
    nodes = tiny_config().model.model_dump(mode="json")["node_inputs"]
    with pytest.raises(ValueError, match="signed_volumes"):
        tiny_config(node_inputs=[*nodes, volumes])


def test_the_list_of_all_pairs_is_the_packed_layout() -> None:
    _, plain, samples = model_and_samples()
    _, listed, own = model_and_samples("edge_list", pairs=(All(),))
    with torch.no_grad():
        for term in listed.embed.pair_terms:
            if type(term).__name__ == "PairTypes":
                term.W.weight.zero_()  # the packed layout has no such term
    shared = {name: tensor for name, tensor in plain.state_dict().items() if name in listed.state_dict()}
    listed.load_state_dict(shared, strict=False)
    torch.testing.assert_close(
        listed(collate(own, "edge_list")), plain(collate(samples, "packed")), atol=2e-5, rtol=2e-5
    )


def moved(graph: Graph, motion: np.ndarray[Any, Any], shift: float) -> Graph:
    assert graph.positions is not None
    return replace(graph, positions=graph.positions.astype(np.float64) @ motion + shift)


def test_motions_and_mirror_images_change_nothing() -> None:
    config, model, samples = model_and_samples()

    def answers(samples: list[Sample]) -> torch.Tensor:
        batch = collate(samples, "packed")
        return torch.cat([model(batch).flatten(), model.embed(batch).e.flatten()])

    expected = answers(samples)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    for motion, shift in ((rotation, 0.0), (np.eye(3), 100.0), (np.diag([1.0, 1.0, -1.0]) @ rotation, -30.0)):
        others = samples_of(config, [moved(sample.graph, motion, shift) for sample in samples])
        torch.testing.assert_close(answers(others), expected, atol=2e-5, rtol=2e-5)
    stretched = samples_of(config, [moved(sample.graph, np.diag([1.2, 1.0, 1.0]), 0.0) for sample in samples])
    assert (answers(stretched) - expected).abs().max() > 0.1, "but distances are read"


def test_noise_moves_positions_in_training_alike_on_every_layout() -> None:
    graphs = dense_graphs(4)
    term = DistanceBasis(5, 4, noise=0.5)
    packed, padded = batch_of(graphs), batch_of(graphs, "padded")

    def rows(batch: GraphBatch, step: int) -> list[torch.Tensor]:
        batch = replace(batch, random_keys=graph_keys(7, step, batch.graph_ids))
        return [row for *_, row in each_pair(batch, term(batch))]

    torch.testing.assert_close(rows(packed, 1), rows(padded, 1))
    first, second = torch.stack(rows(packed, 1)), torch.stack(rows(packed, 2))
    assert (first - second).abs().max() > 1e-3
    term.eval()
    torch.testing.assert_close(rows(packed, 1), rows(packed, 2))


def test_normal_numbers_are_normal() -> None:
    batch = batch_of(dense_graphs(5))
    drawn = torch.cat([normal(graph_keys(1, step, batch.graph_ids), batch.layout.node_indices, 6).flatten()
                       for step in range(100)])  # fmt: skip
    assert abs(float(drawn.mean())) < 0.02
    assert abs(float(drawn.std()) - 1) < 0.02
    assert abs(float((drawn.abs() < 1).float().mean()) - 0.6827) < 0.01


def test_pairs_within_a_cutoff_are_chosen() -> None:
    line = np.array([[0.0, 0], [1, 0], [2.5, 0], [np.nan, np.nan]])
    graph = Graph(num_nodes=4, edge_index=[], positions=line)
    assert Within(cutoff=1.0).choose(graph)[0].T.tolist() == [[0, 1], [1, 0]]
    closer = replace(graph, positions=np.stack([line, line / 2], 1))  # two conformers
    assert sorted(set(map(tuple, Within(cutoff=1.0).choose(closer)[0].T.tolist()))) == [(0, 1), (1, 0), (1, 2), (2, 1)]
