"""A run that fits into the memory there is: checked, and its batches split, before anything is allocated."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
import torch

from egt.config.run import RunConfig
from egt.encodings.store import Store
from egt.errors import ConfigError
from egt.inference.memory import available_memory
from egt.training.footprint import Footprint, measure_footprint

log = logging.getLogger(__name__)

_SURELY_ENOUGH = 16
"""A run whose batches need less than 1/16 of the free memory by a crude upper bound is not measured."""


def fit_into_memory(config: RunConfig, stores: Mapping[str, Store]) -> RunConfig:
    """The run as it is if its batches fit into memory, else with a `data.pair_budget` under which they do.

    Raises:
        ConfigError: a single graph does not fit; it is named, with the settings that help.
    """
    if config.data.layout == "edge_list":  # nothing of size N^2 exists
        return config
    train = stores["train"].sizes
    processes = config.trainer.devices if isinstance(config.trainer.devices, int) else 1
    device = "cuda" if torch.cuda.is_available() and config.trainer.accelerator != "cpu" else "cpu"
    free = available_memory(device) // (processes if device == "cpu" else 1)
    if _upper_bound(config, int(train.max())) * _SURELY_ENOUGH < free:
        return config
    footprint = measure_footprint(config)
    for name, store in stores.items():
        _check_largest(config, footprint, name, store, free)
    needed = _largest_batch(config, footprint, np.sort(train)[::-1])
    if footprint.fixed + needed <= free:
        return config
    largest = int(train.max())
    per_pair = float(np.max(footprint.graphs(train) / train**2))  # small graphs have more nodes for their pairs
    budget = max(int((free - footprint.fixed) / per_pair), largest**2)
    log.warning(
        "a batch of %d graphs may need %.1f GB, and %.1f GB are free: it is computed in parts of at most %s pairs "
        "(data.pair_budget); the result is that of the whole batch",
        config.data.batch_size,
        (footprint.fixed + needed) / 1e9,
        free / 1e9,
        f"{budget:,}",
    )
    return config.model_copy(update={"data": config.data.model_copy(update={"pair_budget": budget})})


def _check_largest(config: RunConfig, footprint: Footprint, name: str, store: Store, free: int) -> None:
    number = int(np.argmax(store.sizes))
    nodes = int(store.sizes[number])
    needed = footprint.fixed + float(footprint.graphs(np.array([nodes]))[0])
    if name == "train" and needed > free:
        raise ConfigError(
            f"graph {store[number].graph.id!r} of the {name} split has {nodes:,} nodes: a training step on it alone "
            f"needs about {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free; leave it out, or lower "
            f"model.edge_width ({config.model.edge_width}) or model.num_layers ({config.model.num_layers})"
        )


def _largest_batch(config: RunConfig, footprint: Footprint, sizes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    """Bytes of the worst batch that can be drawn and computed at once. sizes: largest first."""
    worst = sizes[: config.data.batch_size]
    if config.data.pair_budget is not None:
        within = np.cumsum(worst**2) <= max(config.data.pair_budget, int(worst[0]) ** 2)
        worst = worst[: max(int(within.sum()), 1)]
    return float(footprint.graphs(worst).sum())


def _upper_bound(config: RunConfig, largest: int) -> int:
    """Bytes that the plain pair pass could keep at most for a batch of the largest graphs."""
    model = config.model
    hidden = model.edge_width * model.edge_ffn_multiplier
    per_pair = 4 * (8 * model.edge_width + 4 * hidden + 16 * model.num_heads)
    per_node = 4 * model.node_width * (12 + 4 * model.node_ffn_multiplier)
    nodes = largest + 16
    return round(config.data.batch_size * model.num_layers * (per_pair * nodes**2 + per_node * nodes))
