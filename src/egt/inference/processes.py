"""Several processes that predict together, as torchrun starts them: each computes its share, and all get everything."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import distributed

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """Which of how many processes this is, in all and on this machine; alone by default."""

    rank: int = 0
    count: int = 1
    local_rank: int = 0

    def gather(self, value: T) -> list[T]:
        """The values of all processes, in order of rank."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        distributed.all_gather_object(values, value)
        return values


def join_processes() -> Processes:
    """The processes that a launcher has started with this one (`torchrun --nproc-per-node 2 -m egt predict ...`)."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        return Processes()
    if not distributed.is_initialized():
        distributed.init_process_group("gloo")
    return Processes(distributed.get_rank(), count, int(os.environ.get("LOCAL_RANK", "0")))


def device_of(processes: Processes) -> torch.device:
    """Where a process computes: each process of a machine on its own GPU (in turn, if there are fewer), or on the CPU.

    A launcher may show each process one GPU only; then that is its own.
    """
    found = torch.accelerator.current_accelerator(check_available=True)
    if found is None:
        return torch.device("cpu")
    return torch.device(found.type, processes.local_rank % torch.accelerator.device_count())


def leave_processes() -> None:
    """Part from the other processes, if there are any."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()
