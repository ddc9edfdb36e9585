"""The node side of a layer in the kernel. Equality is tested in `test_passes`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from egt.assemble import build_model
from egt.data.batching.batch import collate
from egt.inference.backends import CPU
from egt.nn.kernels import layers, operators
from egt.nn.kernels.operators import available
from egt.nn.randomness import graph_keys
from tests.graphs import graphs_of_every_kind, samples_of, tiny_config


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the operators that were called."""
    if not available():
        pytest.skip("the fused kernel needs a C++ compiler")
    found: list[str] = []
    for name in ("project_rows", "update_rows"):
        operator = getattr(layers, name)

        def call(*arguments: Any, name: str = name, operator: Any = operator) -> Any:
            found.append(name)
            return operator(*arguments)

        monkeypatch.setattr(layers, name, call)
    return found


def forward(*, training: bool = False, **model: Any) -> None:
    config = tiny_config(**model)
    batch = collate(samples_of(config, graphs_of_every_kind(4)))
    batch = replace(batch, random_keys=graph_keys(0, 0, batch.graph_ids))
    with torch.no_grad():
        build_model(config, backend=CPU).train(training)(batch)


def test_each_layer_is_two_operators(calls: list[str]) -> None:
    forward()
    assert calls == 2 * ["project_rows", "update_rows"]


@pytest.mark.parametrize("activation", ["gelu", "relu", "silu"])
def test_every_activation_and_dropout_is_in_the_kernel(calls: list[str], activation: str) -> None:
    forward(training=True, activation=activation, node_dropout=0.1, node_ffn_dropout=0.1)
    assert calls == 2 * ["project_rows", "update_rows"]


def test_last_layer_of_virtual_nodes_updates_their_rows_alone(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    updated, compute = [], operators.update_rows

    def update(h: Tensor, *others: Any) -> Any:
        updated.append(len(h))
        return compute(h, *others)

    monkeypatch.setattr("egt.nn.kernels.layers.update_rows", update)
    forward(readout={"kind": "virtual_nodes", "num_virtual": 2})
    graphs = graphs_of_every_kind(4)
    assert updated == [sum(graph.num_nodes + 2 for graph in graphs), 2 * len(graphs)]
