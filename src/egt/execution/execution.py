"""How a run is computed on a machine: the layout of its batches, the backend of its layers, and the precision."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass

import torch

from egt.batching.batch import LayoutName
from egt.config.run import RunConfig
from egt.errors import ConfigError
from egt.execution.backends import BACKENDS, Backend

log = logging.getLogger(__name__)

_DTYPES = {"32": torch.float32, "bf16": torch.bfloat16, "16": torch.float16}


@dataclass(frozen=True)
class Execution:
    """What really runs.

    Fields:
        layout: of the batches.
        backend: that computes the layers.
        dtype: of the work inside the layers.
    """

    layout: LayoutName
    backend: Backend
    dtype: torch.dtype = torch.float32


def execution(config: RunConfig, device: torch.device | str = "cpu", *, training: bool = True) -> Execution:
    """Decide how a run is trained on a device, or its model used there.

    Compiler and half precision are for training only. The layout "auto" is packed on a CPU, and padded on GPUs and for
    the compiler, which works on shapes. `trainer.backend` "auto" is the first backend that supports the run; a notice
    says why a CPU is left to another one than its own.

    Raises:
        ConfigError: `trainer.backend` names a backend that does not support the run.
    """
    device = torch.device(device)
    compiled = training and config.trainer.compile
    dtype = _DTYPES[config.trainer.precision] if training else torch.float32
    layout: LayoutName = "packed" if device.type == "cpu" and not compiled else "padded"
    if config.data.layout != "auto":
        layout = config.data.layout
    return Execution(layout, _backend(config, device, dtype, layout), dtype)


def _backend(config: RunConfig, device: torch.device, dtype: torch.dtype, layout: LayoutName) -> Backend:
    chosen = config.trainer.backend
    candidates = [backend for backend in BACKENDS if chosen in ("auto", backend.name)]
    reasons = {backend.title: backend.unsupported(device, dtype, layout) for backend in candidates}
    backend = next((backend for backend in candidates if not reasons[backend.title]), None)
    if backend is None:
        why = "; ".join(f"{title} cannot be used: {reason}" for title, reason in reasons.items())
        raise ConfigError(f"trainer.backend is {chosen!r}, and {why}; leave it at 'auto', or change the run")
    if device.type == "cpu" and config.data.layout == "auto":  # another layout is the user's own choice
        for title, reason in reasons.items():
            if reason:
                _notice(f"{title} is not used: {reason}; {backend.title} computes instead")
    return backend


@functools.cache
def _notice(message: str) -> None:
    """Log a message once in a process: a run asks several times how it is computed."""
    log.warning(message)
