"""Triplets: what only they can tell, where they go, and what refuses them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from egt import EGTLayer
from egt.assemble import build_model
from egt.config.load import override
from egt.data.batching.batch import collate
from egt.data.batching.layout import Padded
from egt.errors import ConfigError
from egt.graph import Graph
from egt.nn.channels import AttentionContext
from egt.nn.randomness import Dropout, Stream
from egt.nn.triplet import TripletAggregation
from egt.paper.presets import preset
from tests.graphs import samples_of, tiny_config, tiny_model


def aggregation(edge_width: int = 6, num_heads: int = 2) -> TripletAggregation:
    torch.manual_seed(0)
    norm = torch.nn.LayerNorm(edge_width)
    return TripletAggregation(edge_width, num_heads, 3, norm, Dropout(0.0, Stream.TRIPLET_DROPOUT, 0, "pair"))


def test_a_pair_reads_the_pairs_that_share_a_node_with_it() -> None:
    e = torch.randn(1, 5, 5, 6, requires_grad=True)
    updated = aggregation()(e, AttentionContext.dense(torch.zeros(1, 5, 1)))
    updated[0, 1, 3].square().sum().backward()
    assert e.grad is not None
    read = set(map(tuple, e.grad[0].abs().sum(-1).nonzero().tolist()))
    attended, values = {(1, k) for k in range(5)}, {(3, k) for k in range(5)}  # a_1k v_3k
    assert read == attended | values | {(j, i) for i, j in attended | values}


def test_padding_may_hold_anything_in_a_dense_layer() -> None:
    layer = EGTLayer(8, 6, 2, triplets=aggregation())
    h, e, sizes = torch.randn(2, 5, 8), torch.randn(2, 5, 5, 6), torch.tensor([5, 3])
    expected = layer(h[1:, :3], e[1:, :3, :3])
    h[1, 3:], e[1, 3:], e[1, :, 3:] = torch.nan, torch.nan, torch.nan
    for found, alone in zip(layer(h, e, sizes=sizes), expected, strict=True):
        found = found[1:, :3] if found.dim() == 3 else found[1:, :3, :3]
        torch.testing.assert_close(found, alone)


def test_padding_that_virtual_nodes_attend_is_not_read() -> None:
    context = AttentionContext(Padded(torch.tensor([3]), 5))  # a mask with padding left open
    e = torch.randn(1, 5, 5, 6)
    expected = aggregation()(e, context)[:, :3, :3]
    e[:, 3:] = 7
    torch.testing.assert_close(aggregation()(e, context)[:, :3, :3], expected)


def test_gradients() -> None:
    part, context = aggregation().double(), AttentionContext.dense(torch.zeros(1, 3, 1))
    e = torch.randn(1, 3, 3, 6).double().requires_grad_()
    parameters = [*part.parameters()]
    assert torch.autograd.gradcheck(lambda e, *_: part(e, context), (e, *parameters))


def test_two_triangles_differ_from_a_hexagon() -> None:
    """Both are regular and look alike to a model that only knows which pairs are edges."""
    ring = np.arange(6)
    hexagon = Graph.undirected(num_nodes=6, edge_index=[ring, (ring + 1) % 6])
    triangles = Graph.undirected(num_nodes=6, edge_index=[[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]])
    inputs = {"node_inputs": [{"kind": "constant"}], "pair_inputs": [{"kind": "distance", "max_hops": 1}]}
    differences = []
    for triplets in (None, "aggregation"):
        config = tiny_config(**inputs, triplets=triplets, readout={"kind": "mean"})
        with torch.no_grad():
            answers = tiny_model(config)(collate(samples_of(config, [hexagon, triangles])))
        differences.append(float((answers[0] - answers[1]).abs().max()))
    assert differences[1] > 1e-5 > 10 * differences[0]


def test_every_layer_has_them_also_one_that_only_edges_are_read_of() -> None:
    for readout in ("mean", "edge"):
        config = tiny_config(triplets={"kind": "aggregation", "value_width": 5}, readout={"kind": readout})
        layers = build_model(config).layers
        assert [layer.triplets.value_width for layer in layers] == [5, 5]
        assert [layer.triplets.dropout.layer for layer in layers] == [0, 1]


def test_they_belong_to_the_edge_channel_when_it_is_tuned() -> None:
    model = build_model(tiny_config(triplets="aggregation"))
    tuned = {id(parameter) for parameter in model.edge_parameters()}
    assert all(id(each) in tuned for layer in model.layers for each in layer.triplets.parameters())


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (["data.layout=edge_list", "model.scope=neighbors"], "data.layout"),
        (["model.edges.kind=frozen"], "model.edges"),
        (["model.triplets={kind: aggregation, value_width: 0}"], "value_width"),
        (["model.triplets=multiplication"], "aggregation"),
    ],
)
def test_what_they_do_not_go_with_is_named(settings: list[str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        override(preset("zinc-100k"), ["task.auxiliary=[]", "model.triplets=aggregation", *settings])


def test_the_presets_of_the_paper_have_none() -> None:
    assert all(preset(name).model.triplets is None for name in ("zinc-100k", "pattern-500k", "pcqm4mv2-small"))
