"""A node task that is solved perfectly, and whose important node is known: what color does a node have?"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from egt.assemble import build_task
from egt.config.run import DataConfig, ModelConfig, RunConfig, TrainerConfig
from egt.graph import Graph
from egt.inference.artifact import Artifact
from egt.inference.predictor import Predictor
from egt.parts.inputs import Distance, NodeCategories
from egt.parts.readouts import PerNode
from egt.parts.tasks.classification import Multiclass
from tests.explain.quick_models import before_training, fitted

COLORS = 3


def colored(seed: int, size: int = 10) -> Graph:
    """A random tree whose nodes have a color each, which is their target."""
    random = np.random.default_rng(seed)
    child = np.arange(1, size)
    colors = random.integers(0, COLORS, size)
    return Graph.undirected(
        num_nodes=size,
        edge_index=np.stack([(random.random(size - 1) * child).astype(np.int64), child]),
        node_categories=colors[:, None],
        node_targets=colors[:, None].astype(np.float64),
    )


def config() -> RunConfig:
    """A small model that reads them."""
    return RunConfig(
        name="colors",
        data=DataConfig(source="zinc"),
        model=ModelConfig(
            num_layers=2,
            node_width=16,
            edge_width=8,
            num_heads=2,
            node_inputs=(NodeCategories(sizes=(COLORS,)),),
            pair_inputs=(Distance(max_hops=4),),
            readout=PerNode(),
        ),
        task=Multiclass(names=("color",), num_classes=COLORS),
        trainer=TrainerConfig(max_epochs=1),
    )


def untrained() -> Predictor:
    """The model before training."""
    return before_training(config())


@cache
def trained() -> Predictor:
    """The model after some seconds of training: every color is right, with a probability near 1."""
    model, batch = fitted(config(), [colored(seed) for seed in range(32)], steps=80)
    with torch.no_grad():
        likely = build_task(config()).decode(model(batch)).max(1).values
    assert likely.min() > 0.95, likely.min()
    return Predictor(Artifact(config(), model))
