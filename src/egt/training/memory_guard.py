"""A run that fits into the memory there is: checked, and its batches split, before anything is allocated."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from egt.config.run import RunConfig
from egt.data.batching.loader import graph_sizes
from egt.data.encodings.encoding import Sample
from egt.data.source import DataCard
from egt.errors import ConfigError, counted
from egt.inference.backends import Execution, available_memory, execution, prediction_bytes, recompute_hint
from egt.inference.forward import evaluation_budget, graphs_at_once
from egt.processes import device_of, num_devices, share_of_batch
from egt.training.footprint import Footprint, measure_footprint, num_copies, num_parameters

log = logging.getLogger(__name__)

_SURELY_ENOUGH = 16
"""A run that needs less than 1/16 of the free memory by a crude upper bound is not measured."""


def fit_into_memory(config: RunConfig, stores: Mapping[str, Sequence[Sample]]) -> RunConfig:
    """Return the run, unchanged if its batches fit into memory, else with a `data.pair_budget` under which they do.

    Raises:
        ConfigError: the model, a single graph of any split, or a batch that cannot be split, does not fit; it is named,
            with the settings that help.
    """
    device = device_of(accelerator=config.trainer.accelerator)
    how = execution(config, device)
    free = _free(config, device)
    check_model(config)
    largest = max(int(graph_sizes(store).max()) for store in stores.values())
    if _upper_bound(config, largest) * _SURELY_ENOUGH < free:
        return config
    train, sizes = stores["train"], graph_sizes(stores["train"])
    graph = train[int(np.argmax(sizes))].graph
    footprint = measure_footprint(config, how, graph.listed_pairs.shape[1] / graph.num_nodes - 1)
    evaluated = execution(config, device, training=False)
    for name, store in stores.items():
        _check_largest(config, footprint, how if name == "train" else evaluated, name, store, free)
    worst = np.sort(sizes)[::-1][: share_of_batch(config)]
    needed = footprint.fixed + footprint.largest_part(worst, config.data.pair_budget)[0]
    rates = [] if needed <= free else [float(np.max(footprint.graphs(sizes) / sizes**2))]
    for store in (store for name, store in stores.items() if name != "train"):
        needed_there, rate = _evaluation(config, evaluated, store)
        if footprint.fixed + needed_there > free:
            needed, rates = max(needed, footprint.fixed + needed_there), [*rates, rate]
    if not rates:
        return config
    if how.layout == "edge_list":
        raise ConfigError(
            f"a batch of {counted(config.data.batch_size, 'graph')} needs about {needed / 1e9:.1f} GB on its lists of "
            f"edges, and {free / 1e9:.1f} GB are free; lower data.batch_size (trainer.accumulate keeps the step the "
            "same)"
        )
    budget = max(int((free - footprint.fixed) / max(rates)), int(worst[0]) ** 2)
    hint = recompute_hint(config, how.backend.name)
    log.warning(
        "a batch of %d graphs may need %.1f GB, and %.1f GB are free: it is computed in parts of at most %s pairs "
        "(data.pair_budget); the result is that of the whole batch%s",
        config.data.batch_size,
        needed / 1e9,
        free / 1e9,
        f"{budget:,}",
        hint and f". Larger parts fit if you {hint}",
    )
    return config.model_copy(update={"data": config.data.model_copy(update={"pair_budget": budget})})


def _free(config: RunConfig, device: torch.device) -> int:
    """Return bytes that each process of a run may use."""
    return available_memory(device) // (num_devices(config.trainer) if device.type == "cpu" else 1)


def check_model(config: RunConfig) -> None:
    """Raise a `ConfigError` if the model and what training keeps of it do not fit into memory; it is not allocated."""
    free = _free(config, device_of(accelerator=config.trainer.accelerator))
    parameters = num_parameters(config)
    needed = 4 * num_copies(config) * parameters
    if needed > free:
        raise ConfigError(
            f"the model has {parameters:,} parameters: with their gradients and the state of the optimizer "
            f"they need {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free; lower model.node_width "
            f"({config.model.node_width}) or model.num_layers ({config.model.num_layers})"
        )


def _check_largest(
    config: RunConfig, footprint: Footprint, how: Execution, name: str, store: Sequence[Sample], free: int
) -> None:
    """Check that the largest graph of a split fits by itself into a training step or a pass without gradients."""
    hint = ""
    sizes = graph_sizes(store)
    number = int(np.argmax(sizes))
    nodes = int(sizes[number])
    if name == "train":
        needed, work = footprint.fixed + float(footprint.graphs(np.array([nodes]))[0]), "a training step on it"
        hint = recompute_hint(config, how.backend.name)
    else:
        needed, work = footprint.fixed + float(prediction_bytes(config, nodes, how)), "evaluating it"
    if needed > free:
        raise ConfigError(
            f"graph {store[number].graph.id!r} of the {name} split has {nodes:,} nodes: {work} alone needs about "
            f"{needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free; {hint and f'{hint}, '}leave it out, "
            f"lower model.edge_width ({config.model.edge_width}) or model.num_layers ({config.model.num_layers}), "
            f"or {_smaller(config)}"
        )


def _smaller(config: RunConfig) -> str:
    """Say how a run computes less of a graph at once."""
    if config.data.pieces is not None:
        return f"cut smaller pieces: lower data.pieces.roots ({config.data.pieces.roots})"
    if config.data.layout == "edge_list" and config.model.level != "graph":
        return "cut it into pieces: --set data.pieces={}"
    return "attend neighbors only: --set model.scope=neighbors data.layout=edge_list"


def _evaluation(config: RunConfig, how: Execution, store: Sequence[Sample]) -> tuple[float, float]:
    """Return bytes of the most expensive batch of a split without gradients, and bytes per pair of its small graphs."""
    sizes = graph_sizes(store)
    worst = np.sort(sizes)[::-1][: graphs_at_once(config.data.batch_size, how.layout)]
    within = np.cumsum(worst**2) <= evaluation_budget(config.data.pair_budget, worst)
    needed = sum(prediction_bytes(config, nodes, how) for nodes in worst[within].tolist())
    smallest = int(sizes.min())
    return float(needed), prediction_bytes(config, smallest, how) / smallest**2


def _upper_bound(config: RunConfig, largest: int) -> int:
    """Return bytes that a training step could take at most: the plain pair pass on a batch of the largest graphs."""
    model = config.model
    hidden = model.edge_width * model.edge_ffn_multiplier
    per_pair = 4 * (8 * model.edge_width + 4 * hidden + 16 * model.num_heads)
    per_node = 4 * model.node_width * (12 + 4 * model.node_ffn_multiplier)
    nodes = largest + 16
    batch = config.data.batch_size * model.num_layers * (per_pair * nodes**2 + per_node * nodes)
    return round(batch + 5 * 4 * num_parameters(config))


def check_sizes(config: RunConfig, card: DataCard) -> None:
    """Raise a `ConfigError` if the largest graph that the card knows of does not fit even without gradients.

    The message names what does fit: attention between neighbors on lists of edges.
    """
    device = device_of(accelerator=config.trainer.accelerator)
    how, free, largest = execution(config, device, training=False), available_memory(device), int(card.num_nodes[2])
    needed = prediction_bytes(config, largest, how)
    if needed <= free:
        return
    raise ConfigError(
        f"{config.data.source}: a graph has {largest:,} nodes; its {largest**2:,} pairs need about "
        f"{needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free. Attention between neighbors needs only edges and "
        "pairs that are asked about: --set model.scope=neighbors data.layout=edge_list"
    )
