"""A node task that is solved perfectly, and whose important node is known: what color does a node have?"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from egt.artifact.artifact import Artifact
from egt.assemble import build_model, build_task, preparation
from egt.batching.batch import collate
from egt.config.model import ModelConfig
from egt.config.run import DataConfig, RunConfig, TrainerConfig
from egt.graph import Graph
from egt.inference.predictor import Predictor
from egt.inputs.distance import Distance
from egt.inputs.features import NodeCategories
from egt.readouts.node import PerNode
from egt.tasks.multiclass import Multiclass

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
    torch.manual_seed(7)
    return Predictor(Artifact(config(), build_model(config()).eval()))


@cache
def trained() -> Predictor:
    """The model after some seconds of training: every color is right, with a probability near 1."""
    run = config()
    torch.manual_seed(0)
    model, task, prepare = build_model(run), build_task(run), preparation(run)
    batch = collate([prepare(colored(seed)) for seed in range(32)])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(80):
        optimizer.zero_grad()
        loss, labels = task.loss(model(batch), batch)
        (loss / labels).backward()
        optimizer.step()
    with torch.no_grad():
        likely = task.decode(model.eval()(batch)).max(1).values
    assert likely.min() > 0.95, likely.min()
    return Predictor(Artifact(run, model))
