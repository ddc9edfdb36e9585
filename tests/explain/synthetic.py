"""A task whose important nodes are known: how many marked nodes does a tree have?"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from egt.config.run import DataConfig, ModelConfig, RunConfig, TrainerConfig
from egt.graph import Graph
from egt.inference.artifact import Artifact
from egt.inference.predictor import Predictor
from egt.parts.inputs import Distance, NodeCategories
from egt.parts.readouts import VirtualNodes
from egt.parts.tasks.regression import Regression
from tests.explain.quick_models import before_training, fitted

MARK = 3
"""The category of the nodes that are counted; the others are 0, 1 and 2."""


def tree(seed: int, size: int = 12) -> Graph:
    """A random tree with one to five marked nodes, whose number is its target."""
    random = np.random.default_rng(seed)
    child = np.arange(1, size)
    parent = (random.random(size - 1) * child).astype(np.int64)
    categories = random.integers(0, MARK, size)
    marked = random.permutation(size)[: random.integers(1, 6)]
    categories[marked] = MARK
    return Graph.undirected(
        num_nodes=size,
        edge_index=np.stack([parent, child]),
        node_categories=categories[:, None],
        graph_targets=[float(len(marked))],
        id=f"tree {seed}",
    )


def marked(graph: Graph) -> set[int]:
    """The nodes that matter."""
    return set(np.flatnonzero(graph.node_categories[:, 0] == MARK).tolist())


def config() -> RunConfig:
    """A small model that reads trees."""
    return RunConfig(
        name="marks",
        data=DataConfig(source="zinc"),
        model=ModelConfig(
            num_layers=2,
            node_width=16,
            edge_width=8,
            num_heads=2,
            node_inputs=(NodeCategories(sizes=(MARK + 1,)),),
            pair_inputs=(Distance(max_hops=4),),
            gate="centrality",
            readout=VirtualNodes(num_virtual=1),
        ),
        task=Regression(names=("marks",)),
        trainer=TrainerConfig(max_epochs=1),
    )


def untrained() -> Predictor:
    """The model before training."""
    return before_training(config())


@cache
def trained() -> Predictor:
    """The model after some seconds of training; its error is far below one mark."""
    model, batch = fitted(config(), [tree(seed) for seed in range(96)], steps=120)
    with torch.no_grad():
        error = (model(batch)[:, 0] - batch.graph_targets[:, 0]).abs().mean()
    assert error < 0.25, error
    return Predictor(Artifact(config(), model))
