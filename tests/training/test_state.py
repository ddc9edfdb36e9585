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


def test_all_weights_are_averaged_at_once_with_the_digits_of_each() -> None:
    model = nn.Sequential(nn.Linear(7, 5), nn.Linear(5, 3))
    average = WeightAverage(model, 0.9)
    expected = {name: value.clone() for name, value in average.values.items()}
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    average.update()
    for name, parameter in model.named_parameters():
        assert torch.equal(average.values[name], expected[name].lerp(parameter, 1 - 0.9))
