"""The moving average of weights, by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from egt.training.state import WeightAverage


def test_the_average_follows_the_weights_and_can_take_their_place() -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    average = WeightAverage(model, 0.75)
    for value, expected in ((5.0, 2.0), (2.0, 2.0), (6.0, 3.0)):
        nn.init.constant_(model.weight, value)
        average.update()
        assert average.values["weight"].item() == pytest.approx(expected)
    average.swap()
    assert (model.weight.item(), average.values["weight"].item()) == (3.0, 6.0)
    average.swap()
    assert torch.equal(model.weight, torch.tensor([[6.0]]))
