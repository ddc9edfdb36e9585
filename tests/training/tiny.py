"""Tiny runs: path and ring graphs whose targets can be learned, and a model of a few hundred weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from egt.config.run import RunConfig
from egt.config.run_data import preparation
from egt.data.encodings.encoding import Sample
from egt.graph import Graph


def tiny_config(**changes: Any) -> RunConfig:
    """Regression of two numbers per graph, with everything random switched on; `changes` replace whole sections."""
    sections: dict[str, Any] = {
        "name": "tiny",
        "seed": 7,
        "data": {"source": "test", "batch_size": 8},
        "model": {
            "num_layers": 2,
            "node_width": 8,
            "edge_width": 4,
            "num_heads": 2,
            "node_inputs": [{"kind": "node_categories", "sizes": [3]}, {"kind": "svd", "rank": 2}],
            "pair_inputs": [{"kind": "distance", "max_hops": 4}],
            "attention_dropout": 0.2,
            "masking": {"probability": 0.1, "gates": True},
        },
        "task": {"kind": "regression", "names": ["a", "b"], "auxiliary": [{"max_hops": 3, "weight": 0.01}]},
        "optimizer": {"lr": 0.01},
        "schedule": {"kind": "plateau", "patience": 1, "min_lr": 1e-4},
        "trainer": {"max_epochs": 3, "accelerator": "cpu"},
    }
    for name, value in changes.items():
        old = sections.get(name)
        sections[name] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    return RunConfig.model_validate(sections)


def tiny_samples(config: RunConfig, count: int, seed: int = 0) -> list[Sample]:
    """Paths of 2..9 nodes with random categories; targets are the share of category 0 and a missing-prone size."""
    rng, prepare = np.random.default_rng(seed), preparation(config)
    samples = []
    for k in range(count):
        size = int(rng.integers(2, 10))
        categories = rng.integers(0, 3, (size, 1))
        steps = np.arange(size - 1)
        graph = Graph.undirected(
            num_nodes=size,
            edge_index=np.stack([steps, steps + 1]),
            node_categories=categories,
            graph_targets=[float((categories == 0).mean()), np.nan if k % 5 == 0 else size / 10],
            node_targets=categories.astype(np.float64),
            id=f"g{k}",
        )
        samples.append(prepare(graph))
    return samples
