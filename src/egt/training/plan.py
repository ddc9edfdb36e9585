"""What a run will need, before it starts: parameters, memory and time, from the sizes of its graphs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from egt.assemble import preparation
from egt.batching.batch import LayoutName
from egt.batching.groups import split
from egt.config.run import RunConfig
from egt.encodings.store import Store
from egt.encodings.store.place import cache_folder, store_name
from egt.errors import DataError
from egt.inference.data import open_source
from egt.inference.memory import available_memory
from egt.sources.generated import GeneratedSource
from egt.sources.registry import BENCHMARKS
from egt.sources.source import DataCard, Source
from egt.training.footprint import Footprint, measure_footprint, measure_seconds

_PROCESS_BYTES = 630_000_000
"""What Python, torch and Lightning take before any model."""
_MEASURED_PAIRS = 60_000
_SAMPLED = 300
_CONCENTRATION = 8.0
"""Of the Beta distribution that stands for unknown sizes: like molecules and block models."""
_ADAM_BYTES_PER_SECOND = 2e9
_BATCHES_DRAWN = 100

Sizes = NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """The cost of a run.

    Fields:
        parameters: that are learned.
        peak_memory_bytes: of the training process (on a GPU: there).
        available_memory_bytes: that are free now.
        seconds_per_epoch: training and validation.
        steps_per_epoch: optimizer steps.
        epochs: until the run ends.
        num_graphs: of the training split.
        mean_nodes, largest_nodes: of its graphs.
        pairs_at_once: the most pairs that are computed at once; 0 where only edges are.
        sizes_from: where the sizes of graphs are known from.
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
    sizes_from: str


def plan(config: RunConfig) -> Plan:
    """Parameters, memory and time of a run; takes some seconds, and needs no data where a card knows its sizes."""
    sizes, counts, origin = known_sizes(config)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    footprint = measure_footprint(config)
    batch_bytes, pairs = _worst_batch(config, sizes, footprint)
    steps = -(-counts["train"] // (config.data.batch_size * config.trainer.accumulate))
    limits = config.trainer
    by_steps = float("inf") if limits.max_steps is None else limits.max_steps / max(steps, 1)
    return Plan(
        parameters=footprint.parameters,
        peak_memory_bytes=round(_PROCESS_BYTES * (device.type == "cpu") + footprint.fixed + batch_bytes),
        available_memory_bytes=available_memory(device),
        seconds_per_epoch=_seconds(config, sizes, counts) + steps * 28 * footprint.parameters / _ADAM_BYTES_PER_SECOND,
        steps_per_epoch=steps,
        epochs=min(float(limits.max_epochs or float("inf")), by_steps),
        num_graphs=counts["train"],
        mean_nodes=float(sizes.mean()),
        largest_nodes=int(sizes.max()),
        pairs_at_once=pairs,
        sizes_from=origin,
    )


def known_sizes(config: RunConfig) -> tuple[Sizes, dict[str, int], str]:
    """Numbers of nodes that are like those of the training graphs, the sizes of the splits, and where both are from."""
    try:
        source = open_source(config)
    except DataError:
        if config.data.source not in BENCHMARKS:
            raise
        card = BENCHMARKS[config.data.source].card
        return card_sizes(card), dict(card.split_sizes), "the data card"
    counts = dict(source.card.split_sizes)
    prepared = cache_folder(None) / store_name(source, "train", preparation(config))
    if prepared.is_dir():
        return Store(prepared, preparation(config)).sizes, counts, "the prepared graphs"
    if isinstance(source, GeneratedSource):
        return card_sizes(source.card), counts, "the data card"
    return _sampled(source), counts, "a sample of the graphs"


def card_sizes(card: DataCard, count: int = 2_000) -> Sizes:
    """Plausible sizes from the smallest, mean and largest one: quantiles of a scaled Beta distribution."""
    from scipy.stats import beta

    low, mean, high = card.num_nodes
    if high <= low:
        return np.full(count, high, np.int64)
    middle = (mean - low) / (high - low)
    shares = beta.ppf((np.arange(count) + 0.5) / count, middle * _CONCENTRATION, (1 - middle) * _CONCENTRATION)
    sizes: Sizes = np.rint(low + (high - low) * shares).astype(np.int64)
    sizes[-1] = high
    sizes[sizes < 1] = 1
    return sizes


def _sampled(source: Source) -> Sizes:
    records = source.records("train")
    chosen = np.unique(np.linspace(0, len(records) - 1, min(len(records), _SAMPLED)).astype(int))
    readings = (source.read(records[k]) for k in chosen.tolist())
    sizes = [reading.graph.num_nodes for reading in readings if reading.graph is not None]
    if not sizes:
        raise DataError(f"{source.card.title}: none of {len(chosen)} training graphs that were tried can be read")
    return np.array(sizes, np.int64)


def _worst_batch(config: RunConfig, sizes: Sizes, footprint: Footprint) -> tuple[float, int]:
    """Bytes and pairs of the most expensive part of a batch, over batches drawn at random."""
    random = np.random.default_rng(0)
    layout: LayoutName = "packed" if config.data.layout == "auto" else config.data.layout
    worst, pairs = 0.0, 0
    for _ in range(_BATCHES_DRAWN):
        batch = random.choice(sizes, min(config.data.batch_size, len(sizes)))
        for group in split(batch, layout, config.data.pair_budget):
            members = np.full(len(group), batch[group].max()) if layout == "padded" else batch[group]
            worst = max(worst, float(footprint.graphs(members).sum()))
            pairs = max(pairs, 0 if layout == "edge_list" else int((members**2).sum()))
    return worst, pairs


def _seconds(config: RunConfig, sizes: Sizes, counts: dict[str, int]) -> float:
    """Forward and backward passes of an epoch and its validation, from those of some graphs of typical sizes."""
    typical = np.sort(np.random.default_rng(0).choice(sizes, min(config.data.batch_size, 64)))
    while len(typical) > 1 and int((typical**2).sum()) > _MEASURED_PAIRS:
        typical = typical[::2]
    whole, ahead = measure_seconds(config, typical.tolist())
    work = float((sizes.astype(np.float64) ** 2).mean() / (typical.astype(np.float64) ** 2).mean())
    per_graph = work / len(typical)
    return per_graph * (whole * counts.get("train", 0) + ahead * counts.get("val", 0))
