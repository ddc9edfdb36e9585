"""Models that learn a small task in some seconds, and the same before they have."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from egt.assemble import build_model, build_task
from egt.config.run import RunConfig
from egt.config.run_data import preparation
from egt.data.batching.batch import GraphBatch, collate
from egt.graph import Graph
from egt.inference.artifact import Artifact
from egt.inference.predictor import Predictor
from egt.nn.model import EGT


def before_training(run: RunConfig) -> Predictor:
    """The model of a run with random weights."""
    torch.manual_seed(7)
    return Predictor(Artifact(run, build_model(run).eval()))


def fitted(run: RunConfig, graphs: Sequence[Graph], steps: int) -> tuple[EGT, GraphBatch]:
    """The model of a run after so many steps on all graphs, and their batch."""
    torch.manual_seed(0)
    model, task, prepare = build_model(run), build_task(run), preparation(run)
    batch = collate([prepare(graph) for graph in graphs])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        loss, labels = task.loss(model(batch), batch)
        (loss / labels).backward()
        optimizer.step()
    return model.eval(), batch
