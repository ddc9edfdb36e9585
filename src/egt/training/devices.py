"""What a run computes on: whether this machine has it, and how many processes that makes."""

from __future__ import annotations

import torch

from egt.config.run import RunConfig, TrainerConfig
from egt.errors import ConfigError


def check_devices(settings: TrainerConfig) -> None:
    """Raise a `ConfigError` where the machine does not have what the run asks for."""
    there = {"gpu": torch.cuda.is_available() or torch.backends.mps.is_available()}
    there |= {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(settings.accelerator, True):
        raise ConfigError(
            f"trainer.accelerator is {settings.accelerator}, and PyTorch finds none on this machine; "
            "use auto or cpu, or install the PyTorch that fits your GPU"
        )
    if settings.precision == "16" and not _has_cuda(settings):
        raise ConfigError("trainer.precision 16 needs a GPU; on a CPU use bf16 or 32")
    if _has_cuda(settings) and settings.devices != "auto" and settings.devices > torch.cuda.device_count():
        raise ConfigError(
            f"trainer.devices is {settings.devices}, and this machine has {torch.cuda.device_count()} GPUs; "
            "lower it, or set trainer.accelerator to cpu"
        )


def num_devices(settings: TrainerConfig) -> int:
    """How many processes train on this machine."""
    if settings.devices != "auto":
        return settings.devices
    return torch.cuda.device_count() if _has_cuda(settings) else 1


def device_of(config: RunConfig) -> torch.device:
    """Where a run will be trained."""
    return torch.device("cuda" if _has_cuda(config.trainer) else "cpu")


def share_of_batch(config: RunConfig) -> int:
    """The most graphs of a batch that one process computes."""
    return -(-config.data.batch_size // (num_devices(config.trainer) * config.trainer.num_nodes))


def _has_cuda(settings: TrainerConfig) -> bool:
    return torch.cuda.is_available() and settings.accelerator in ("auto", "gpu", "cuda")
