"""Layers of one's own: what they know about their place, and what assembly does for them."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from egt.assemble import build_model
from egt.config.run import ModelConfig, RunConfig
from egt.data.batching.batch import collate
from egt.inference.backends import PLAIN, execution
from egt.nn.channels import AttentionContext
from egt.nn.randomness import Dropout, Stream
from egt.parts.readouts import LayerPart, LayerPlace
from egt.registry import register
from egt.testing import CheckFailed, check_layer
from tests.graphs import graphs_of_every_kind, samples_of, tiny_config

PLACES: list[LayerPlace] = []


class Dropped(nn.Module):
    def __init__(self, width: int, layer: int = 0) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.dropout = Dropout(0.5, Stream.NODE_DROPOUT, layer, "node")

    def forward(self, h: Tensor, e: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        return h + self.dropout(self.linear(h), context), e


@register
class Placed(LayerPart):
    """A layer that is given its place."""

    kind: Literal["placed"] = "placed"

    def module(self, model: ModelConfig, place: LayerPlace) -> nn.Module:
        PLACES.append(place)
        return Dropped(model.node_width, place.index)


@register
class Unplaced(LayerPart):
    """A layer as those of 0.1."""

    kind: Literal["unplaced"] = "unplaced"

    def module(self, model: ModelConfig) -> nn.Module:  # type: ignore[override]
        return Dropped(model.node_width)


def config(kind: str, **model: Any) -> RunConfig:
    content = tiny_config(num_layers=3, scope="neighbors", **model).model_dump()
    content["model"]["layer"] = {"kind": kind}
    content["data"]["layout"] = "edge_list"
    content["model"]["pair_inputs"] = content["model"]["pair_inputs"][1:]  # no distances of pairs that are no edges
    return RunConfig.model_validate(content)


@pytest.mark.parametrize("kind", ["placed", "unplaced"])
def test_each_layer_draws_for_itself(kind: str) -> None:
    run = config(kind)
    model = build_model(run).train()
    assert [layer.dropout.layer for layer in model.layers] == [0, 1, 2]
    samples = samples_of(run, graphs_of_every_kind(0))
    assert model(collate(samples, "edge_list")).isfinite().all()


def test_it_is_computed_by_plain_code_and_says_so() -> None:
    assert execution(config("placed")).backend is PLAIN


@pytest.mark.parametrize(("readout", "reads"), [("mean", "nodes"), ("edge", "pairs")])
def test_a_layer_is_given_its_place_and_what_is_read_of_it(readout: str, reads: str) -> None:
    PLACES.clear()
    build_model(config("placed", readout={"kind": readout}))
    assert [(place.index, place.reads, place.is_last) for place in PLACES] == [
        (0, "both", False),
        (1, "both", False),
        (2, reads, True),
    ]


class Flawed(nn.Module):
    """A layer with one of the flaws that `check_layer` finds."""

    def __init__(self, width: int, flaw: str) -> None:
        super().__init__()
        self.flaw, self.steps = flaw, 0
        self.linear = nn.Linear(width, width)

    def forward(self, h: Tensor, e: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        new = self.linear(h)
        if self.flaw == "batch":
            new = new + h.flatten(0, -2).mean(0)
        if self.flaw == "numbering":
            new = new * torch.linspace(1, 2, h.flatten(0, -2).shape[0]).view(*h.shape[:-1], 1)
        if self.flaw == "padding":
            new = new + h.mean(-2, keepdim=True) if h.dim() == 3 else new
        if self.flaw == "infinite":
            new = new / (h - h).sqrt()
        self.steps += self.training
        return h + new * (1 + self.steps * (self.flaw == "state")), e


@register
class FlawedPart(LayerPart):
    """A layer with a flaw."""

    kind: Literal["flawed"] = "flawed"
    flaw: str = ""

    def module(self, model: ModelConfig, place: LayerPlace) -> nn.Module:
        return Flawed(model.node_width, self.flaw)

    def check(self, run: RunConfig) -> None:
        pass


def test_a_layer_is_checked_on_the_layouts_that_it_takes() -> None:
    assert check_layer(FlawedPart()) == ["packed", "padded", "edge_list"]
    for kind in ("gatedgcn", "sage", "mlp"):
        assert check_layer(LayerPart.of_kind(kind)) == ["edge_list"]


@pytest.mark.parametrize("flaw", ["batch", "numbering", "padding", "infinite", "state"])
def test_flaws_of_a_layer_are_found(flaw: str) -> None:
    with pytest.raises(CheckFailed):
        check_layer(FlawedPart(flaw=flaw))
