"""The memory of a run: what a training step needs, and whether it, and each graph, fits into what is free.

Small graphs pass through a model with the same parts but few layers, as it will really run (layout, kernel, precision),
and the bytes of tensors that are alive at once are counted. They grow linearly with the pairs, the nodes, the edges and
the layers of a batch; a few measurements give the rates.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from egt.assemble import build_model, unallocated
from egt.config.run import RunConfig
from egt.config.run_data import feature_schema, in_pieces, preparation
from egt.data.batching.batch import GraphBatch, LayoutName, collate
from egt.data.batching.loader import graph_sizes, split
from egt.data.encodings.encoding import Sample
from egt.data.source import DataCard
from egt.errors import ConfigError, counted
from egt.graph import Graph
from egt.inference.backends import (
    Backend,
    Execution,
    available_memory,
    device_of,
    execution,
    num_devices,
    prediction_bytes,
    recompute_hint,
    share_of_batch,
    too_large,
)
from egt.inference.forward import evaluation_budget, graphs_at_once
from egt.nn.kernels.binding import keep_freed_memory
from egt.nn.model import EGT
from egt.nn.randomness import graph_keys

log = logging.getLogger(__name__)
_SURELY_ENOUGH = 16  # a run that needs less than 1/16 of the free memory by a crude upper bound is not measured


class LiveBytes(TorchDispatchMode):
    """Counts what operations inside of a `with` block allocate and free, whatever their code and layout.

    The outputs of the fused kernel are counted apart (`pool_peak`, others `heap_peak`, together `peak`): they come from
    a pool (`egt.nn.kernels.binding`), and what is free there is of no use to others. `known` tensors do not count.
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
        weakref.finalize(storage, self._free, storage._cdata, storage.nbytes(), pooled).atexit = False

    def _free(self, address: int, size: int, pooled: bool) -> None:
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


_ADAM_COPIES = 4  # numbers kept per parameter: the parameter, its gradient, and two moments
_HEAP_GAPS = 1.3
"""Memory of the heap that is kept over what is in use: freed tensors leave gaps that do not fit the next ones."""

_ROUNDS = 4  # how often a time is taken; the shortest counts
_MEASURED = (((8,) * 24, 2.0), ((32,) * 4, 2.0), ((32,) * 8, 2.0), ((32,) * 8, 12.0))
"""Sizes and edges per node of batches whose pairs, nodes, edges and constant part can be told apart."""


@dataclass(frozen=True)
class Footprint:
    """Memory of a training step.

    Fields:
        fixed: bytes that do not depend on the batch: parameters, gradients, moments, average.
        per_pair: bytes that each pair of a batch adds, over all layers; 0 where only edges are computed.
        per_node: bytes that each node of a batch adds with its edges, over all layers.
        num_virtual: virtual nodes that join each graph, with pairs of their own.
    """

    fixed: int
    per_pair: float
    per_node: float
    layout: LayoutName = "packed"
    num_virtual: int = 0

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


