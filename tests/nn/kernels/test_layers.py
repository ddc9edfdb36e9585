"""When the node side of a layer runs in the kernel, and when the plain way. Equality is tested in `test_passes`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from egt.assemble import build_model
from egt.batching.batch import LayoutName, collate
from egt.nn.kernels import layers
from egt.nn.kernels.fused import available
from egt.nn.randomness import graph_keys
from tests.graphs import graphs_of_every_kind, samples_of, tiny_config


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the operators that were called."""
    if not available():
        pytest.skip("the fused kernel needs a C++ compiler")
    found: list[str] = []
    for name in ("norm_linear", "node_update"):
        operator = getattr(layers, name)

        def call(*arguments: Any, name: str = name, operator: Any = operator) -> Any:
            found.append(name)
            return operator(*arguments)

        monkeypatch.setattr(layers, name, call)
    return found


def forward(*, training: bool = False, layout: LayoutName = "packed", **model: Any) -> None:
    config = tiny_config(**model)
    batch = collate(samples_of(config, graphs_of_every_kind(4)), layout)
    batch = replace(batch, noise=graph_keys(0, 0, batch.graph_ids))
    with torch.no_grad():
        build_model(config).train(training)(batch)


def test_each_layer_is_two_operators(calls: list[str]) -> None:
    forward()
    assert calls == 2 * ["norm_linear", "node_update"]


def test_last_layer_of_virtual_nodes_updates_their_rows_alone(calls: list[str]) -> None:
    forward(readout={"kind": "virtual_nodes", "num_virtual": 2})
    assert calls == ["norm_linear", "node_update", "norm_linear"]


def test_dropout_of_nodes_goes_the_plain_way_in_training(calls: list[str]) -> None:
    forward(node_ffn_dropout=0.1)
    assert "node_update" in calls
    calls.clear()
    forward(training=True, node_ffn_dropout=0.1)
    assert "node_update" not in calls


def test_other_activations_go_the_plain_way(calls: list[str]) -> None:
    forward(activation="gelu")
    assert "node_update" not in calls


def test_padded_layout_goes_the_plain_way(calls: list[str]) -> None:
    forward(layout="padded")
    assert calls == []
