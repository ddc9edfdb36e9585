"""How a run is computed on a machine: the layout of its batches, and whether by the fused kernel."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from egt.batching.batch import LayoutName
from egt.config.run import RunConfig
from egt.nn.kernels.fused import available


@dataclass(frozen=True)
class Execution:
    """What really runs.

    Fields:
        layout: of the batches.
        fused: the pair work is one kernel per layer; else it is the plain specification, which keeps much more for the
            backward pass. (A layer with parts that the kernel does not know, as GELU, goes the plain way by itself.)
        dtype: of the work inside the layers.
    """

    layout: LayoutName
    fused: bool
    dtype: torch.dtype = torch.float32


def execution(config: RunConfig, device: torch.device | str = "cpu", *, training: bool = True) -> Execution:
    """How a run is trained on a device, or its model used there: compiler and half precision are for training only.

    The kernel is for packed batches in float32 on a CPU. "auto" is packed there, and padded on GPUs and for the
    compiler, which works on shapes.
    """
    on_cpu = torch.device(device).type == "cpu"
    compiled = training and config.trainer.compile
    dtype = {"32": torch.float32, "bf16": torch.bfloat16, "16": torch.float16}[config.trainer.precision]
    if not training:
        dtype = torch.float32
    layout: LayoutName = "packed" if on_cpu and not compiled else "padded"
    if config.data.layout != "auto":
        layout = config.data.layout
    fused = layout == "packed" and on_cpu and not compiled and dtype == torch.float32 and available()
    return Execution(layout, fused, dtype)
