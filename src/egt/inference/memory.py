"""How much memory there is, and how much a graph needs to be predicted."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from egt.config.run import RunConfig
from egt.inference.execution import Execution, execution

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


def prediction_bytes(config: RunConfig, num_nodes: int, how: Execution) -> int:
    """Bytes that a graph needs at the peak of a layer without gradients; 0 where only edges are computed.

    Alive at once are, for each pair, three of the edge channel (e, an input term and their sum; or e, its norm and its
    update; two in the kernel with a single input term) and the indices of virtual nodes; for each node the channel,
    Q|K|V, what the heads gather and the next channel. Without the kernel also the hidden rows of both feed-forward
    blocks twice, and for each pair and head the logits, softmax, gates and their product.
    """
    if how.layout == "edge_list":  # nothing of size N^2 exists
        return 0
    model = config.model
    virtual = model.readout.added_nodes()
    nodes, hidden = num_nodes + virtual, round(model.edge_width * model.edge_ffn_multiplier)
    inputs = max((getattr(term, "num_steps", 1) for term in model.pair_inputs), default=1)
    num_channels = 2 if how.fused and len(model.pair_inputs) == 1 else 3
    per_pair = num_channels * model.edge_width + inputs + (10 if virtual else 2)
    per_node = 6.0 * model.node_width
    if not how.fused:
        per_pair += 2 * hidden + 4 * model.num_heads
        per_node += 2 * model.node_width * model.node_ffn_multiplier
    return round(4 * (per_pair * nodes**2 + per_node * nodes))


def too_large(config: RunConfig, num_nodes: int, device: torch.device) -> str:
    """Why a graph cannot be predicted in the memory there is; "" if it can."""
    needed = prediction_bytes(config, num_nodes, execution(config, device, training=False))
    free = available_memory(device)
    if needed <= free:
        return ""
    return (
        f"the graph has {num_nodes:,} nodes; its {num_nodes**2:,} pairs need about {needed / 1e9:.1f} GB, "
        f"and {free / 1e9:.1f} GB are free"
    )
