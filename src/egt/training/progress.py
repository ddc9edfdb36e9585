"""Where a run is, and everything that has to be kept to continue it exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer


@dataclass
class Best:
    """The best validation so far: its loss, its epoch, and the file that holds the weights."""

    loss: float
    epoch: int
    file: str


@dataclass
class Progress:
    """Counters and results of a run; plain data, so that JSON keeps it.

    Fields:
        epoch: the epoch that is being trained, from 0.
        position: steps of it that are done.
        step: optimizer steps of the whole run that are done.
        sums: of the running epoch: loss, labels, auxiliary loss, graphs.
        seconds: of the running epoch, as measured.
        best: the best validation so far.
        history: a row for each finished epoch.
    """

    epoch: int = 0
    position: int = 0
    step: int = 0
    sums: list[float] = field(default_factory=lambda: [0.0] * 4)
    seconds: float = 0.0
    best: Best | None = None
    history: list[dict[str, float]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """What `from_json` takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Progress:
        """The progress that was kept."""
        best = state["best"]
        return cls(**{**state, "best": None if best is None else Best(**best)})


def training_tensors(model: nn.Module, optimizer: Optimizer, average: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights, optimizer state and averaged weights, each under the name of its parameter."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{key}.{name}"] = value
    return tensors | {f"average.{name}": tensor for name, tensor in average.items()}


def restore_optimizer(model: nn.Module, optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put the optimizer's state back where `training_tensors` took it from."""
    parameters = dict(model.named_parameters())
    for full_name, value in named(tensors, "optimizer").items():
        key, _, name = full_name.partition(".")
        # Adam counts its steps on the CPU, whatever the device of the weights.
        device = value.device if key == "step" else parameters[name].device
        optimizer.state[parameters[name]][key] = value.to(device, copy=True)


def named(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """The tensors of a part ("model", "optimizer" or "average"), without its name in front."""
    return {name.removeprefix(f"{part}."): tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}
