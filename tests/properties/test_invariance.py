"""Property checks over more than 200 random graphs of every kind, for each variant and layout, in float32."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from egt import testing
from egt.data.batching.batch import LayoutName
from tests.graphs import KINDS, fastest, graphs_of_every_kind, samples_of, tiny_config, tiny_model

VARIANTS: dict[str, dict[str, Any]] = {
    "mean": {},
    "virtual": {"readout": {"kind": "virtual_nodes", "num_virtual": 3}, "gate": "centrality"},
    "node": {"readout": {"kind": "node"}},
    "edge": {"readout": {"kind": "edge"}},
    "pairs without a direction": {"readout": {"kind": "edge", "symmetric": True}},
    "simple": {"edges": {"kind": "frozen"}, "readout": {"kind": "edge"}},
    "constrained": {"scope": "neighbors", "readout": {"kind": "node"}, "gate": "centrality"},
    "constrained virtual": {"scope": "neighbors", "readout": {"kind": "virtual_nodes", "num_virtual": 2}},
    "ungated": {"gate": "none", "readout": {"kind": "node"}},
    "gelu, other inputs": {
        "activation": "gelu",
        "node_inputs": [
            {"kind": "node_categories", "sizes": [5]},
            {"kind": "node_values", "num_values": 2},
            {"kind": "laplacian", "rank": 3},
            {"kind": "degree", "max_degree": 4},
            {"kind": "constant"},
        ],
        "pair_inputs": [
            {"kind": "reachability", "num_hops": 3},
            {"kind": "random_walk", "num_steps": 4},
            {"kind": "edge_categories", "sizes": [3]},
            {"kind": "edge_values", "num_values": 1, "absent": "learned"},
        ],
    },
    "walks, scaled sum": {
        "node_inputs": [
            {"kind": "node_categories", "sizes": [5]},
            {"kind": "node_values", "num_values": 2},
            {"kind": "random_walk", "num_steps": 5, "scaled": True},
        ],
        "pair_inputs": [
            {"kind": "random_walk", "num_steps": 5, "scaled": True, "bias": False},
            {"kind": "edge_categories", "sizes": [3]},
            {"kind": "edge_values", "num_values": 1},
        ],
        "gate": "centrality",
        "readout": {"kind": "scaled_sum"},
    },
    "attention readout": {"readout": {"kind": "attention"}},
    "plus": {
        "edge_values": "sliced",
        "edge_width": 8,
        "node_scaling": "degree",
        "gate": "centrality",
        "edges": {"kind": "outer_sum"},
        "key_dropout": 0.3,
        "drop_path": 0.3,
        "readout": {"kind": "virtual_nodes", "num_virtual": 2},
    },
    "plus constrained": {
        "edge_values": "full",
        "node_scaling": "degree",
        "scope": "neighbors",
        "key_dropout": 0.3,
        "readout": {"kind": "node"},
    },
    "triplets": {"triplets": "aggregation", "edge_dropout": 0.2},
    "triplets of edges": {"triplets": {"kind": "aggregation", "num_heads": 2}, "readout": {"kind": "edge"}},
    "triplets, constrained virtual": {
        "triplets": "aggregation",
        "scope": "neighbors",
        "readout": {"kind": "virtual_nodes", "num_virtual": 2},
    },
    "weighted svd": {
        "node_inputs": [
            {"kind": "node_categories", "sizes": [5]},
            {"kind": "node_values", "num_values": 2},
            {"kind": "svd", "rank": 6, "weighted": True},
        ]
    },
}
ROUNDS = 13
BATCHES = [graphs_of_every_kind(seed) for seed in range(2 * ROUNDS)]
assert sum(len(batch) for batch in BATCHES) >= 200
assert len(KINDS) == 8


@pytest.mark.parametrize("layout", ["packed", "padded"])
@pytest.mark.parametrize("name", VARIANTS)
def test_numbering_and_batch_mates_do_not_matter(name: str, layout: LayoutName) -> None:
    config = tiny_config(**VARIANTS[name])
    model = tiny_model(config, backend=fastest(layout))
    for graphs in BATCHES:
        samples = samples_of(config, graphs)
        testing.check_permutation(model, samples, config.model.level, layout)
        testing.check_batch_independence(model, samples, layout)


@pytest.mark.parametrize("name", VARIANTS)
def test_layouts_and_backends_agree_and_padding_is_never_read(name: str) -> None:
    config = tiny_config(**VARIANTS[name])
    model, fast = tiny_model(config), tiny_model(config, backend=fastest("packed"))
    for graphs in BATCHES:
        samples = samples_of(config, graphs)
        testing.check_layouts_agree(model, samples)
        testing.check_models_agree(fast, model, samples)
        testing.check_masked(model, samples)


@pytest.mark.parametrize("layout", ["packed", "padded"])
@pytest.mark.parametrize("name", VARIANTS)
def test_gradients_are_finite(name: str, layout: LayoutName) -> None:
    config = tiny_config(**VARIANTS[name], masking={"probability": 0.5, "gates": True}, attention_dropout=0.5)
    model = tiny_model(config, backend=fastest(layout))
    for graphs in BATCHES[:6]:
        testing.check_finite_gradients(model, samples_of(config, graphs), layout)


def test_a_model_that_reads_padding_fails_the_check() -> None:
    config = tiny_config()
    model = tiny_model(config)
    samples = samples_of(config, graphs_of_every_kind(0))

    class Leaky(nn.Module):
        def forward(self, batch: Any) -> Any:
            return model.embed(batch).h.sum(1)

    with pytest.raises(testing.CheckFailed, match="padding"):
        testing.check_masked(Leaky(), samples)
    with pytest.raises(testing.CheckFailed, match="graphs"):
        testing.check_batch_independence(Leaky(), samples, "padded")


def test_a_model_that_counts_nodes_by_number_fails_the_check() -> None:
    config = tiny_config(readout={"kind": "node"})
    model = tiny_model(config)
    samples = samples_of(config, graphs_of_every_kind(1))

    def numbered(batch: Any) -> Any:
        return model(batch) + batch.layout.node_indices.i.unsqueeze(-1)

    with pytest.raises(testing.CheckFailed, match="numbering"):
        testing.check_permutation(numbered, samples, "node")
