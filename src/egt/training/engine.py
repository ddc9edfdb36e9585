"""The engine below the loop, plain PyTorch: device, precision, gradients over processes (docs/engine.md says why)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from egt.config.run import OptimizerConfig, TrainerConfig
from egt.data.batching.batch import GraphBatch
from egt.inference.backends import DTYPES
from egt.nn.layer import EdgeOnlyLayer, EGTLayer
from egt.nn.model import EGT
from egt.processes import ALONE, device_of, find_launch, join_processes, leave_processes

Losses = Callable[[GraphBatch], tuple[Tensor, Tensor]]


class Engine:
    """What one process of a run computes with: device, precision, and the processes that train together.

    Gradients are the mean over all processes, so a loss is multiplied by their number to be summed over them.

    Attributes:
        processes: the initialized process group.
        sharded: whether each process holds only its part of the weights.
        scaler: of losses in float16; does nothing otherwise.
    """

    def __init__(self, settings: TrainerConfig) -> None:
        self.device = device_of(find_launch() or ALONE, settings.accelerator)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        self.processes = join_processes(self.device)
        self.sharded = settings.strategy == "fsdp" and self.processes.count > 1
        self.dtype = DTYPES[settings.precision]
        if self.device.type != "cpu":
            torch.set_float32_matmul_precision("high" if settings.precision == "tf32" else "highest")
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.dtype == torch.float16)
        self._replicas: Any = None

    def place(self, model: EGT) -> None:
        """Bring a model to the device, or each process' part of it."""
        if self.sharded:
            _shard(model, self.device)
        else:
            model.to(self.device)

    def spread(self, losses: nn.Module) -> Losses:
        """Return a function of a batch -> losses whose gradients are averaged over all processes."""
        if self.sharded or self.processes.count == 1:
            return losses
        from torch.nn.parallel import DistributedDataParallel

        places = None if self.device.type == "cpu" else [self.device]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "`broadcast_buffers`", FutureWarning)  # older versions have no other name
            # Buffers are the same everywhere and never change. Layers of another kind may have parameters, or leave
            # others without use, that no gradient reaches.
            own = [layer for part in losses.modules() if isinstance(part, EGT) for layer in part.layers]
            self._replicas = DistributedDataParallel(
                losses,
                device_ids=places,
                broadcast_buffers=False,
                find_unused_parameters=not all(isinstance(layer, EGTLayer | EdgeOnlyLayer) for layer in own),
            )
        return self._losses

    def _losses(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        losses: tuple[Tensor, Tensor] = self._replicas(batch)
        return losses

    def close(self) -> None:
        """Leave the process group. What refers to it goes first: a group that outlives its end may crash."""
        self._replicas = None
        leave_processes()

    def agree(self, wanted: bool) -> bool:
        """Return whether to do something that processes which share the weights do together, as soon as one asks."""
        return any(self.processes.total(float(wanted))) if self.sharded else wanted

    def accumulating(self, last: bool) -> AbstractContextManager[None]:
        """Return the context of a micro-batch: gradients of replicas travel once, with the last of a step."""
        synchronized: AbstractContextManager[None] = nullcontext()
        return synchronized if last or self._replicas is None else self._replicas.no_sync()

    def precision(self) -> AbstractContextManager[None]:
        """Return the context of a forward pass: matrix products in half precision if the run has it."""
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32)


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor of which each process may hold a part; all processes call this together."""
    gathered: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return gathered


def part_like(value: Tensor, like: Tensor) -> Tensor:
    """Return what a process keeps of a whole tensor: as much as it has of another one, on the same device."""
    if not hasattr(like, "full_tensor"):
        return value.to(like.device, copy=True)
    from torch.distributed.tensor import distribute_tensor

    mesh, placements = like.device_mesh, like.placements  # type: ignore[attr-defined]
    return distribute_tensor(value.to(like.device), mesh, placements, src_data_rank=None)


def _shard(model: EGT, device: torch.device) -> None:
    """Give each process its part of every layer and of the rest; parts are gathered when they are computed with."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for method in ("encode", "read"):  # a training step calls them one by one
        register_fsdp_forward_method(model, method)


class AdamW:
    """Adam with decoupled weight decay; its state is known by the names of the parameters.

    The arithmetic is torch's own function, on a CPU in one pass over each weight. Its class imports the compiler, which
    takes seconds at every start. Parameters that are named `undecayed` do not decay.
    """

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], settings: OptimizerConfig, undecayed: Container[str] = ()
    ) -> None:
        self.parameters, self.settings = dict(parameters), settings
        self.state: dict[str, dict[str, Tensor]] = {}
        self.rate = settings.lr
        groups: dict[float, list[str]] = {}
        for name in self.parameters:
            groups.setdefault(0.0 if name in undecayed else settings.weight_decay, []).append(name)
        self._groups = groups

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """What torch's `GradScaler` reads."""
        return [{"params": list(self.parameters.values())}]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters.values():
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Take a step along the gradients, with the rate that is set.

        On a CPU one thread computes it: torch wakes the others for every weight, which takes longer than the step.
        """
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            for weight_decay, names in self._groups.items():
                moved = {name: self.parameters[name] for name in names if self.parameters[name].grad is not None}
                if moved:
                    self._step(moved, weight_decay)
        finally:
            torch.set_num_threads(threads)

    def _step(self, moved: Mapping[str, nn.Parameter], weight_decay: float) -> None:
        states = [self.state.get(name) or self.state.setdefault(name, _fresh(moved[name])) for name in moved]
        adamw(
            list(moved.values()),
            [parameter.grad for parameter in moved.values() if parameter.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=all(_is_whole_on_cpu(parameter) for parameter in moved.values()) or None,
            amsgrad=False,
            beta1=self.settings.betas[0],
            beta2=self.settings.betas[1],
            lr=self.rate,
            weight_decay=weight_decay,
            eps=self.settings.eps,
            maximize=False,
        )


def undecayed(model: nn.Module) -> set[str]:
    """Return the names of the parameters that are not weights of a linear map: norms, biases, embeddings."""
    maps = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    return {name for name, _ in model.named_parameters()} - maps


def _is_whole_on_cpu(parameter: Tensor) -> bool:
    return parameter.device.type == "cpu" and not hasattr(parameter, "full_tensor")


def _fresh(parameter: Tensor) -> dict[str, Tensor]:
    """Return the state before the first step; torch counts steps on the CPU."""
    return {
        "step": torch.tensor(0.0),
        "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
        "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
    }
