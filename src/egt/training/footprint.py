"""What a training step costs in memory and time, measured on a model with the same parts but few layers.

The bytes that autograd keeps for the backward pass are counted while small graphs pass through the model, so whatever
the parts keep (the plain pair pass or a fused one, masks, auxiliary heads) is what is counted. They grow linearly with
the pairs, the nodes and the layers of a batch; a few measurements give the rates.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from egt.assemble import build_model, build_task, feature_schema, preparation
from egt.batching.batch import GraphBatch, LayoutName, collate
from egt.config.run import RunConfig
from egt.encodings.encoding import Sample
from egt.graph import Graph
from egt.model import EGT
from egt.nn.randomness import graph_keys

_ADAM_COPIES = 4
"""Numbers kept per parameter: the parameter, its gradient, and two moments."""
_BACKWARD_LAYERS = 1.0
"""Beside what is kept, the backward pass of the last layer makes gradients, about as much as a layer keeps."""
_SMALL, _LARGE = (8,) * 6, (24,) * 3


@dataclass(frozen=True)
class Footprint:
    """Memory of a training step.

    Fields:
        parameters: how many there are.
        per_pair: bytes that each pair of a batch adds, over all layers.
        per_node: bytes that each node of a batch adds, over all layers.
        num_virtual: virtual nodes that join each graph, with pairs of their own.
    """

    parameters: int
    per_pair: float
    per_node: float
    num_virtual: int = 0

    @property
    def fixed(self) -> int:
        """Bytes that do not depend on the batch: parameters, gradients, moments."""
        return 4 * _ADAM_COPIES * self.parameters

    def graphs(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Bytes that graphs of these numbers of nodes add to a batch, each at the peak of the step."""
        whole = sizes.astype(np.float64) + self.num_virtual
        return self.per_pair * whole**2 + self.per_node * whole


def measure_footprint(config: RunConfig) -> Footprint:
    """The footprint of a run's model, from steps on small graphs. Takes about a second."""
    short, long, factor = _depths(config)
    readout = config.model.readout
    virtual = readout.num_virtual if readout.kind == "virtual_nodes" else 0
    rates = []
    for depth in dict.fromkeys((short, long)):
        model = _model(config, depth)
        kept = [_kept_bytes(model, config, sizes) for sizes in (_SMALL, _LARGE)]
        wholes = [[n + virtual for n in sizes] for sizes in (_SMALL, _LARGE)]
        counts = [[sum(n * n for n in sizes), sum(sizes)] for sizes in wholes]
        if config.data.layout == "edge_list":  # edges and nodes grow together: a ring has two edges per node
            rates.append(np.array([0.0, kept[1] / counts[1][1]]))
            continue
        rates.append(np.linalg.solve(np.array(counts, dtype=np.float64), np.array(kept, dtype=np.float64)))
    layer = rates[-1] - rates[0]
    per_pair, per_node = np.maximum(rates[0] + (factor + _BACKWARD_LAYERS) * layer, 1.0)
    return Footprint(num_parameters(config), float(per_pair), float(per_node), virtual)


def measure_seconds(config: RunConfig, sizes: Sequence[int]) -> tuple[float, float]:
    """Seconds of a training pass (forward and backward) on graphs of these sizes, and of the forward pass alone."""
    short, long, factor = _depths(config)
    times = []
    for depth in dict.fromkeys((short, long)):
        model, batch = _model(config, depth), synthetic_batch(config, sizes)
        _timed(model, config, batch)  # the first pass also pays for threads and buffers
        times.append(np.min([_timed(model, config, batch) for _ in range(3)], axis=0))
    # On a busy machine more layers may have seemed faster; they are not.
    whole, ahead = times[0] + factor * np.maximum(times[-1] - times[0], 0.0)
    return float(whole), float(ahead)


def num_parameters(config: RunConfig) -> int:
    """The size of a run's model, without allocating it."""
    with torch.device("meta"):
        return build_model(config).num_parameters()


def synthetic_batch(config: RunConfig, sizes: Sequence[int], layout: LayoutName = "packed") -> GraphBatch:
    """A batch of random sparse graphs with the features that the model reads."""
    random, prepared = np.random.default_rng(0), preparation(config)
    samples: list[Sample] = [prepared(synthetic_graph(config, size, random)) for size in sizes]
    layout = config.data.layout if config.data.layout != "auto" else layout
    batch = collate(samples, layout)
    return replace(batch, noise=graph_keys(config.seed, 0, batch.graph_ids))


def synthetic_graph(config: RunConfig, size: int, random: np.random.Generator, *, targets: bool = False) -> Graph:
    """A ring with random features of the kinds that the model reads, and targets of 0 if asked."""
    schema = feature_schema(config.model)
    edges = np.stack([np.arange(size), (np.arange(size) + 1) % size])[:, : size if size > 2 else size - 1]
    num_edges = edges.shape[1]

    def ids(sizes: Sequence[int], rows: int) -> NDArray[np.int64]:
        return np.stack([random.integers(0, k, rows) for k in sizes], 1) if sizes else np.zeros((rows, 0), np.int64)

    graph = Graph.undirected(
        num_nodes=size,
        edge_index=edges,
        node_categories=ids(schema.node_categories, size),
        node_values=random.random((size, schema.num_node_values)),
        edge_categories=ids(schema.edge_categories, num_edges),
        edge_values=random.random((num_edges, schema.num_edge_values)),
    )
    if not targets:
        return graph
    level, width = config.model.level, len(config.task.names)
    rows = {"graph": (width,), "node": (size, width), "edge": (graph.num_edges, width)}[level]
    return replace(graph, **{f"{level}_targets": np.zeros(rows)})  # type: ignore[arg-type]


def _depths(config: RunConfig) -> tuple[int, int, int]:
    """Two numbers of layers to measure, and how often their difference is added to the first."""
    layers = config.model.num_layers
    return (1, 1, 0) if layers == 1 else (min(2, layers), 3, layers - 2) if layers > 2 else (1, 2, 1)


def _model(config: RunConfig, depth: int) -> EGT:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build_model(config.model_copy(update={"model": config.model.model_copy(update={"num_layers": depth})}))


def _loss(model: EGT, config: RunConfig, batch: GraphBatch) -> Tensor:
    x = model.encode(batch)
    loss = model.read(x).square().sum()
    for objective in build_task(config).auxiliary:
        loss = loss + objective.loss(model.auxiliary[objective.name], x, batch)
    return loss


def _kept_bytes(model: EGT, config: RunConfig, sizes: Sequence[int]) -> int:
    """Bytes that autograd keeps for the backward pass of a batch, parameters left out, with the batch itself."""
    batch = synthetic_batch(config, sizes)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, tuple[int, Any]] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes(), storage  # held, so that no other takes its place
        return tensor

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = _loss(model, config, batch)
    del loss
    return sum(size for size, _ in kept.values())


def _timed(model: EGT, config: RunConfig, batch: GraphBatch) -> tuple[float, float]:
    """Seconds of a training pass, and of a forward pass without gradients."""
    model.train()
    started = time.perf_counter()
    _loss(model, config, batch).backward()
    whole = time.perf_counter() - started
    model.zero_grad(set_to_none=True)
    model.eval()
    started = time.perf_counter()
    with torch.inference_mode():
        model(batch)
    return whole, time.perf_counter() - started
