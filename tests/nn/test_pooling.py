"""Sums and attention over the nodes of each graph, and means of both directions of pairs, against plain loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from egt.data.batching.batch import LayoutName, collate
from egt.data.encodings.encoding import Sample
from egt.nn.channels import AttentionContext, Channels
from egt.nn.readout import AttentionReadout, EdgeReadout, ScaledSumReadout, SumReadout
from tests.graphs import graphs_of_every_kind

LAYOUTS: tuple[LayoutName, ...] = ("packed", "padded", "edge_list")
GRAPHS = graphs_of_every_kind(5)
D = 6


def channels(layout: LayoutName, num_virtual: int) -> tuple[Channels, list[Tensor]]:
    """Random channels with virtual nodes in front, and the own nodes of each graph."""
    torch.manual_seed(0)
    wide, nodes, _ = collate([Sample(graph) for graph in GRAPHS], layout).layout.with_virtual(num_virtual)
    shape = (*torch.broadcast_shapes(wide.node_indices.graph.shape, wide.node_indices.i.shape), D)
    h = 4 * torch.randn(shape)
    rows = wide.node_rows(h).split([graph.num_nodes for graph in GRAPHS])
    return Channels(h, torch.zeros(0), AttentionContext(wide), nodes, nodes), list(rows)


@pytest.mark.parametrize("num_virtual", [0, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_count_every_own_node_once(layout: LayoutName, num_virtual: int) -> None:
    x, rows = channels(layout, num_virtual)
    total = torch.stack([own.sum(0) for own in rows])
    torch.testing.assert_close(SumReadout(nn.Identity())(x), total)
    scaled = ScaledSumReadout(nn.Identity())
    scaled.fit([Sample(graph) for graph in GRAPHS])
    mean = sum(graph.num_nodes for graph in GRAPHS) / len(GRAPHS)
    torch.testing.assert_close(scaled(x), total / mean)


@pytest.mark.parametrize("num_virtual", [0, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_head_attends_over_the_nodes_of_its_graph(layout: LayoutName, num_virtual: int) -> None:
    x, rows = channels(layout, num_virtual)
    readout = AttentionReadout(2, D, nn.Identity())
    expected = []
    for own in rows:
        weights = readout.W(own).softmax(0)  # (N, 2)
        expected.append(torch.cat([weights[:, 0] @ own[:, :3], weights[:, 1] @ own[:, 3:]]))
    torch.testing.assert_close(readout(x), torch.stack(expected))


def test_logits_of_any_size_stay_finite() -> None:
    x, _ = channels("packed", 0)
    readout = AttentionReadout(2, D, nn.Identity())
    with torch.no_grad():
        readout.W.weight.mul_(1e4)
    assert readout(x).isfinite().all()


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_a_pair_without_a_direction_is_the_mean_of_both(layout: LayoutName) -> None:
    asked = [np.array([[0, graph.num_nodes - 1], [graph.num_nodes - 1, 0]]) for graph in GRAPHS]
    graphs = [replace(graph, query_index=index, edge_targets=None) for graph, index in zip(GRAPHS, asked, strict=True)]
    batch = collate([Sample(graph) for graph in graphs], layout)
    torch.manual_seed(0)
    e = torch.randn(*batch.layout.pair_shape, D)
    x = Channels(torch.zeros(0), e, AttentionContext(batch.layout), batch.queries, batch.edge_pairs)
    there, back = e.flatten(0, -2)[batch.queries].unflatten(0, (-1, 2)).unbind(1)
    found = EdgeReadout(nn.Identity(), symmetric=True)(x).unflatten(0, (-1, 2))
    torch.testing.assert_close(found, ((there + back) / 2).unsqueeze(1).expand_as(found))
    assert torch.equal(EdgeReadout(nn.Identity())(x), e.flatten(0, -2)[batch.queries])
