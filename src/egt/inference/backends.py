"""How a run is computed on a machine: layout, backend and precision; how much memory there is and a graph needs."""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import nn

import egt.processors as processors
from egt.assemble import LayerClasses, PlainLayers, build_layers
from egt.config.run import ModelConfig, RunConfig, TrainerConfig
from egt.data.batching.batch import LayoutName
from egt.errors import ConfigError
from egt.nn.kernels.binding import openmp
from egt.nn.kernels.layers import FusedEdgePass, FusedLayer, FusedPairPass
from egt.nn.kernels.operators import available
from egt.nn.layer import EdgePass, EGTLayer, PairPass
from egt.nn.model import EGT
from egt.processes import ALONE, Processes


class Backend(LayerClasses, Protocol):
    """One way to compute the layers."""

    @property
    def title(self) -> str:
        """What it is, in a few words."""

    def unsupported(self, device: torch.device, dtype: torch.dtype, layout: LayoutName) -> str:
        """Say why a run cannot be computed on a device, with this type inside the layers and layout; "" if it can."""

    def bytes_per_pair(self, model: ModelConfig) -> float:
        """Estimate the bytes of a pair that are alive at once at the peak of a layer, without gradients."""

    def bytes_per_node(self, model: ModelConfig) -> float:
        """Estimate the same for a node."""


class Plain(PlainLayers):
    """The plain specification, in PyTorch: every layout, device and precision."""

    title = "plain PyTorch"

    def unsupported(self, device: torch.device, dtype: torch.dtype, layout: LayoutName) -> str:
        """See `Backend.unsupported`."""
        return ""

    def bytes_per_pair(self, model: ModelConfig) -> float:
        """Count three of the edge channel, the hidden rows twice, and four numbers for each head: logit to A_tilde."""
        hidden = round(model.edge_width * model.edge_ffn_multiplier)
        return 4.0 * (3 * model.edge_width + 2 * hidden + 4 * model.num_heads) + _input_bytes(model)

    def bytes_per_node(self, model: ModelConfig) -> float:
        """Count as for the CPU kernel, and the hidden rows twice."""
        return 4.0 * model.node_width * (6 + 2 * model.node_ffn_multiplier)


class CpuKernel:
    """The fused kernel for CPUs (`egt.nn.kernels`): one operator for all pair work of a layer."""

    name = "cpu"
    title = "the CPU kernel"
    layer: type[EGTLayer] = FusedLayer
    pairs: type[PairPass] = FusedPairPass
    edges: type[EdgePass] = FusedEdgePass

    def unsupported(self, device: torch.device, dtype: torch.dtype, layout: LayoutName) -> str:
        """See `Backend.unsupported`."""
        if device.type != "cpu":
            return f"it computes on a CPU, and the device is {device.type}"
        if layout == "padded":
            return "it computes packed batches and lists of pairs, and those of this run are padded"
        if dtype != torch.float32:
            return f"it computes in float32, and this run in {str(dtype).removeprefix('torch.')}"
        return "" if available() else "it could not be compiled here"

    def bytes_per_pair(self, model: ModelConfig) -> float:
        """Count e, an input term and their sum; with a single input term only e and its update."""
        return 4.0 * (2 if len(model.pair_inputs) == 1 else 3) * model.edge_width + _input_bytes(model)

    def bytes_per_node(self, model: ModelConfig) -> float:
        """Count the channel, Q|K|V, what the heads gather (of edges too) and the next channel."""
        d_e, heads = model.edge_width, model.num_heads
        gathered = {"none": 0, "sliced": d_e + heads, "full": heads * (d_e + 1)}[model.edge_values]
        ends = 4 * d_e if model.edges.reads_nodes else 0
        return 4.0 * (6 * model.node_width + gathered + ends)


def _input_bytes(model: ModelConfig) -> float:
    """Estimate the bytes of a pair's input values, and of the indices that place virtual nodes."""
    values = max((getattr(term, "num_steps", 1) for term in model.pair_inputs), default=1)
    return 4.0 * (values + (10 if model.readout.added_nodes() else 2))


PLAIN = Plain()
CPU = CpuKernel()
BACKENDS: tuple[Backend, ...] = (CPU, PLAIN)  # the first one that supports a run computes it


def on_backend(model: EGT, config: RunConfig, backend: Backend) -> EGT:
    """Return the model of a run if it is built of this backend's layers, else one that shares its parameters."""
    if model.backend == backend.name:
        return model
    with torch.device("meta"):  # nothing is allocated: the parameters are there already
        layers = nn.ModuleList(build_layers(config, backend=backend))
    given = model.layers.state_dict(keep_vars=True)
    for name, parameter in layers.named_parameters():
        parameter.requires_grad_(given[name].requires_grad)  # which loading would carry over to the given ones
    layers.load_state_dict(given, assign=True)
    other = EGT(
        model.embed,
        list(layers),
        model.readout,
        model.head,
        run_layer=model.run_layer,
        reads_only_virtual_nodes=model.reads_only_virtual_nodes,
        backend=backend.name,
    )
    other.auxiliary = model.auxiliary
    return other.train(model.training)


