"""What a run will need, before it starts: parameters, memory and time, from the sizes of its graphs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from egt.config.run import RunConfig
from egt.config.run_data import in_pieces, open_source, preparation
from egt.data.batching.batch import LayoutName
from egt.data.batching.loader import graph_sizes
from egt.data.benchmark import BENCHMARKS
from egt.data.encodings.encoding import Sample
from egt.data.source import DataCard, Source
from egt.data.store import Store, cache_folder, store_name
from egt.errors import DataError
from egt.inference.backends import Execution, available_memory, share_of_batch
from egt.training.memory import Memory, edges_per_node, measure_seconds

_PROCESS_BYTES = 600_000_000  # what Python and torch take before any model
_MEASURED_PAIRS = 60_000
_SAMPLED = 300
_CONCENTRATION = 8.0  # of the Beta distribution that stands for unknown sizes: like molecules and block models
_ADAM_BYTES_PER_SECOND = 2e9
_BATCHES_DRAWN = 100


@dataclass(frozen=True)
class Plan:
    """The cost of a run: of `num_graphs` training graphs, on the device where it computes.

    Memory is that of the training process (on a GPU: there). The time is measured on the CPU of this machine all the
    same. Of pairs as many are computed `pairs_at_once`, 0 where only edges are.
    """

    parameters: int
    peak_memory_bytes: int
    available_memory_bytes: int
    seconds_per_epoch: float
    steps_per_epoch: int
    epochs: float
    num_graphs: int
    mean_nodes: float
    largest_nodes: int
    pairs_at_once: int
    layout: LayoutName
    backend: str
    device: str
    sizes_from: str


@dataclass(frozen=True)
class Sizes:
    """What is known of the graphs of a run without preparing them.

    Fields:
        train: numbers of nodes that are like those of the training graphs.
        counts: split -> number of graphs.
        origin: where this is from.
        evaluated: The largest numbers of nodes of graphs that are only evaluated, where graphs are cut into pieces.
        process_bytes: Memory of a process that has read the data, where it was measured.
    """

    train: NDArray[np.int64]
    degree: float
    counts: Mapping[str, int]
    origin: str
    evaluated: Mapping[float, int] = field(default_factory=dict)
    process_bytes: int = _PROCESS_BYTES


def plan(config: RunConfig) -> Plan:
    """Parameters, memory and time of a run; takes some seconds, and needs no data where a card knows its sizes."""
    memory = Memory(config)
    sizes = known_sizes(config)
    on_cpu = memory.device.type == "cpu"
    footprint, random = memory.footprint(sizes.degree), np.random.default_rng(0)
    share = min(share_of_batch(config), len(sizes.train))
    batches = [random.choice(sizes.train, share) for _ in range(_BATCHES_DRAWN)]
    parts = [footprint.largest_part(batch, config.data.pair_budget) for batch in batches]
    batch_bytes = max(size for size, _ in parts)
    for degree, nodes in sizes.evaluated.items():
        evaluated = memory.footprint(degree, training=False)
        batch_bytes = max(batch_bytes, float(evaluated.graphs(np.array(nodes))))
    steps = -(-sizes.counts["train"] // (config.data.batch_size * config.trainer.accumulate))
    limits = config.trainer
    by_steps = float("inf") if limits.max_steps is None else limits.max_steps / max(steps, 1)
    return Plan(
        parameters=memory.parameters,
        peak_memory_bytes=round(sizes.process_bytes * on_cpu + memory.fixed + batch_bytes),
        available_memory_bytes=available_memory(memory.device),
        seconds_per_epoch=_seconds(config, memory.how, sizes) + steps * 28 * memory.parameters / _ADAM_BYTES_PER_SECOND,
        steps_per_epoch=steps,
        epochs=min(float(limits.max_epochs or float("inf")), by_steps),
        num_graphs=sizes.counts["train"],
        mean_nodes=float(sizes.train.mean()),
        largest_nodes=int(sizes.train.max()),
        pairs_at_once=max(pairs for _, pairs in parts),
        layout=memory.how.layout,
        backend=memory.how.backend.name,
        device=memory.device.type,
        sizes_from=sizes.origin,
    )


def known_sizes(config: RunConfig) -> Sizes:
    """Return what is known of the graphs without preparing them."""
    try:
        source = open_source(config)
    except DataError:
        if config.data.source not in BENCHMARKS:
            raise
        card = BENCHMARKS.get(config.data.source).card
        counts = dict(card.split_sizes)
        counts["train"] = max(1, round(config.data.train_share * counts["train"]))
        return Sizes(card_sizes(card), _degree(card), counts, "the data card")
    if config.data.pieces is not None:
        return _piece_sizes(config, source)
    counts, degree = dict(source.card.split_sizes), _degree(source.card)
    prepared = cache_folder(None) / store_name(source, "train", preparation(config))
    with suppress(DataError):  # none are prepared, or they are damaged: training prepares them again
        return Sizes(Store(prepared, preparation(config)).sizes, degree, counts, "the prepared graphs")
    if source.is_generated:
        return Sizes(card_sizes(source.card), degree, counts, "the data card")
    return Sizes(_sample_sizes(source), degree, counts, "a sample of the graphs")


def _piece_sizes(config: RunConfig, source: Source) -> Sizes:
    """Return the sizes of the pieces of graphs that are read but not prepared, of each split."""
    splits: dict[str, Sequence[Sample]] = {}
    for split in ("train", "val", "test"):
        graphs = [source.read(record).graph for record in source.records(split)]
        samples = [Sample(graph) for graph in graphs if graph is not None]
        splits[split] = in_pieces(config, samples, training=split == "train")
    train = splits["train"]
    if not len(train):
        raise DataError(f"{source.card.title}: none of the training graphs can be read")
    degree = edges_per_node(train[0])
    evaluated: dict[float, int] = {}
    for split in ("val", "test"):
        if len(splits[split]):
            piece = splits[split][0]  # the last one alone may be smaller
            evaluated[edges_per_node(piece)] = piece.graph.num_nodes
    counts = {split: len(pieces) for split, pieces in splits.items()}
    sizes = graph_sizes(train)
    return Sizes(sizes, degree, counts, "the pieces of the graphs", evaluated, max(_resident_bytes(), _PROCESS_BYTES))


def _resident_bytes() -> int:
    """Return the memory of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _degree(card: DataCard) -> float:
    return card.mean_edges / max(card.num_nodes[1], 1.0)


