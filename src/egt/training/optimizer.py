"""AdamW on named parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from egt.config.run import OptimizerConfig


class AdamW:
    """Adam with decoupled weight decay; its state is known by the names of the parameters.

    The arithmetic is torch's own function. Its class imports the compiler, which takes seconds at every start.

    Args:
        parameters: those that are trained, by name.
        settings: of the optimizer; the rate is given at each step.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], settings: OptimizerConfig) -> None:
        self.parameters, self.settings = dict(parameters), settings
        self.state: dict[str, dict[str, Tensor]] = {}
        self.rate = settings.lr

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
        """Take a step along the gradients, with the rate that is set."""
        moved = {name: parameter for name, parameter in self.parameters.items() if parameter.grad is not None}
        states = [self.state.setdefault(name, _fresh(parameter)) for name, parameter in moved.items()]
        adamw(
            list(moved.values()),
            [parameter.grad for parameter in moved.values() if parameter.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            amsgrad=False,
            beta1=self.settings.betas[0],
            beta2=self.settings.betas[1],
            lr=self.rate,
            weight_decay=self.settings.weight_decay,
            eps=self.settings.eps,
            maximize=False,
        )


def _fresh(parameter: Tensor) -> dict[str, Tensor]:
    """Return the state before the first step; torch counts steps on the CPU."""
    return {
        "step": torch.tensor(0.0),
        "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
        "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
    }
