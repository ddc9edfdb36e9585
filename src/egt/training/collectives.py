"""Sums and gatherings over all processes of a run; what was given, when there is only one."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

T = TypeVar("T")


def num_processes() -> int:
    """How many processes train together."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def total(values: Tensor) -> Tensor:
    """The sum over all processes, the same in each."""
    if num_processes() > 1:
        values = values.clone()
        distributed.all_reduce(values)
    return values


def gather(value: T) -> list[T]:
    """The values of all processes, in order of rank, the same in each."""
    if num_processes() == 1:
        return [value]
    values: list[Any] = [None] * num_processes()
    distributed.all_gather_object(values, value)
    return values


def counts(device: torch.device, *values: float) -> list[float]:
    """Totals of plain numbers over all processes; they travel on `device`."""
    if num_processes() == 1:
        return list(values)
    sums: list[float] = total(torch.tensor(values, dtype=torch.float64, device=device)).tolist()
    return sums
