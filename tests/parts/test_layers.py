"""Layers of one's own: what they know about their place, and what assembly does for them."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from torch import Tensor, nn

from egt.assemble import build_model
from egt.config.run import ModelConfig, RunConfig
from egt.data.batching.batch import collate
from egt.nn.channels import AttentionContext
from egt.nn.randomness import Dropout, Stream
from egt.parts.readouts import LayerPart, LayerPlace
from egt.registry import register
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


@pytest.mark.parametrize(("readout", "reads"), [("mean", "nodes"), ("edge", "pairs")])
def test_a_layer_is_given_its_place_and_what_is_read_of_it(readout: str, reads: str) -> None:
    PLACES.clear()
    build_model(config("placed", readout={"kind": readout}))
    assert [(place.index, place.reads, place.is_last) for place in PLACES] == [
        (0, "both", False),
        (1, "both", False),
        (2, reads, True),
    ]
