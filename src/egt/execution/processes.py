"""The processes that work together: which of them this is, and what they tell each other.

torchrun and Slurm start processes and describe them in environment variables; `egt.execution.spawn` does the same on
one machine. Nothing else in the package reads these variables.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from egt.execution.interruption import ending_at_once

if TYPE_CHECKING:
    import torch

    from egt.config.run import RunConfig, TrainerConfig


T = TypeVar("T")

_INTERACTIVE = ("bash", "interactive")
"""Names of Slurm jobs that are a shell: what is typed there was not started by srun."""


@dataclass(frozen=True)
class Processes:
    """Which of how many processes this is, in all and on this machine; alone by default."""

    rank: int = 0
    count: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this process speaks and writes for all."""
        return self.rank == 0

    def gather(self, value: T) -> list[T]:
        """Return the values of all processes, in order of rank, the same in each."""
        if self.count == 1:
            return [value]
        from torch import distributed

        values: list[Any] = [None] * self.count
        distributed.all_gather_object(values, value)
        return values

    def total(self, *values: float) -> list[float]:
        """Return the sums of plain numbers over all processes, the same in each."""
        if self.count == 1:
            return list(values)
        import torch

        sums = torch.tensor(values, dtype=torch.float64)
        torch.distributed.all_reduce(sums)
        totals: list[float] = sums.tolist()
        return totals

    def wait(self) -> None:
        """Return when all processes have come here."""
        self.total(0.0)


ALONE = Processes()


def launched() -> Processes | None:
    """Find the processes that torchrun, Slurm or `egt.execution.spawn` started with this one; None if none did."""
    found = os.environ
    if "LOCAL_RANK" in found:
        count, local_rank = int(found.get("WORLD_SIZE", "1")), int(found["LOCAL_RANK"])
        before = int(found.get("NODE_RANK", "0")) * int(found.get("LOCAL_WORLD_SIZE", count))
        return Processes(int(found.get("RANK", before + local_rank)), count, local_rank)
    if "SLURM_PROCID" in found and "SLURM_NTASKS" in found and found.get("SLURM_JOB_NAME") not in _INTERACTIVE:
        count = int(found.get("SLURM_STEP_NUM_TASKS", found["SLURM_NTASKS"]))
        return Processes(int(found["SLURM_PROCID"]), count, int(found.get("SLURM_LOCALID", "0")))
    return None


def is_first() -> bool:
    """Whether this process speaks and writes for all that a launcher has started; true where there are no others."""
    return (launched() or ALONE).is_first


def join_processes(device: torch.device | None = None) -> Processes:
    """Meet the processes that a launcher has started (`torchrun --nproc-per-node 2 -m egt predict ...`).

    Args:
        device: where tensors are that travel between them; numbers and objects always travel over the CPU.
    """
    processes = launched() or ALONE
    if processes.count == 1:
        return processes
    from torch import distributed

    os.environ.setdefault("MASTER_ADDR", _first_machine())
    os.environ.setdefault("MASTER_PORT", str(15_000 + int(os.environ.get("SLURM_JOB_ID", "0")[-4:])))
    backend = "cpu:gloo"
    if device is not None and device.type != "cpu":
        backend += f",{device.type}:{distributed.get_default_backend_for_device(device)}"
    with ending_at_once("while waiting for the other processes"):
        distributed.init_process_group(backend, rank=processes.rank, world_size=processes.count)
    return processes


def leave_processes() -> None:
    """Part from the other processes, if there are any. After an error they may never answer: then just end."""
    if (launched() or ALONE).count > 1:
        from torch import distributed

        distributed.destroy_process_group()


def _first_machine() -> str:
    """Return the first machine of a Slurm job: "node[07-09,12]" is node07."""
    names = os.environ.get("SLURM_STEP_NODELIST", os.environ.get("SLURM_NODELIST", "127.0.0.1"))
    return re.sub(r"\[([^,\-\]]*)[^\]]*\]", r"\1", names).split(",")[0]


def device_of(processes: Processes = ALONE, accelerator: str = "auto") -> torch.device:
    """Where a process computes: each process of a machine on its own GPU (in turn, if there are fewer), or on the CPU.

    A launcher may show each process one GPU only; then that is its own.

    Args:
        processes: which of them this is.
        accelerator: "cpu" leaves the GPUs alone.
    """
    import torch

    found = None if accelerator == "cpu" else torch.accelerator.current_accelerator(check_available=True)
    if found is None:
        return torch.device("cpu")
    return torch.device(found.type, processes.local_rank % torch.accelerator.device_count())


def num_devices(settings: TrainerConfig) -> int:
    """Return how many processes train on this machine."""
    import torch

    if settings.devices != "auto":
        return settings.devices
    return torch.cuda.device_count() if has_cuda(settings) else 1


def has_cuda(settings: TrainerConfig) -> bool:
    """Return whether a run computes on NVIDIA GPUs."""
    import torch

    return torch.cuda.is_available() and settings.accelerator in ("auto", "gpu", "cuda")


def share_of_batch(config: RunConfig) -> int:
    """Return the most graphs of a batch that one process computes."""
    return -(-config.data.batch_size // (num_devices(config.trainer) * config.trainer.num_nodes))