log = logging.getLogger(__name__)
DTYPES = {"32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "16": torch.float16}
"""Of the work inside the layers, by `trainer.precision`."""


@dataclass(frozen=True)
class Execution:
    """What really runs: the layout of batches, the backend of the layers, and the type of the work inside them."""

    layout: LayoutName
    backend: Backend
    dtype: torch.dtype = torch.float32


def execution(config: RunConfig, device: torch.device | str = "cpu", *, training: bool = True) -> Execution:
    """Decide how a run is trained on a device, or its model used there.

    Compiler and half precision are for training only. The layout "auto" is packed on a CPU, and padded on GPUs and for
    the compiler, which works on shapes. `trainer.backend` "auto" is the first backend that supports the run; a notice
    says why a CPU is left to another one than its own. A `ConfigError` where one is named that does not support the
    run.
    """
    device = torch.device(device)
    compiled = training and config.trainer.compile
    dtype = DTYPES[config.trainer.precision] if training else torch.float32
    layout: LayoutName = "packed" if device.type == "cpu" and not compiled else "padded"
    if config.data.layout != "auto":
        layout = config.data.layout
    return Execution(layout, _backend(config, device, dtype, layout), dtype)


def _backend(config: RunConfig, device: torch.device, dtype: torch.dtype, layout: LayoutName) -> Backend:
    # Layers of another kind are plain PyTorch, whichever backend is named.
    chosen = config.trainer.backend if config.model.layer is None else PLAIN.name
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


def device_of(processes: Processes = ALONE, accelerator: str = "auto") -> torch.device:
    """Where a process computes: each process of a machine on its own GPU (in turn, if there are fewer), or on the CPU.

    A launcher may show each process one GPU only; then that is its own. accelerator "cpu" leaves the GPUs alone.
    """
    found = None if accelerator == "cpu" else torch.accelerator.current_accelerator(check_available=True)
    if found is None:
        return torch.device("cpu")
    return torch.device(found.type, processes.local_rank % torch.accelerator.device_count())


def num_devices(settings: TrainerConfig) -> int:
    """Return how many processes train on this machine."""
    if settings.devices != "auto":
        return settings.devices
    return torch.cuda.device_count() if has_cuda(settings) else 1


def has_cuda(settings: TrainerConfig) -> bool:
    """Return whether a run computes on NVIDIA GPUs."""
    return torch.cuda.is_available() and settings.accelerator in ("auto", "gpu", "cuda")


def share_of_batch(config: RunConfig) -> int:
    """Return the most graphs of a batch that one process computes."""
    return -(-config.data.batch_size // (num_devices(config.trainer) * config.trainer.num_nodes))


_USABLE_SHARE = 0.9  # of the memory that is free now, the share that a run may plan with


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
    """Estimate the bytes of a graph at the peak of a layer without gradients; 0 where only edges are computed."""
    if how.layout == "edge_list":  # nothing of size N^2 exists
        return 0
    model = config.model
    nodes = num_nodes + model.readout.added_nodes()
    per_pair = how.backend.bytes_per_pair(model)
    if model.triplets is not None:  # the layer behind them has another edge channel than the one in front
        per_pair = max(per_pair + 4.0 * model.edge_width, model.triplets.bytes_per_pair(model) + _input_bytes(model))
    return round(per_pair * nodes**2 + how.backend.bytes_per_node(model) * nodes)


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


@functools.cache
def stop_spinning() -> None:
    """Keep waiting threads from spinning, or say once how to; nothing to do where egt was imported before torch.

    OpenMP reads `OMP_WAIT_POLICY` when torch loads it; this package sets it before it loads torch. After `import torch`
    it is too late: GNU's OpenMP (libgomp) lets threads spin for about 300,000 rounds after each operation. It spins 100
    rounds where there are more OpenMP threads than processors (its manual, `GOMP_SPINCOUNT`), so a team of threads that
    sleeps to the end of the process has the effect of the setting.
    """
    if not processors.SPINS or not torch.backends.openmp.is_available():
        return
    runtime = openmp()
    if runtime is None or hasattr(runtime, "kmp_set_blocktime"):  # LLVM's and Intel's spin whatever others do
        log.warning(
            "torch was imported before egt: its threads spin while they wait, which slows down other programs on the "
            "same cores; set OMP_WAIT_POLICY=passive before Python starts"
        )
        return
    asleep = threading.Event()
    threading.Thread(target=_sleeping_team, args=(runtime, asleep), name="egt-waiting", daemon=True).start()
    asleep.wait()


def _sleeping_team(runtime: ctypes.CDLL, asleep: threading.Event) -> None:
    """Start more OpenMP threads than there are processors, and never return: they end with the thread they serve."""
    nothing = ctypes.cast(runtime.omp_get_thread_num, ctypes.c_void_p)
    runtime.GOMP_parallel(nothing, None, runtime.omp_get_num_procs() + 1, 0)
    asleep.set()
    threading.Event().wait()
