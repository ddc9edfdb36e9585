"""Whole models: parameter counts, readouts, and what assembly leaves out of the last layer."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from egt.assemble import build_model, weight_shapes
from egt.config.run import RunConfig
from egt.data.batching.batch import LayoutName, collate
from egt.nn.layer import EdgeOnlyLayer, FrozenEdges, ResidualEdges
from egt.nn.randomness import graph_keys
from egt.paper.presets import preset
from egt.parts.inputs import Reachability
from tests.graphs import (
    backend_named,
    fastest,
    graphs_of_every_kind,
    lively,
    random_graph,
    samples_of,
    tiny_config,
    tiny_model,
)

# Keras counts V rows and the gate map of TSP's last layer, which nothing reads; ours has neither.
UNREAD_IN_TSP = 4_232
COUNTS = {
    "pcqm4mv2-small": 11_463_809,
    "pcqm4mv2-medium": 47_414_273,
    "pcqm4mv2-large": 89_322_369,
    "pcqm4mv2-larger": 110_691_201,
    "pcqm4m-medium": 47_414_273,
    "molhiv-larger": 110_691_201,
    "molpcba-larger": 110_788_864,
    "pcqm4mv2-medium-simple": 47_234_753,
    "pattern-100k": 139_882,
    "pattern-500k": 547_882,
    "cluster-500k": 548_206,
    "mnist-100k": 141_182,
    "cifar10-100k-released": 141_310,
    "cifar10-100k": 123_534,
    "tsp-100k": 117_434 - UNREAD_IN_TSP,
    "tsp-500k": 525_434 - UNREAD_IN_TSP,
    "zinc-100k": 124_665,
    "zinc-500k": 528_149,
    "pattern-500k-simple": 542_106,
    "tsp-500k-simple": 544_362,
    "zinc-500k-simple": 530_337,
    "tsp-500k-constrained": 525_314 - UNREAD_IN_TSP,
    "zinc-500k-constrained": 508_065,
    "pattern-500k-ungated-nope": 545_642,
}


def count(config: RunConfig) -> int:
    return sum(map(math.prod, weight_shapes(config).values()))


@pytest.mark.parametrize("name", COUNTS)
def test_parameter_counts_of_the_paper(name: str) -> None:
    assert count(preset(name)) == COUNTS[name]


def test_ungated_zinc_of_the_authors_has_16_hops_and_no_distance_objective() -> None:
    run = preset("zinc-500k-ungated-nope")
    terms = tuple(Reachability(num_hops=16) if t.kind == "reachability" else t for t in run.model.pair_inputs)
    run = run.model_copy(
        update={
            "model": run.model.model_copy(update={"pair_inputs": terms}),
            "task": run.task.model_copy(update={"auxiliary": ()}),
        }
    )
    assert count(run) == 502_737


def test_a_distance_table_costs_one_row_more_than_the_reachability_map() -> None:
    reachability = tiny_config(pair_inputs=[{"kind": "reachability", "num_hops": 16}])
    table = tiny_config(pair_inputs=[{"kind": "distance", "max_hops": 16}])
    assert count(table) - count(reachability) == table.model.edge_width


def test_the_last_layer_holds_only_what_is_read() -> None:
    graph_level = build_model(tiny_config())
    assert isinstance(graph_level.layers[0].pairs.edges, ResidualEdges)
    assert isinstance(graph_level.layers[-1].pairs.edges, FrozenEdges)
    assert isinstance(build_model(tiny_config(readout={"kind": "edge"})).layers[-1], EdgeOnlyLayer)
    with_objective = tiny_config().model_dump()
    with_objective["task"]["auxiliary"] = [{"kind": "distance", "weight": 0.1}]
    model = build_model(RunConfig.model_validate(with_objective))
    assert isinstance(model.layers[-1].pairs.edges, ResidualEdges)


def test_mean_pool_and_virtual_nodes_and_nodes_read_the_right_rows() -> None:
    graphs = [random_graph(np.random.default_rng(1), kind) for kind in ("plain", "one_node", "large")]
    sizes = [graph.num_nodes for graph in graphs]
    for layout in ("packed", "padded"):
        config = tiny_config(readout={"kind": "node"})
        model = tiny_model(config)
        x = model.encode(collate(samples_of(config, graphs), layout))
        rows = model.readout(x)
        assert len(rows) == sum(sizes)
        pooled = tiny_model(tiny_config()).readout
        pooled.norm = model.readout.norm
        expected = torch.stack([part.mean(0) for part in rows.split(sizes)])
        torch.testing.assert_close(pooled(x), expected)


def test_edges_of_simple_are_read_from_both_nodes_and_the_input() -> None:
    """[h_i, h_j, e0_ij] in loops, h normalized, e0 as it entered the layers."""
    config = tiny_config(edges={"kind": "frozen"}, readout={"kind": "edge"})
    model = tiny_model(config)
    graphs = [random_graph(np.random.default_rng(3), kind) for kind in ("directed", "self_loops", "plain")]
    for layout in ("packed", "padded"):
        batch = collate(samples_of(config, graphs), layout)
        x = model.encode(batch)
        e0 = model.embed(batch).e.flatten(0, -2)
        h = model.readout.norm(batch.layout.node_rows(x.h))
        expected, start, position = [], 0, 0
        for graph in graphs:
            for i, j in graph.edge_index.T:
                expected.append(torch.cat([h[start + i], h[start + j], e0[batch.edge_pairs[position]]]))
                position += 1
            start += graph.num_nodes
        torch.testing.assert_close(model.readout(x), torch.stack(expected))
        assert model(batch).shape == (position, 1)


def test_keras_initialization_and_torch_initialization() -> None:
    torch.manual_seed(0)
    keras = build_model(preset("zinc-100k"))
    for name, parameter in keras.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
    table = keras.embed.node_terms[0].categories.table.weight
    assert not table[0].any()
    assert 0.045 < table.abs().max() <= 0.05
    qkv = keras.layers[0].qkv.weight
    limit = (6 / (48 + 3 * 48)) ** 0.5
    assert 0.95 * limit < qkv.abs().max() <= limit
    torch_style = build_model(preset("pcqm4mv2-small"))
    assert torch_style.layers[0].qkv.bias.abs().max() > 0
    assert 0.9 < torch_style.embed.pair_terms[0].table.weight.std() < 1.1


def test_computing_only_the_rows_that_are_read_changes_no_answer() -> None:
    """The last layer of a virtual-node model, whole and for reading, with dropout drawn from the same numbers."""
    readout = {"kind": "virtual_nodes", "num_virtual": 2}
    config = tiny_config(readout=readout, gate="centrality", node_dropout=0.3, node_ffn_dropout=0.2)
    batch = collate(samples_of(config, graphs_of_every_kind(3)))
    batch = replace(batch, random_keys=graph_keys(0, 1, batch.graph_ids))
    model = tiny_model(config, backend=backend_named("cpu")).train()
    answers, gradients = [], []
    for answer in (lambda batch: model.read(model.encode(batch)), model):
        model.zero_grad()
        answers.append(answer(batch))
        answers[-1].square().sum().backward()
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    torch.testing.assert_close(*answers, rtol=1e-5, atol=1e-5)
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], rtol=1e-4, atol=1e-4, msg=name)


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_recomputing_changes_no_bit(layout: LayoutName) -> None:
    plain = tiny_config(masking={"probability": 0.2, "gates": True}, attention_dropout=0.2, edge_dropout=0.1)
    content = plain.model_dump(mode="json")
    content["trainer"]["recompute"] = True
    results = []
    for config in (plain, RunConfig.model_validate(content)):
        torch.manual_seed(0)
        model = lively(build_model(config, backend=fastest(layout))).train()
        batch = collate(samples_of(config, graphs_of_every_kind(3)), layout)
        torch.manual_seed(1)  # without keys, fresh ones are drawn once and kept for the second run
        output = model(batch)
        output.square().sum().backward()
        results.append([output, *(p.grad for p in model.parameters())])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_stages_hold_all_parameters_once_in_the_order_of_computation() -> None:
    model = tiny_model(tiny_config(num_layers=3, readout={"kind": "virtual_nodes"}, gate="centrality"))
    stages = model.stages()
    assert [*stages][:6] == ["embeddings", "layer 0", "layer 1", "layer 2", "readout", "head"]
    found = [id(parameter) for parameters in stages.values() for parameter in parameters]
    assert sorted(found) == sorted(id(parameter) for parameter in model.parameters())
    assert id(model.readout.nodes) in {id(parameter) for parameter in stages["embeddings"]}
    assert {id(parameter) for parameter in stages["layer 1"]} == {id(p) for p in model.layers[1].parameters()}


def test_the_edge_channel_has_the_pair_terms_passes_and_virtual_edges() -> None:
    model = tiny_model(tiny_config(num_layers=2, readout={"kind": "virtual_nodes"}))
    channel = {id(parameter) for parameter in model.edge_parameters()}
    names = {name for name, parameter in model.named_parameters() if id(parameter) in channel}
    assert {name for name in names if name.startswith(("embed.node", "head", "readout.n"))} == set()
    assert {"readout.edges", "layers.0.pairs.logits.E.weight"} <= names
    assert any(name.startswith("embed.pair_terms.") for name in names)
