"""Equality with the authors' TensorFlow code: intermediate values, outputs and the distance objective."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import Tensor

from egt.assemble import build_model
from egt.config.load import override
from egt.config.run import RunConfig
from egt.config.run_data import preparation
from egt.data.batching.batch import GraphBatch, LayoutName, collate
from egt.data.encodings.encoding import Sample
from egt.graph import Graph
from egt.nn.losses import distance_loss
from egt.nn.model import EGT
from egt.paper.presets import preset
from tests.graphs import fastest
from tests.parity.golden import Golden

PRESETS = {"tf_pattern": "pattern-100k", "tf_tsp": "tsp-100k", "tf_zinc_do": "zinc-100k"}
LAYER = {
    "norm_mha": "norm_h",
    "norm_edge": "pairs.logits.norm_e",
    "dense_edge_b": "pairs.logits.E",
    "attention_gates": "pairs.gate.G",
    "dense_mha": "O_h",
    "dense_edge_r": "pairs.edges.O_e",
    "norm_fnn_node": "ffn.norm",
    "fnn_lr1_node": "ffn.W1",
    "fnn_lr2_node": "ffn.W2",
    "norm_fnn_edge": "pairs.edges.ffn.norm",
    "fnn_lr1_edge": "pairs.edges.ffn.W1",
    "fnn_lr2_edge": "pairs.edges.ffn.W2",
}
OUTSIDE = {
    "svd_emb": "embed.node_terms.1.W_enc",
    "adj_emb": "embed.pair_terms.0.W",
    "edge_emb": "embed.pair_terms.1.W",
    "fm_emb": "embed.pair_terms.1.categories.table",
    "mlp_out_0": "head.linears.0",
    "mlp_out_1": "head.linears.1",
    "target": "head.linears.2",
    "mlp_out_dist_targ_0": "auxiliary.distance.mlp.linears.0",
    "mlp_out_dist_targ_1": "auxiliary.distance.mlp.linears.1",
    "distance_target": "auxiliary.distance.mlp.linears.2",
}


def tiny(case: Golden) -> RunConfig:
    """The preset of the data set, shrunk to the widths of the golden case."""
    about = case.about["config"]
    return override(
        preset(PRESETS[case.about["name"]]),
        [
            f"model.num_layers={about['model_height']}",
            f"model.node_width={about['model_width']}",
            f"model.edge_width={about['edge_width']}",
            f"model.num_heads={about['num_heads']}",
            f"model.pair_inputs.0.num_hops={about['upto_hop']}",
        ],
    )


def samples(case: Golden, config: RunConfig) -> list[Sample]:
    prepare = preparation(config)
    found = []
    for k, n in enumerate(case.about["sizes"]):
        features = case.array("input/node_features")[k, :n]
        matrix = case.array("input/graph_matrix")[k, :n, :n]
        edges = np.argwhere(matrix * (1 - np.eye(n)) > 0).T
        fields = {"node_values" if features.dtype.kind == "f" else "node_categories": features}
        if "input/feature_matrix" in case.tensors:
            rows = case.array("input/feature_matrix")[k][edges[0], edges[1]]
            fields["edge_values" if rows.dtype.kind == "f" else "edge_categories"] = rows
        graph = Graph(num_nodes=n, edge_index=edges, **fields)
        vectors = case.array("input/singular_vectors")[k, :n, :8]  # (n, 8, 2)
        sample = prepare(graph)
        svd = np.concatenate([vectors[..., 0], vectors[..., 1]], 1)
        found.append(Sample(graph, dict(sample.node) | {"svd": svd}, sample.pair))
    return found


def load(case: Golden, config: RunConfig, layout: LayoutName) -> EGT:
    """The model with the golden parameters: kernels are (in, out) with the head as the fastest index."""
    model = build_model(config, backend=fastest(layout)).eval()
    heads, width = config.model.num_heads, config.model.node_width
    head_major = torch.arange(width).view(-1, heads).T.reshape(-1)
    weights: dict[str, Tensor] = {}
    edges_only = config.model.readout.kind == "edge"
    for name, tensor in case.under("param/").items():
        part, kind = name.removesuffix(":0").split("/")
        ours = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias", "embeddings": "weight"}[kind]
        tensor = tensor.T if kind == "kernel" else tensor
        if part == "node_norm_final":
            weights[f"readout.norm.{ours}"] = tensor
        elif part == "edge_norm_final":
            weights[f"{'readout' if edges_only else 'auxiliary.distance'}.norm.{ours}"] = tensor
        elif part == "node_emb":
            inner = "categories.table" if kind == "embeddings" else "W"
            weights[f"embed.node_terms.0.{inner}.{ours}"] = tensor
        elif part in OUTSIDE:
            weights[f"{OUTSIDE[part]}.{ours}"] = tensor
        else:
            found = re.fullmatch(r"(\w+)_(\d\d)", part)
            assert found, part
            layer = f"layers.{int(found[2])}"
            last_of_edges = edges_only and int(found[2]) == config.model.num_layers - 1
            if found[1] == "dense_qkv":
                tensor = tensor.unflatten(0, (3, -1))[:, head_major]
                weights[f"{layer}.{'qk' if last_of_edges else 'qkv'}.{ours}"] = (
                    tensor[:2] if last_of_edges else tensor
                ).flatten(0, 1)
            elif not (last_of_edges and found[1] == "attention_gates"):
                tensor = tensor[:, head_major] if found[1] == "dense_mha" and kind == "kernel" else tensor
                weights[f"{layer}.{LAYER[found[1]]}.{ours}"] = tensor
    model.load_state_dict(weights)
    return model


class Comparison:
    """Compares our rows, in either layout, with the valid positions of their padded tensors."""

    def __init__(self, case: Golden, batch: GraphBatch) -> None:
        self.case, self.batch = case, batch
        real = torch.arange(case.array("input/node_features").shape[1]) < torch.tensor(case.about["sizes"]).unsqueeze(1)
        self.nodes, self.pairs = real, real.unsqueeze(1) & real.unsqueeze(2)

    def node(self, ours: Tensor, name: str) -> None:
        rows = self.batch.layout.node_rows(ours)
        torch.testing.assert_close(rows, self.case.tensors[name][self.nodes], rtol=0, atol=1e-5, msg=name)

    def pair(self, ours: Tensor, name: str) -> None:
        rows = ours if self.batch.layout.real_pairs is None else ours[self.batch.layout.real_pairs]
        torch.testing.assert_close(rows, self.case.tensors[name][self.pairs], rtol=0, atol=1e-5, msg=name)


@pytest.mark.parametrize("layout", ["packed", "padded"])
@pytest.mark.parametrize("name", PRESETS)
def test_every_intermediate_value(name: str, layout: LayoutName) -> None:
    case = Golden.read(name)
    config = tiny(case)
    batch = collate(samples(case, config), layout)
    model = load(case, config, layout)
    compare = Comparison(case, batch)
    x = model.readout.prepare(model.embed(batch))
    compare.node(x.h, "layer/node_emb_add")
    compare.pair(model.embed.pair_terms[0](batch), "layer/adj_emb")
    compare.pair(x.e, "layer/edge_emb_add" if "layer/edge_emb_add" in case.tensors else "layer/adj_emb")
    for k, layer in enumerate(model.layers):
        x = x.updated(*layer(x.h, x.e, x.context))
        if f"layer/res_fnn_node_{k:02}" in case.tensors:
            compare.node(x.h, f"layer/res_fnn_node_{k:02}")
        if f"layer/res_fnn_edge_{k:02}" in case.tensors:
            compare.pair(x.e, f"layer/res_fnn_edge_{k:02}")
    if "layer/node_norm_final" in case.tensors:
        compare.node(model.readout.norm(x.h), "layer/node_norm_final")
    prediction = model.read(x)
    expected = case.tensors["output"]
    if "output_mask" in case.tensors:
        expected = expected[case.tensors["output_mask"].bool()]
    torch.testing.assert_close(prediction, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", PRESETS)
def test_logits_attention_and_aggregation(name: str) -> None:
    """The three outputs of their attention: aggregated values, H_hat, and A_tilde."""
    case = Golden.read(name)
    config = tiny(case)
    batch = collate(samples(case, config), "padded")
    model = load(case, config, "padded")
    compare = Comparison(case, batch)
    x = model.embed(batch)
    layer = model.layers[0]
    qkv = layer.qkv(layer.norm_h(x.h)).unflatten(-1, (3, layer.num_heads, -1))
    Q, K, _ = qkv.unbind(-3)
    H_hat, e_hat = layer.pairs.logits(Q, K, x.e, batch.layout)
    attended, counted = layer.pairs.masking(x.context)
    A_tilde, _ = layer.pairs.gate(batch.layout.softmax(H_hat, attended), e_hat, counted, batch.layout)
    out, _ = layer.pairs(qkv, x.e, x.context)
    compare.node(out.transpose(-1, -2).flatten(-2), "layer/mha_00/0")  # theirs: head is the fastest index
    compare.pair(H_hat, "layer/mha_00/1")
    compare.pair(A_tilde, "layer/mha_00/2")


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_distance_objective(layout: LayoutName) -> None:
    case = Golden.read("tf_zinc_do")
    config = tiny(case)
    objective = config.task.auxiliary[0]
    batch = collate(samples(case, config), layout)
    model = load(case, config, layout)
    head = model.auxiliary["distance"]
    x = model.encode(batch)
    compare = Comparison(case, batch)
    compare.pair(head.norm(x.e), "layer/edge_norm_final")
    compare.pair(head(x.e), "layer/distance_target")
    term = objective.weight * distance_loss(head, x.e, batch, objective.num_outputs - 1) / batch.num_graphs
    expected = case.about["distance_loss_term(kappa*mean_over_batch(sum_over_pairs))"]
    assert term.item() == pytest.approx(expected, abs=1e-5)


def test_stacked_reachability_is_a_function_of_distance() -> None:
    case = Golden.read("tf_pattern")
    config = tiny(case)
    stack = case.array("layer/adj_stack_hops")  # (B, N, N, K)
    for k, sample in enumerate(samples(case, config)):
        n, hops = sample.graph.num_nodes, stack.shape[-1]
        distance = np.maximum(sample.pair["distance"].astype(int), 1)
        ours = distance[..., None] <= np.arange(1, hops + 1)
        np.testing.assert_array_equal(ours, stack[k, :n, :n])