class Memory:
    """The memory that a run needs beside what is free, for one process. Nothing is allocated to find that out.

    `fixed` are bytes that do not depend on the batch; where they do not fit, a `ConfigError` is raised.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.device = device_of(accelerator=config.trainer.accelerator)
        self.how = execution(config, self.device)
        self.free = available_memory(self.device) // (num_devices(config.trainer) if self.device.type == "cpu" else 1)
        self.parameters = num_parameters(config)
        self.fixed = 4 * (_ADAM_COPIES + (config.trainer.ema_decay is not None)) * self.parameters
        if self.fixed > self.free:
            raise ConfigError(
                f"the model has {self.parameters:,} parameters: with their gradients and the state of the optimizer "
                f"they need {self.fixed / 1e9:.1f} GB, and {self.free / 1e9:.1f} GB are free; lower model.node_width "
                f"({config.model.node_width}) or model.num_layers ({config.model.num_layers})"
            )

    def footprint(self, degree: float, *, training: bool = True) -> Footprint:
        """Measure the footprint of training, or of a pass without gradients, for graphs of so many edges per node."""
        how = self.how if training else execution(self.config, self.device, training=False)
        return measure_footprint(self.config, how, degree, fixed=self.fixed, training=training)

    def check_largest_graph(self, card: DataCard) -> None:
        """Raise a `ConfigError`, with what does fit, if the largest graph of the card cannot even be evaluated."""
        if why := too_large(self.config, int(card.num_nodes[2]), self.device):
            raise ConfigError(
                f"{self.config.data.source}: {why}. Attention between neighbors needs only edges and query pairs: "
                "--set model.scope=neighbors data.layout=edge_list"
            )

    def fit_run(self, config: RunConfig, stores: Mapping[str, Sequence[Sample]]) -> RunConfig:
        """Return the run, unchanged if its batches fit, else with a `data.pair_budget` under which they do.

        A `ConfigError` names a single graph of any split, or a batch that cannot be split, that does not fit.
        """
        splits = {name: in_pieces(config, store, training=name == "train") for name, store in stores.items()}
        train, sizes = splits["train"], {name: graph_sizes(samples) for name, samples in splits.items()}
        if self._upper_bound(max(int(each.max()) for each in sizes.values())) * _SURELY_ENOUGH < self.free:
            return config
        footprint = self.footprint(edges_per_node(train[int(np.argmax(sizes["train"]))]))
        for name, samples in splits.items():
            self._check_largest(footprint, name, samples, sizes[name])
        worst = np.sort(sizes["train"])[::-1][: share_of_batch(config)]
        needed = self.fixed + footprint.largest_part(worst, config.data.pair_budget)[0]
        rates = [] if needed <= self.free else [float(np.max(footprint.graphs(sizes["train"]) / sizes["train"] ** 2))]
        for name in splits.keys() - {"train"}:
            needed_there, rate = self._evaluation(sizes[name])
            if self.fixed + needed_there > self.free:
                needed, rates = max(needed, self.fixed + needed_there), [*rates, rate]
        if not rates:
            return config
        if self.how.layout == "edge_list":
            raise ConfigError(
                f"a batch of {counted(config.data.batch_size, 'graph')} needs about {needed / 1e9:.1f} GB on its lists "
                f"of edges, and {self.free / 1e9:.1f} GB are free; lower data.batch_size (trainer.accumulate keeps the "
                "step the same)"
            )
        budget = max(int((self.free - self.fixed) / max(rates)), int(worst[0]) ** 2)
        hint = recompute_hint(config, self.how.backend.name)
        log.warning(
            "a batch of %d graphs may need %.1f GB, and %.1f GB are free: it is computed in parts of at most %s pairs "
            "(data.pair_budget); the result is that of the whole batch%s",
            config.data.batch_size,
            needed / 1e9,
            self.free / 1e9,
            f"{budget:,}",
            hint and f". Larger parts fit if you {hint}",
        )
        return config.replace(data={"pair_budget": budget})

    def _check_largest(
        self, footprint: Footprint, name: str, samples: Sequence[Sample], sizes: NDArray[np.int64]
    ) -> None:
        """Check that the largest graph of a split fits by itself into a training step or a pass without gradients."""
        config, number = self.config, int(np.argmax(sizes))
        nodes = int(sizes[number])
        if name == "train":
            needed, work = self.fixed + float(footprint.graphs(sizes[number])), "a training step on it"
            hint = recompute_hint(config, self.how.backend.name)
        else:
            how = execution(config, self.device, training=False)
            needed, work, hint = self.fixed + float(prediction_bytes(config, nodes, how)), "evaluating it", ""
        if needed <= self.free:
            return
        if config.data.pieces is not None:
            smaller = f"cut smaller pieces: lower data.pieces.roots ({config.data.pieces.roots})"
        elif config.data.layout == "edge_list" and config.model.level != "graph":
            smaller = "cut it into pieces: --set data.pieces={}"
        else:
            smaller = "attend neighbors only: --set model.scope=neighbors data.layout=edge_list"
        raise ConfigError(
            f"graph {samples[number].graph.id!r} of the {name} split has {nodes:,} nodes: {work} alone needs about "
            f"{needed / 1e9:.1f} GB, and {self.free / 1e9:.1f} GB are free; {hint and f'{hint}, '}leave it out, "
            f"lower model.edge_width ({config.model.edge_width}) or model.num_layers ({config.model.num_layers}), "
            f"or {smaller}"
        )

    def _evaluation(self, sizes: NDArray[np.int64]) -> tuple[float, float]:
        """Return bytes of the most expensive batch without gradients, and bytes per pair of the smallest graph."""
        how = execution(self.config, self.device, training=False)
        worst = np.sort(sizes)[::-1][: graphs_at_once(self.config.data.batch_size, how.layout)]
        within = np.cumsum(worst**2) <= evaluation_budget(self.config.data.pair_budget, worst)
        needed = sum(prediction_bytes(self.config, nodes, how) for nodes in worst[within].tolist())
        smallest = int(sizes.min())
        return float(needed), prediction_bytes(self.config, smallest, how) / smallest**2

    def _upper_bound(self, largest: int) -> int:
        """Return bytes that a step could take at most: the plain pair pass on a batch of the largest graphs."""
        model, nodes = self.config.model, largest + 16
        hidden = model.edge_width * model.edge_ffn_multiplier
        per_pair = 4 * (8 * model.edge_width + 4 * hidden + 16 * model.num_heads)
        per_node = 4 * model.node_width * (12 + 4 * model.node_ffn_multiplier)
        batch = self.config.data.batch_size * model.num_layers * (per_pair * nodes**2 + per_node * nodes)
        return round(batch + 5 * 4 * self.parameters)


def edges_per_node(sample: Sample) -> float:
    """Return how many pairs a node of a graph has on lists of edges, except with itself."""
    return float(sample.graph.listed_pairs.shape[1] / sample.graph.num_nodes - 1)


def measure_footprint(
    config: RunConfig, how: Execution, degree: float = 2.0, *, fixed: int = 0, training: bool = True
) -> Footprint:
    """Measure the footprint of a step, or of a pass without gradients, on small graphs. Takes about a second.

    `torch.compile` is too slow to be tried: its code is taken to need what the plain one does.
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
        used.append(np.array([_used_bytes(model, config, batch, how, training=training) for batch in batches]))
    # Without gradients layers follow each other in the same memory.
    foretold = used[0] + factor * (used[-1] - used[0]) if training else used[-1]
    # Only edges are computed on their list; the batches of one size of graphs tell them from nodes.
    known = slice(1, None) if how.layout == "edge_list" else slice(None)
    rates = np.zeros(len(counts))
    rates[known] = np.linalg.solve(np.array(counts, dtype=np.float64)[known, known], foretold[known])
    per_pair, per_node, per_edge = np.maximum(rates[:3], 0.0).tolist()
    return Footprint(fixed, per_pair, per_node + degree * per_edge, how.layout, virtual)


