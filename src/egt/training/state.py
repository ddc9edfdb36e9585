"""What a run is made of while it trains: model, optimizer, schedule, averaged weights, progress; kept and put back.

Below them is the engine, plain PyTorch: device, precision, gradients over processes (docs/engine.md says why).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from egt.assemble import build_model
from egt.config.run import OptimizerConfig, RunConfig, TrainerConfig
from egt.data.batching.batch import GraphBatch
from egt.data.encodings.encoding import Sample
from egt.errors import ArtifactError
from egt.inference.backends import DTYPES, device_of, execution
from egt.nn.layer import EdgeOnlyLayer, EGTLayer
from egt.nn.model import EGT
from egt.parts.schedules import Schedule
from egt.processes import ALONE, find_launch, join_processes, leave_processes
from egt.training.finetune import Start, start_from
from egt.training.run_folder import Best, Kept, RunProgress, StepSums, checkpoints_of, tensors_of, write_tensors

if TYPE_CHECKING:
    from egt.training.held_out import CrossFit

Losses = Callable[[GraphBatch], tuple[Tensor, Tensor]]


class Engine:
    """What one process of a run computes with: device, precision, and the processes that train together.

    Gradients are the mean over all processes, so a loss is multiplied by their number to be summed over them.

    Attributes:
        sharded: whether each process holds only its part of the weights.
        scaler: of losses in float16; does nothing otherwise.
    """

    def __init__(self, settings: TrainerConfig) -> None:
        self.device = device_of(find_launch() or ALONE, settings.accelerator)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        self.processes = join_processes(self.device, settings.timeout_minutes)
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
        places = None if self.device.type == "cpu" else [self.device]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "`broadcast_buffers`", FutureWarning)  # older versions have no other name
            # Buffers are the same everywhere and never change. Layers of another kind may have parameters, or leave
            # others without use, that no gradient reaches.
            own = [layer for part in losses.modules() if isinstance(part, EGT) for layer in part.layers]
            self._replicas = nn.parallel.DistributedDataParallel(
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

    def accumulation(self, last: bool) -> AbstractContextManager[None]:
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


def find_undecayed(model: nn.Module) -> set[str]:
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


class WeightAverage:
    """average <- decay * average + (1 - decay) * weights, after each optimizer step."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = model, decay
        self.values = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights after a step."""
        weights = dict(self.model.named_parameters())
        # One launch for many tensors; of equal weight for all, so that each has the digits of its own `lerp_`.
        torch._foreach_lerp_(list(self.values.values()), [weights[name] for name in self.values], 1 - self.decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the weights of the model and the average."""
        for name, parameter in self.model.named_parameters():
            weights = parameter.detach().clone()
            parameter.copy_(self.values[name])
            self.values[name] = weights


