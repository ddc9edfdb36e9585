"""Degree scaling: what it adds, what it starts as, and what it needs."""

from __future__ import annotations

import math

import pytest
import torch

from egt import EGTLayer
from egt.assemble import build_model
from egt.data.batching.batch import LayoutName, collate
from egt.errors import ConfigError
from egt.nn.layer import DegreeScaling
from tests.graphs import graphs_of_every_kind, samples_of, tiny_config, tiny_model


def test_rows_are_scaled_by_the_logarithm_of_their_degree() -> None:
    scaling = DegreeScaling(2)
    with torch.no_grad():
        scaling.t1.copy_(torch.tensor([1.0, 2.0]))
        scaling.t2.copy_(torch.tensor([0.0, 3.0]))
    config = tiny_config(node_scaling="degree")
    graphs = graphs_of_every_kind(0)
    context = tiny_model(config).embed(collate(samples_of(config, graphs))).context
    found = scaling(torch.ones(context.layout.node_indices.i.shape[0], 2), context)
    degrees = [int((graph.edge_index[0] == node).sum()) for graph in graphs for node in range(graph.num_nodes)]
    expected = [[1.0, 2.0 + 3.0 * math.log(1 + degree)] for degree in degrees]
    torch.testing.assert_close(found, torch.tensor(expected))
    assert len(set(degrees)) > 3


def test_it_starts_as_no_scaling_with_two_numbers_for_each_channel_of_a_layer() -> None:
    off, on = tiny_config(), tiny_config(node_scaling="degree")
    torch.manual_seed(0)
    plain = build_model(off).eval()
    scaled = build_model(on).eval()
    missing = scaled.load_state_dict(plain.state_dict(), strict=False)
    assert len(missing.missing_keys) == 2 * 2
    assert not missing.unexpected_keys
    assert scaled.num_parameters() - plain.num_parameters() == 2 * 2 * 16
    graphs = graphs_of_every_kind(1)
    assert torch.equal(scaled(collate(samples_of(on, graphs))), plain(collate(samples_of(off, graphs))))


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_virtual_nodes_have_no_degree(layout: LayoutName) -> None:
    config = tiny_config(node_scaling="degree", readout={"kind": "virtual_nodes", "num_virtual": 2})
    model = tiny_model(config)
    batch = collate(samples_of(config, graphs_of_every_kind(1)), layout)
    x = model.readout.prepare(model.embed(batch))
    assert x.context.degree is not None
    assert not x.context.layout.virtual_nodes(x.context.degree).any()
    real = batch.layout.node_rows(batch.node["out_degree"])
    assert torch.equal(x.context.layout.node_rows(x.context.degree), real)


def test_a_context_without_degrees_is_refused() -> None:
    layer = EGTLayer(16, 4, 4, scaling=DegreeScaling(16))
    with pytest.raises(ConfigError, match="`degree`"):
        layer(torch.randn(1, 3, 16), torch.randn(1, 3, 3, 4))
