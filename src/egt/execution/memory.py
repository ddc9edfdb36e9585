"""How much memory there is, how much a graph needs to be predicted, and how training needs less."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from egt.config.run import RunConfig
from egt.execution.execution import Execution, execution

_USABLE_SHARE = 0.9
"""Of the memory that is free now, the share that a run may plan with."""


def available_memory(device: torch.device | str = "cpu") -> int:
    """Return the bytes that can be allocated on a device now without swapping."""
    device = torch.device(device)
    if device.type == "mps":  # shared with the host, which gives a part of it to the GPU
        return int(_USABLE_SHARE * (torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()))
    if device.type != "cpu":
        return int(_USABLE_SHARE * torch.get_device_module(device).mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):  # not Linux: all there is
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(_USABLE_SHARE * min(free, _container_limit()))


def _container_limit() -> int:
    """Return the memory that the container of this process may still take, if it has a limit."""
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        kept = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no container, or no limit ("max")
        return 2**62
    return limit - used + int(kept.get("inactive_file", 0))  # files kept in memory give way


def prediction_bytes(config: RunConfig, num_nodes: int, how: Execution) -> int:
    """Estimate the bytes that a graph needs at the peak of a layer without gradients; 0 where only edges are computed.

    Args:
        config: the run.
        num_nodes: of the graph.
        how: it is computed.
    """
    if how.layout == "edge_list":  # nothing of size N^2 exists
        return 0
    model = config.model
    nodes = num_nodes + model.readout.added_nodes()
    return round(how.backend.bytes_per_pair(model) * nodes**2 + how.backend.bytes_per_node(model) * nodes)


def recompute_hint(config: RunConfig, backend: str) -> str:
    """Say how the layers of a backend keep less while they train, as a part of a sentence; "" where nothing helps.

    The CPU kernel computes again by itself what it would have to keep.
    """
    if backend != "plain" or config.trainer.recompute:
        return ""
    return "keep only what enters each layer and compute the rest again (--set trainer.recompute=true)"


def too_large(config: RunConfig, num_nodes: int, device: torch.device) -> str:
    """Say why a graph cannot be predicted in the memory there is; "" if it can."""
    needed = prediction_bytes(config, num_nodes, execution(config, device, training=False))
    free = available_memory(device)
    if needed <= free:
        return ""
    return (
        f"the graph has {num_nodes:,} nodes; its {num_nodes**2:,} pairs need about {needed / 1e9:.1f} GB, "
        f"and {free / 1e9:.1f} GB are free"
    )