class State:
    """Everything of a run that outlives a step; `facts` are what a checkpoint has to agree with, as JSON.

    Attributes:
        held_out: the answers for validation rows that calibrate, where an epoch is chosen on these; else None.
    """

    def __init__(
        self,
        config: RunConfig,
        model: EGT,
        engine: Engine,
        facts: Mapping[str, Any],
        folder: Path,
        steps_per_epoch: int,
    ) -> None:
        self.config, self.model, self.engine, self.facts, self.folder = config, model, engine, facts, folder
        self.steps_per_epoch = steps_per_epoch
        self.checkpoints = checkpoints_of(folder)
        self.progress = RunProgress()
        self.held_out: CrossFit | None = None
        self.schedule: Schedule = config.schedule.of_length(self.num_steps).build(config.optimizer.lr)
        self.optimizer = AdamW(
            self.trained, config.optimizer, find_undecayed(model) if config.optimizer.decays == "matrices" else ()
        )
        decay = config.trainer.ema_decay
        self.average = None if decay is None else WeightAverage(model, decay)
        self._clock = self._last_write = time.monotonic()

    @property
    def trained(self) -> dict[str, nn.Parameter]:
        """The parameters that are not frozen, by name."""
        return {name: parameter for name, parameter in self.model.named_parameters() if parameter.requires_grad}

    def is_finished(self) -> bool:
        """Return whether the run has reached its end, or has not become better for too long."""
        limits = self.config.trainer
        return not self.awaits_validation and (
            (limits.max_epochs is not None and self.progress.epoch >= limits.max_epochs)
            or (limits.max_steps is not None and self.progress.step >= limits.max_steps)
            or (limits.patience is not None and self.progress.epochs_since_best >= limits.patience)
        )

    @property
    def awaits_validation(self) -> bool:
        """Whether the running epoch has had all its steps, but is not closed."""
        has_begun = self.progress.sums[3] > 0
        return has_begun and self.progress.position >= self.last_position

    @property
    def last_position(self) -> int:
        """Where the running epoch ends: with its last step, or earlier with the last step of the run."""
        max_steps = self.config.trainer.max_steps
        if max_steps is None:
            return self.steps_per_epoch
        return min(self.steps_per_epoch, self.progress.position + max_steps - self.progress.step)

    @property
    def num_steps(self) -> int:
        """Optimizer steps of the whole run."""
        limits = self.config.trainer
        by_epochs = None if limits.max_epochs is None else limits.max_epochs * self.steps_per_epoch
        return min(steps for steps in (by_epochs, limits.max_steps) if steps is not None)

    def is_checkpoint_due(self) -> bool:
        """Return whether it is time to write a checkpoint; at the end of an epoch one is written anyway."""
        waited = time.monotonic() - self._last_write
        due = waited >= 60 * self.config.trainer.checkpoint_minutes and self.progress.position < self.last_position
        return self.engine.agree(due)

    def start_clock(self) -> None:
        """Begin to measure the time of the steps that follow, or of the rest of one that was paused."""
        self._clock = time.monotonic()

    def count(self, step: StepSums) -> None:
        """Count a step that was taken."""
        before, self._clock = self._clock, time.monotonic()
        self.progress.seconds += self._clock - before
        self.progress.position += 1
        self.progress.step += 1
        self.progress.sums = [old + new for old, new in zip(self.progress.sums, step, strict=True)]
        if self.average is not None:
            self.average.update()

    def close_epoch(self, validation: Mapping[str, float]) -> dict[str, float]:
        """Close an epoch: history, schedule, best weights, checkpoint. Returns the new row of the history.

        validation: "loss" and metrics on the validation split; empty when there is none.
        """
        progress = self.progress
        row = self._row(validation)
        progress.history.append(row)
        if validation:
            self.schedule.observe(validation["loss"])
            if progress.best is None or is_better(self.config, row, progress.best_row):
                progress.best = Best(validation["loss"], progress.epoch, f"best-{progress.step:012d}.safetensors")
                if self.config.trainer.select == "best":
                    self._write_best(progress.best.file)
        if progress.position >= self.steps_per_epoch:
            progress.epoch, progress.position = progress.epoch + 1, 0
        progress.sums, progress.seconds = [0.0] * 4, 0.0
        self.checkpoint()
        return row

    def checkpoint_content(self) -> Kept:
        """Return the state of the run as JSON and its tensors, as `_gather` does."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for name, state in self.optimizer.state.items():
            tensors |= {f"optimizer.{key}.{name}": value for key, value in state.items()}
        if self.average is not None:
            tensors |= {f"average.{name}": tensor for name, tensor in self.average.values.items()}
        if self.held_out is not None:
            tensors |= self.held_out.tensors()
        progress = self.progress.as_json()
        content = {
            **self.facts,
            "progress": progress,
            "schedule": self.schedule.state(),
            "best": progress["best"],
            "precision": self.engine.scaler.state_dict(),
            "trained": list(self.trained),
            "held_out": None if self.held_out is None else self.held_out.rows,
        }
        return content, self._gather(tensors)

    def _gather(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return whole tensors; if processes hold parts, which all call this together, only the first one gets them.

        They are gathered one by one, as the device may not have room for all of them.
        """
        if not self.engine.sharded:
            return tensors
        gathered = ((name, whole(tensor)) for name, tensor in tensors.items())
        is_first = self.engine.processes.is_first
        return {name: tensor.cpu() for name, tensor in gathered if is_first}

    def checkpoint(self) -> None:
        """Write a checkpoint."""
        self._last_write = time.monotonic()
        content, tensors = self.checkpoint_content()
        if self.engine.processes.is_first:
            best = self.progress.best
            self.checkpoints.write(self.progress.step, content, tensors, None if best is None else best.file)

    def restore(self, kept: Kept) -> None:
        """Continue from a checkpoint. The model has its weights already."""
        state, tensors = kept
        for full_name, value in tensors_of(tensors, "optimizer").items():
            key, _, name = full_name.partition(".")
            own = self.optimizer.state.setdefault(name, {})
            own[key] = value if key == "step" else part_like(value, self.optimizer.parameters[name])
        if self.average is not None:
            values = tensors_of(tensors, "average")
            self.average.values = {name: part_like(values[name], own) for name, own in self.average.values.items()}
        self.progress = RunProgress.from_json(state["progress"])
        if self.held_out is not None:
            self.held_out.restore(state.get("held_out") or (), tensors)
        if self.progress.best is not None:
            self.checkpoints.keep_weights(self.progress.best.file)
        self.schedule.restore(state["schedule"])
        if state["precision"]:
            self.engine.scaler.load_state_dict(state["precision"])

    def _row(self, validation: Mapping[str, float]) -> dict[str, float]:
        """Return a line of metrics.csv."""
        progress = self.progress
        loss, labels, auxiliary, graphs = progress.sums
        return {
            "epoch": progress.epoch,
            "step": progress.step,
            "lr": self.schedule.rate(progress.step - 1),
            "train_loss": loss / max(labels, 1),
            **({"train_auxiliary": auxiliary / max(graphs, 1)} if self.config.task.auxiliary else {}),
            **{f"val_{name}": value for name, value in validation.items()},
            "seconds": round(progress.seconds, 3),
            "graphs_per_second": round(graphs / max(progress.seconds, 1e-9), 1),
        }

    def _write_best(self, file: str) -> None:
        weights = self.model.state_dict() | ({} if self.average is None else self.average.values)
        weights = self._gather(weights)
        if self.engine.processes.is_first:
            write_tensors(self.checkpoints.folder / file, self.facts, weights)


