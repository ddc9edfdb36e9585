"""The distance objective against the authors' TensorFlow code and a slow loop."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from egt.data.batching.batch import GraphBatch, LayoutName, collate
from egt.data.encodings.encoding import Preparation, ShortestPaths
from egt.graph import FeatureSchema, Graph
from egt.nn.losses import distance_loss, distance_targets, scored_pairs
from egt.parts.tasks.task import DistanceObjective

PARITY = Path(__file__).resolve().parents[2] / "parity"


def path_graphs(sizes: list[int], layout: LayoutName) -> GraphBatch:
    prepare = Preparation(FeatureSchema(), (ShortestPaths(max_hops=16),))
    graphs = [
        Graph.undirected(num_nodes=size, edge_index=np.stack([np.arange(size - 1), np.arange(1, size)]))
        for size in sizes
    ]
    return collate([prepare(graph) for graph in graphs], layout)


def as_they_are(logits: torch.Tensor) -> torch.Tensor:
    return logits


def slow_loss(logits: list[torch.Tensor], sizes: list[int], nu: int) -> float:
    """The definition, pair by pair, for path graphs (distance |i - j|). logits: one (N, N, nu + 1) per graph."""
    total = 0.0
    for table, size in zip(logits, sizes, strict=True):
        for i in range(size):
            for j in range(size):
                classes = {0: nu, **{t: nu + 1 - t for t in range(1, nu + 1)}}
                if abs(i - j) in classes:
                    total -= table[i, j].double().log_softmax(-1)[classes[abs(i - j)]].item()
    return total


def test_targets_share_a_class_for_self_and_neighbors() -> None:
    assert distance_targets(torch.tensor([0, 1, 2, 3], dtype=torch.uint8), 3).tolist() == [3, 3, 2, 1]
    assert distance_targets(torch.tensor([0, 1], dtype=torch.uint8), 1).tolist() == [1, 1]


def test_what_is_far_and_what_is_padding_is_not_scored() -> None:
    batch = path_graphs([4, 2], "padded")
    batch.pair["distance"][0, 0, 3] = 255  # unreachable
    near = [(b, i, j) for b, n in enumerate([4, 2]) for i in range(n) for j in range(n) if abs(i - j) <= 2]
    assert scored_pairs(batch, 2).tolist() == [16 * b + 4 * i + j for b, i, j in near]


def test_rows_found_on_the_host_are_those_that_are_scored() -> None:
    objective = DistanceObjective(max_hops=2, weight=1.0)
    batch = path_graphs([4, 2], "padded")
    prepared = objective.prepared(batch)
    assert torch.equal(prepared.scored["distance"], scored_pairs(batch, 2))
    e = torch.randn(2, 4, 4, 3)
    assert torch.equal(distance_loss(as_they_are, e, prepared, 2), distance_loss(as_they_are, e, batch, 2))


def test_loss_equals_the_authors_code() -> None:
    facts = json.loads((PARITY / "tf_zinc_do.json").read_text())
    tensors = load_file(PARITY / "tf_zinc_do.safetensors")
    nu, kappa = facts["config"]["distance_target"], facts["config"]["distance_loss"]
    adjacency = tensors["input/graph_matrix"]
    prepare = Preparation(FeatureSchema(), (ShortestPaths(max_hops=nu),))
    samples = []
    for matrix, size in zip(adjacency.numpy(), facts["sizes"], strict=True):
        edges = np.stack(np.nonzero(matrix[:size, :size] - np.eye(size)))
        samples.append(prepare(Graph(num_nodes=size, edge_index=edges)))
    batch = collate(samples, "padded")
    loss = kappa * distance_loss(as_they_are, tensors["layer/distance_target"], batch, nu) / batch.num_graphs
    expected = facts["distance_loss_term(kappa*mean_over_batch(sum_over_pairs))"]
    assert loss.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("layout", ["packed", "padded"])
@pytest.mark.parametrize("num_virtual", [0, 2])
def test_loss_counts_each_real_pair_once_whatever_the_layout(layout: LayoutName, num_virtual: int) -> None:
    sizes, nu = [6, 2, 4], 3
    batch = path_graphs(sizes, layout)
    wide, _, rows = batch.layout.with_virtual(num_virtual)
    generator = torch.Generator().manual_seed(0)
    tables = [torch.randn(size, size, nu + 1, generator=generator) for size in sizes]
    # Huge values wherever no real pair is: they would show.
    logits = torch.full((wide.num_pairs, nu + 1), 1e6)
    real = torch.arange(batch.layout.num_pairs)
    if batch.layout.real_pairs is not None:
        real = batch.layout.real_pairs.flatten().nonzero().flatten()
    logits[rows[real]] = torch.cat([table.flatten(0, 1) for table in tables])
    logits = logits.view(*wide.pair_shape, -1).requires_grad_()
    loss = distance_loss(as_they_are, logits, batch, nu, num_virtual)
    assert loss.item() == pytest.approx(slow_loss(tables, sizes, nu), rel=1e-5)
    touched = torch.autograd.grad(loss, logits)[0].flatten(0, -2).abs().sum(-1) > 0
    assert touched.sum().item() == sum(sum(abs(i - j) <= nu for i in range(n) for j in range(n)) for n in sizes)


def test_uniform_logits_cost_log_of_the_number_of_classes() -> None:
    batch = path_graphs([3], "packed")
    assert distance_loss(as_they_are, torch.zeros(9, 4), batch, 3).item() == pytest.approx(9 * math.log(4), rel=1e-6)
