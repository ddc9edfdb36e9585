"""What a process computes on, and how many processes that makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from egt.execution.processes import ALONE, Processes

if TYPE_CHECKING:
    from egt.config.run import RunConfig, TrainerConfig


def device_of(processes: Processes = ALONE, accelerator: str = "auto") -> torch.device:
    """Where a process computes: each process of a machine on its own GPU (in turn, if there are fewer), or on the CPU.

    A launcher may show each process one GPU only; then that is its own.

    Args:
        processes: which of them this is.
        accelerator: "cpu" leaves the GPUs alone.
    """
    found = None if accelerator == "cpu" else torch.accelerator.current_accelerator(check_available=True)
    if found is None:
        return torch.device("cpu")
    return torch.device(found.type, processes.local_rank % torch.accelerator.device_count())


def num_devices(settings: TrainerConfig) -> int:
    """How many processes train on this machine."""
    if settings.devices != "auto":
        return settings.devices
    return torch.cuda.device_count() if has_cuda(settings) else 1


def has_cuda(settings: TrainerConfig) -> bool:
    """Whether a run computes on NVIDIA GPUs."""
    return torch.cuda.is_available() and settings.accelerator in ("auto", "gpu", "cuda")


def share_of_batch(config: RunConfig) -> int:
    """The most graphs of a batch that one process computes."""
    return -(-config.data.batch_size // (num_devices(config.trainer) * config.trainer.num_nodes))
