"""An exponential moving average of the weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class WeightAverage:
    """average <- decay * average + (1 - decay) * weights, after each optimizer step.

    Args:
        model: whose weights are averaged.
        decay: of the average.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = model, decay
        self.values = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights after a step."""
        for name, parameter in self.model.named_parameters():
            self.values[name] = self.values[name].to(parameter.device).lerp_(parameter, 1 - self.decay)

    def restore(self, values: Mapping[str, Tensor]) -> None:
        """Continue from a kept average."""
        self.values = dict(values)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the weights of the model and the average."""
        for name, parameter in self.model.named_parameters():
            weights = parameter.detach().clone()
            parameter.copy_(self.values[name])
            self.values[name] = weights