def measure_seconds(
    config: RunConfig, how: Execution, sizes: Sequence[int], degree: float = 2.0
) -> tuple[float, float]:
    """Measure the seconds of a training pass on graphs of these sizes, and of the forward pass alone."""
    keep_freed_memory()  # as training does
    short, long, factor = _depths(config)
    batch = synthetic_batch(config, sizes, how.layout, degree)
    models = [_model(config, depth, how.backend) for depth in dict.fromkeys((short, long))]
    for model in models:
        _time_pass(model, config, batch, how)  # the first pass also pays for threads and buffers
    # In turns, so that a machine that is busy for a while is so for all of them.
    rounds = [[_time_pass(model, config, batch, how) for model in models] for _ in range(_ROUNDS)]
    times = np.min(rounds, axis=0)
    # On a busy machine more layers may have seemed faster; they are not.
    whole, ahead = times[0] + factor * np.maximum(times[-1] - times[0], 0.0)
    return float(whole), float(ahead)


def num_parameters(config: RunConfig) -> int:
    """Count the parameters of a run's model, without allocating it or building all of its layers, which are alike."""
    short, long, factor = _depths(config)
    with unallocated(config):
        counts = [build_model(_shallow(config, depth)).num_parameters() for depth in (short, long)]
    return counts[0] + factor * (counts[1] - counts[0])


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

    degree: edges per node in both directions, as far as a graph of this size can have them. targets: 0 and 1 in turn.
    """
    reach = np.arange(1, 1 + max(1, min(round(degree / 2), (size - 1) // 2)))
    first = np.repeat(np.arange(size if size > 2 else size - 1), len(reach))
    edges = np.stack([first, (first + np.resize(reach, len(first))) % size])
    features = feature_schema(config.model).draw_features(size, len(first), random)
    graph = Graph.undirected(num_nodes=size, edge_index=edges, **features)
    if not targets:
        return graph
    level, width = config.model.level, config.task.label_width
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
    return config.replace(model={"num_layers": depth})


def trial_loss(model: EGT, config: RunConfig, batch: GraphBatch) -> Tensor:
    """Sum the squares of the answers and the auxiliary losses, by the way that training takes."""
    auxiliary = config.task.auxiliary
    x = model.encode(batch) if auxiliary else None
    loss: Tensor = (model(batch) if x is None else model.read(x)).square().sum()
    for objective in auxiliary:
        assert x is not None
        loss = loss + objective.loss(model.auxiliary[objective.kind], x, batch)
    return loss


def _used_bytes(model: EGT, config: RunConfig, batch: GraphBatch, how: Execution, *, training: bool = True) -> float:
    """Count the bytes that a pass takes at its peak beside parameters and gradients, with the batch itself."""
    batch = batch.to("cpu")  # whose layout has not computed its indices yet
    with LiveBytes(model.parameters()) as live:
        values = [getattr(batch, field.name) for field in fields(batch)]
        for value in (*values, *batch.node.values(), *batch.pair.values()):
            if isinstance(value, Tensor):
                live.watch(value)
        if training:
            for parameter in model.parameters():
                parameter.register_post_accumulate_grad_hook(lambda each: setattr(each, "grad", None))
            _trial_step(model, config, batch, how)
        else:
            with torch.inference_mode():
                model.eval()(batch)
    return float(live.pool_peak + _HEAP_GAPS * live.heap_peak)


def _trial_step(model: EGT, config: RunConfig, batch: GraphBatch, how: Execution) -> None:
    """Run forward and backward, in half precision if training does; both kinds of it take the same memory."""
    with torch.autocast("cpu", torch.bfloat16, enabled=how.dtype != torch.float32):
        loss = trial_loss(model.train(), config, batch)
    loss.backward()


def _time_pass(model: EGT, config: RunConfig, batch: GraphBatch, how: Execution) -> tuple[float, float]:
    """Measure the seconds of a training pass, and of a forward pass without gradients."""
    started = time.perf_counter()
    _trial_step(model, config, batch, how)
    whole = time.perf_counter() - started
    model.zero_grad(set_to_none=True)
    model.eval()
    started = time.perf_counter()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=how.dtype != torch.float32):
        model(batch)
    return whole, time.perf_counter() - started