def measure(config: RunConfig) -> str:
    """Return the name of what decides which epoch is best, by `trainer.select_by`: the loss, or the task's metric."""
    return "loss" if config.trainer.select_by == "loss" else config.task.deciding_metric


def higher_is_better(config: RunConfig) -> bool:
    """Return whether more of `measure` is better."""
    return config.trainer.select_by == "metric" and config.task.higher_is_better


def score(config: RunConfig, row: Mapping[str, float]) -> float:
    """Return the `measure` of a row of the history; a metric without labels is worse than any other."""
    value = row[f"val_{measure(config)}"]
    if math.isnan(value):
        return -math.inf if higher_is_better(config) else math.inf
    return value


def is_better(config: RunConfig, row: Mapping[str, float], best: Mapping[str, float]) -> bool:
    """Return whether an epoch is better than the best one before it."""
    new, old = score(config, row), score(config, best)
    return new > old if higher_is_better(config) else new < old


def starting_model(
    config: RunConfig, engine: Engine, training: Sequence[Sample], start: Start | None, kept: Kept | None
) -> EGT:
    """Build the initial model, the same in every process: random, from another model, or from a checkpoint.

    A new model is fitted to the training graphs. What was kept of another model is an `ArtifactError`.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = build_model(config, backend=execution(config, engine.device).backend)
    if kept is None:
        model.fit(training)
    if start is not None:
        start_from(model, start)
    if kept is not None:
        state, tensors = kept
        weights = tensors_of(tensors, "model")
        if weights.keys() != model.state_dict().keys():
            raise ArtifactError("the checkpoint to continue from is of another model")
        model.load_state_dict(weights)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name in state["trained"])
    if config.trainer.compile:
        for layer in model.layers:  # layers are alike: one compilation serves them all
            layer.compile(dynamic=True)
    engine.place(model)
    model.train()
    return model