def card_sizes(card: DataCard, count: int = 2_000) -> NDArray[np.int64]:
    """Draw plausible sizes for the smallest, mean and largest one, from a scaled Beta distribution."""
    low, mean, high = card.num_nodes
    if high <= low:
        return np.full(count, high, np.int64)
    middle = (mean - low) / (high - low)
    shares = np.random.default_rng(0).beta(middle * _CONCENTRATION, (1 - middle) * _CONCENTRATION, count)
    sizes: NDArray[np.int64] = np.rint(low + (high - low) * shares).astype(np.int64)
    sizes[-1] = high
    sizes[sizes < 1] = 1
    return sizes


def _sample_sizes(source: Source) -> NDArray[np.int64]:
    records = source.records("train")
    chosen = np.unique(np.linspace(0, len(records) - 1, min(len(records), _SAMPLED)).astype(int))
    readings = (source.read(records[k]) for k in chosen.tolist())
    sizes = [reading.graph.num_nodes for reading in readings if reading.graph is not None]
    if not sizes:
        raise DataError(f"{source.card.title}: none of {len(chosen)} training graphs that were tried can be read")
    return np.array(sizes, np.int64)


def _seconds(config: RunConfig, how: Execution, known: Sizes) -> float:
    """Forward and backward passes of an epoch and its validation, from those of some graphs of typical sizes."""
    sizes = known.train
    count = max(1, min(config.data.batch_size, 64, int(_MEASURED_PAIRS / (sizes**2).mean())))
    typical = np.quantile(sizes, (np.arange(count) + 0.5) / count).astype(np.int64)
    if how.layout == "padded":  # a batch is split into groups of like size
        typical = np.full_like(typical, round(float(np.sqrt((typical**2).mean()))))
    whole, ahead = measure_seconds(config, how, typical.tolist(), known.degree)
    power = 1.0 if how.layout == "edge_list" else 2.0
    work = float((sizes**power).mean() / (typical**power).mean()) / len(typical)
    return work * (whole * known.counts.get("train", 0) + ahead * known.counts.get("val", 0))
