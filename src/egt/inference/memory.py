"""How much memory there is, and how much a graph needs to be predicted."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from egt.config.run import RunConfig

_USABLE = 0.9
"""Of the memory that is free now, the share that a run may plan with."""


def available_memory(device: torch.device | str = "cpu") -> int:
    """Bytes that can be allocated on a device now without swapping."""
    device = torch.device(device)
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] * _USABLE)
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):  # not Linux: all there is
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(_USABLE * min(free, _allowed()))


def _allowed() -> int:
    """The memory that the container of this process may still take, if it has a limit."""
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        kept = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no container, or no limit ("max")
        return 2**62
    return limit - used + int(kept.get("inactive_file", 0))  # files kept in memory give way


def prediction_bytes_per_pair(config: RunConfig) -> int:
    """Bytes that one pair of nodes needs at the peak of a layer without gradients.

    Alive at once are e, its norm and its update, the hidden row of the edge feed-forward block, and for each head the
    logits, softmax, gates and their product; and the inputs of the pair terms (a reachability stack is the widest).
    """
    model = config.model
    hidden = round(model.edge_width * model.edge_ffn_multiplier)
    inputs = max((getattr(term, "num_hops", 1) for term in model.pair_inputs), default=1)
    return 4 * max(3 * model.edge_width + 2 * hidden + 4 * model.num_heads, 2 * model.edge_width + inputs)


def too_large(config: RunConfig, num_nodes: int, device: torch.device) -> str:
    """Why a graph cannot be predicted in the memory there is; "" if it can."""
    model = config.model
    if config.data.layout == "edge_list":  # nothing of size N^2 exists
        return ""
    virtual = model.readout.num_virtual if model.readout.kind == "virtual_nodes" else 0
    needed = (num_nodes + virtual) ** 2 * prediction_bytes_per_pair(config)
    free = available_memory(device)
    if needed <= free:
        return ""
    return (
        f"the graph has {num_nodes:,} nodes; its {num_nodes**2:,} pairs need about {needed / 1e9:.1f} GB, "
        f"and {free / 1e9:.1f} GB are free"
    )
