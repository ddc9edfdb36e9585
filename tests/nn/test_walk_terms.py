"""The terms of random walks: what they add on each layout, and the scale they take from the training graphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from egt.assemble import build_model
from egt.config.run import RunConfig
from egt.config.run_data import preparation
from egt.data.batching.batch import LayoutName, collate
from egt.data.encodings.encoding import Sample
from egt.nn.terms import NodeWalks, PairWalks
from tests.graphs import graphs_of_every_kind, samples_of, tiny_config

K = 4
LAYOUTS: tuple[LayoutName, ...] = ("packed", "padded", "edge_list")


def walking(layout: str = "auto", **walk: object) -> RunConfig:
    """A tiny EGT that reads walks on pairs and on nodes."""
    term = {"kind": "random_walk", "num_steps": K, **walk}
    base = tiny_config(scope="neighbors")
    content = base.model_dump(mode="json")
    content["model"]["node_inputs"] += [term]
    content["model"]["pair_inputs"] += [{**term, "bias": False}]
    content["data"]["layout"] = layout
    return RunConfig.model_validate(content)


def dense_samples() -> list[Sample]:
    return samples_of(walking(), graphs_of_every_kind(4))


def laid_out(layout: LayoutName) -> list[Sample]:
    return samples_of(walking(layout), graphs_of_every_kind(4))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_pair_gets_its_scaled_probabilities_and_a_node_its_returns(layout: LayoutName) -> None:
    samples, own = dense_samples(), laid_out(layout)
    batch = collate(own, layout)
    pairs, nodes = PairWalks(K, 3, scaled=True, bias=False), NodeWalks(K, 5, scaled=True)
    for term in (pairs, nodes):
        term.fit(own)
    index = batch.layout.pair_indices
    e, h = pairs(batch), nodes(batch)
    for graph, i, j, row in zip(
        *(x.expand(batch.layout.pair_shape).flatten().tolist() for x in (index.graph, index.i, index.j)),
        e.flatten(0, -2),
        strict=True,
    ):
        r = samples[graph].pair["random_walk"]
        expected = r[i, j] if max(i, j) < len(r) else np.zeros(K)
        torch.testing.assert_close(row, pairs.W.weight @ (pairs.scale * torch.tensor(expected, dtype=torch.float32)))
    diagonal = np.concatenate([np.einsum("iik->ik", sample.pair["random_walk"]) for sample in samples])
    torch.testing.assert_close(
        batch.layout.node_rows(h), (torch.from_numpy(diagonal) * nodes.scale) @ nodes.W.weight.T, atol=1e-6, rtol=1e-5
    )


def test_the_scale_is_one_over_the_deviation_of_each_step() -> None:
    samples = dense_samples()
    rows = np.concatenate([sample.pair["random_walk"].reshape(-1, K) for sample in samples])
    returns = np.concatenate([np.einsum("iik->ik", sample.pair["random_walk"]) for sample in samples])
    pairs, nodes = PairWalks(K, 3, scaled=True, bias=False), NodeWalks(K, 3, scaled=True)
    pairs.fit(samples)
    nodes.fit(samples)
    np.testing.assert_allclose(pairs.scale, 1 / rows.std(0), rtol=1e-5)
    assert nodes.scale is not None
    assert nodes.scale[0] == 1, "every walk starts where it starts: no spread, no scale"
    np.testing.assert_allclose(nodes.scale[1:], 1 / returns.std(0)[1:], rtol=1e-5)


def test_without_a_scale_there_is_nothing_to_fit_and_nothing_more_to_save() -> None:
    term = PairWalks(K, 3, scaled=False, bias=True)
    term.fit(dense_samples())
    assert list(term.state_dict()) == ["W.weight", "W.bias"]


def test_a_model_fits_its_parts_and_keeps_the_constants_with_its_weights() -> None:
    config = walking(scaled=True)
    model = build_model(config)
    before = model.num_parameters()
    model.fit(samples_of(config, graphs_of_every_kind(0)))
    scales = {name: value for name, value in model.state_dict().items() if name.endswith("scale")}
    assert list(scales) == ["embed.node_terms.3.scale", "embed.pair_terms.3.scale"]
    assert all((value != 1).any() for value in scales.values())
    assert before == model.num_parameters()
    assert [encoding.name for encoding in preparation(config).encodings].count("random_walk") == 1
