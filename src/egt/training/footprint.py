"""How many bytes of tensors are alive at once while something is computed.

What a training step costs in memory and time, measured on a model with the same parts but few layers.

Small graphs pass through the model as it will really run (layout, kernel, precision), and the bytes of tensors that
are alive at once are counted. They grow linearly with the pairs, the nodes and the layers of a batch; a few
measurements give the rates.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from egt.assemble import build_model, build_task
from egt.config.preparation import feature_schema, preparation
from egt.config.run import RunConfig
from egt.data.batching.batch import GraphBatch, LayoutName, collate
from egt.data.batching.loader import split
from egt.data.encodings.encoding import Sample
from egt.errors import ConfigError
from egt.graph import Graph
from egt.inference.backends import Backend, Execution
from egt.nn.kernels.allocator import keep_freed_memory
from egt.nn.model import EGT
from egt.nn.randomness import graph_keys


class LiveBytes(TorchDispatchMode):
    """Counts what operations inside of a `with` block allocate and free, whatever their code and layout.

    The outputs of the fused kernel are counted apart: they come from a pool (`egt.nn.kernels.allocator`), and what is
    free there is of no use to others.

    Args:
        known: tensors that are there anyway, as the parameters.

    Attributes:
        peak: the most bytes that were alive at once.
        heap_peak: the most, except outputs of the kernel.
        pool_peak: the most of outputs of the kernel.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Decline torch's wrapper around `__torch_dispatch__`: it loads the compiler, which takes seconds."""
        return False

    def __init__(self, known: Iterable[Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = self.heap_peak = self.pool_peak = 0
        self._heap = self._pool = 0
        self._alive = {tensor.untyped_storage()._cdata for tensor in known}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and watch the tensors that it returns."""
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self.watch(tensor, pooled=func.namespace == "egt")
        return result

    def watch(self, tensor: Tensor, *, pooled: bool = False) -> None:
        """Count a tensor until its memory is freed; a view of one that is counted adds nothing."""
        storage = tensor.untyped_storage()
        if storage._cdata in self._alive:
            return
        self._alive.add(storage._cdata)
        self._add(storage.nbytes(), pooled)
        weakref.finalize(storage, self._freed, storage._cdata, storage.nbytes(), pooled).atexit = False

    def _freed(self, address: int, size: int, pooled: bool) -> None:
        self._alive.discard(address)
        self._add(-size, pooled)

    def _add(self, size: int, pooled: bool) -> None:
        if pooled:
            self._pool += size
            self.pool_peak = max(self.pool_peak, self._pool)
        else:
            self._heap += size
            self.heap_peak = max(self.heap_peak, self._heap)
        self.peak = max(self.peak, self._heap + self._pool)


_ADAM_COPIES = 4
"""Numbers kept per parameter: the parameter, its gradient, and two moments."""

_HEAP_GAPS = 1.3
"""Memory of the heap that is kept over what is in use: freed tensors leave gaps that do not fit the next ones."""

_ROUNDS = 4
"""How often a time is taken; the shortest counts."""

_MEASURED = (((8,) * 24, 2.0), ((32,) * 4, 2.0), ((32,) * 8, 2.0), ((32,) * 8, 12.0))
"""Sizes and edges per node of batches whose pairs, nodes, edges and constant part can be told apart."""


@dataclass(frozen=True)
class Footprint:
    """Memory of a training step.

    Fields:
        parameters: how many there are.
        copies: numbers kept per parameter.
        per_pair: bytes that each pair of a batch adds, over all layers; 0 where only edges are computed.
        per_node: bytes that each node of a batch adds with its edges, over all layers.
        layout: of the batches.
        num_virtual: virtual nodes that join each graph, with pairs of their own.
    """

    parameters: int
    copies: int
    per_pair: float
    per_node: float
    layout: LayoutName = "packed"
    num_virtual: int = 0

    @property
    def fixed(self) -> int:
        """Bytes that do not depend on the batch: parameters, gradients, moments, average."""
        return 4 * self.copies * self.parameters

    def graphs(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the bytes that graphs of these numbers of nodes add to a batch, each at the peak of the step."""
        whole = sizes.astype(np.float64) + self.num_virtual
        return self.per_pair * whole**2 + self.per_node * whole

    def largest_part(self, sizes: NDArray[np.int64], pair_budget: int | None) -> tuple[float, int]:
        """Return bytes and pairs of the most expensive part in which a batch of graphs of these sizes is computed."""
        most, pairs = 0.0, 0
        for group in split(sizes, self.layout, pair_budget):
            members = sizes[group]
            if self.layout == "padded":
                members = np.full_like(members, members.max())
            most = max(most, float(self.graphs(members).sum()))
            pairs = max(pairs, 0 if self.layout == "edge_list" else int((members**2).sum()))
        return most, pairs


def measure_footprint(config: RunConfig, how: Execution, degree: float = 2.0) -> Footprint:
    """Measure the footprint of a run's model, from steps on small graphs. Takes about a second.

    `torch.compile` is too slow to be tried: its code is taken to need what the plain one does.

    Args:
        config: the run.
        how: the way it is computed.
        degree: edges per node of its graphs.
    """
    short, long, factor = _depths(config)
    virtual = config.model.readout.added_nodes()
    batches = [synthetic_batch(config, sizes, how.layout, edges) for sizes, edges in _MEASURED]
    wholes = [np.array(sizes) + virtual for sizes, _ in _MEASURED]
    counts = [
        [(sizes**2).sum(), sizes.sum(), len(batch.edge_pairs), 1] for sizes, batch in zip(wholes, batches, strict=True)
    ]
    used = []
    for depth in dict.fromkeys((short, long)):
        model = _model(config, depth, how.backend)
        used.append(np.array([_used_bytes(model, config, batch, how) for batch in batches]))
    # Only edges are computed on their list; the batches of one size of graphs tell them from nodes.
    known = slice(1, None) if how.layout == "edge_list" else slice(None)
    rates = np.zeros(len(counts))
    rates[known] = np.linalg.solve(
        np.array(counts, dtype=np.float64)[known, known], (used[0] + factor * (used[-1] - used[0]))[known]
    )
    per_pair, per_node, per_edge = np.maximum(rates[:3], 0.0).tolist()
    return Footprint(
        num_parameters(config), num_copies(config), per_pair, per_node + degree * per_edge, how.layout, virtual
    )


def measure_seconds(
    config: RunConfig, how: Execution, sizes: Sequence[int], degree: float = 2.0
) -> tuple[float, float]:
    """Measure the seconds of a training pass on graphs of these sizes, and of the forward pass alone."""
    keep_freed_memory()  # as training does
    short, long, factor = _depths(config)
    batch = synthetic_batch(config, sizes, how.layout, degree)
    models = [_model(config, depth, how.backend) for depth in dict.fromkeys((short, long))]
    for model in models:
        _timed(model, config, batch, how)  # the first pass also pays for threads and buffers
    # In turns, so that a machine that is busy for a while is so for all of them.
    rounds = [[_timed(model, config, batch, how) for model in models] for _ in range(_ROUNDS)]
    times = np.min(rounds, axis=0)
    # On a busy machine more layers may have seemed faster; they are not.
    whole, ahead = times[0] + factor * np.maximum(times[-1] - times[0], 0.0)
    return float(whole), float(ahead)


def num_copies(config: RunConfig) -> int:
    """Numbers that training keeps per parameter."""
    return _ADAM_COPIES + (config.trainer.ema_decay is not None)


def num_parameters(config: RunConfig) -> int:
    """Count the parameters of a run's model, without allocating it or building all of its layers, which are alike."""
    short, long, factor = _depths(config)
    try:
        with _Unallocated():
            counts = [build_model(_shallow(config, depth)).num_parameters() for depth in (short, long)]
    except (RuntimeError, OverflowError, TypeError) as error:
        raise ConfigError(
            f"the model cannot be built: {str(error).splitlines()[0]}; lower model.node_width "
            f"({config.model.node_width}), model.edge_width ({config.model.edge_width}) or the sizes of its inputs"
        ) from error
    return counts[0] + factor * (counts[1] - counts[0])


class _Unallocated(TorchFunctionMode):
    """New tensors have a shape and no content; with `torch.device("meta")` some would import the compiler."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in (torch.empty, torch.zeros, torch.ones, torch.randn, torch.rand):
            return torch.empty(*args, **{**kwargs, "device": "meta"})
        if function in (Tensor.normal_, Tensor.uniform_) or getattr(function, "__module__", "") == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return function(*args, **kwargs)


def synthetic_batch(config: RunConfig, sizes: Sequence[int], layout: LayoutName, degree: float = 2.0) -> GraphBatch:
    """Make a batch of sparse graphs with the features that the model reads."""
    random, prepared = np.random.default_rng(0), preparation(config)
    samples: list[Sample] = [prepared(synthetic_graph(config, size, random, degree)) for size in sizes]
    batch = collate(samples, layout)
    return replace(batch, random_keys=graph_keys(config.seed, 0, batch.graph_ids))


def synthetic_graph(
    config: RunConfig, size: int, random: np.random.Generator, degree: float = 2.0, *, targets: bool = False
) -> Graph:
    """Make a ring, each node joined to its next ones, with random features that the model reads.

    Args:
        config: the run.
        size: number of nodes.
        random: draws the features.
        degree: edges per node, counted in both directions, as far as a graph of this size can have them.
        targets: give it targets, 0 and 1 in turn.
    """
    schema = feature_schema(config.model)
    reach = np.arange(1, 1 + max(1, min(round(degree / 2), (size - 1) // 2)))
    first = np.repeat(np.arange(size if size > 2 else size - 1), len(reach))
    edges = np.stack([first, (first + np.resize(reach, len(first))) % size])
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
        graph_values=random.random(schema.num_graph_values),
    )
    if not targets:
        return graph
    level, width = config.model.level, len(config.task.names)
    rows = {"graph": (width,), "node": (size, width), "edge": (graph.num_edges, width)}[level]
    return replace(graph, **{f"{level}_targets": np.resize([0.0, 1.0], rows)})  # type: ignore[arg-type]


def _depths(config: RunConfig) -> tuple[int, int, int]:
    """Choose two numbers of layers to measure, and how often their difference is added to the first."""
    layers = config.model.num_layers
    return (1, 1, 0) if layers == 1 else (min(2, layers), 3, layers - 2) if layers > 2 else (1, 2, 1)


def _model(config: RunConfig, depth: int, backend: Backend) -> EGT:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build_model(_shallow(config, depth), backend=backend)


def _shallow(config: RunConfig, depth: int) -> RunConfig:
    return config.model_copy(update={"model": config.model.model_copy(update={"num_layers": depth})})


def _precision(how: Execution) -> AbstractContextManager[None]:
    """Enter half precision as training does it; both kinds of it take the same memory."""
    return torch.autocast("cpu", torch.bfloat16, enabled=how.dtype != torch.float32)


def trial_loss(model: EGT, config: RunConfig, batch: GraphBatch) -> Tensor:
    """Sum the squares of the answers and the auxiliary losses, by the way that training takes."""
    auxiliary = build_task(config).auxiliary
    x = model.encode(batch) if auxiliary else None
    loss: Tensor = (model(batch) if x is None else model.read(x)).square().sum()
    for objective in auxiliary:
        assert x is not None
        loss = loss + objective.loss(model.auxiliary[objective.kind], x, batch)
    return loss


def _used_bytes(model: EGT, config: RunConfig, batch: GraphBatch, how: Execution) -> float:
    """Count the bytes that a training pass takes at its peak beside parameters and gradients, with the batch itself."""
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(_drop_gradient)
    model.train()
    batch = batch.to("cpu")  # whose layout has not computed its indices yet

    with LiveBytes(model.parameters()) as live:
        for tensor in _tensors(batch):
            live.watch(tensor)
        with _precision(how):
            loss = trial_loss(model, config, batch)
        loss.backward()
    return float(live.pool_peak + _HEAP_GAPS * live.heap_peak)


def _drop_gradient(parameter: Tensor) -> None:
    parameter.grad = None


def _tensors(batch: GraphBatch) -> list[Tensor]:
    values = [getattr(batch, field.name) for field in fields(batch)]
    values += [*batch.node.values(), *batch.pair.values()]
    return [value for value in values if isinstance(value, Tensor)]


def _timed(model: EGT, config: RunConfig, batch: GraphBatch, how: Execution) -> tuple[float, float]:
    """Measure the seconds of a training pass, and of a forward pass without gradients."""
    model.train()
    started = time.perf_counter()
    with _precision(how):
        loss = trial_loss(model, config, batch)
    loss.backward()
    whole = time.perf_counter() - started
    model.zero_grad(set_to_none=True)
    model.eval()
    started = time.perf_counter()
    with torch.inference_mode(), _precision(how):
        model(batch)
    return whole, time.perf_counter() - started
