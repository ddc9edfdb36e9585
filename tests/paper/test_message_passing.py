"""Baselines run in the place of EGT's layers: same size, same loop, and only along edges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from egt.assemble import build_model
from egt.config.load import override
from egt.config.run_data import preparation
from egt.data.batching.batch import collate
from egt.errors import ConfigError
from egt.graph import Graph
from egt.paper.presets import preset
from egt.training.memory import num_parameters
from egt.training.run import train
from tests.caches import fresh_cache

LAYERS = ("gcn", "gin", "gatedgcn", "mlp")
PATHS = Graph.undirected(
    num_nodes=6,
    edge_index=[[0, 1, 3, 4], [1, 2, 4, 5]],
    node_categories=np.array([[0], [1], [2], [3], [4], [5]]),
    edge_categories=np.array([[1], [2], [1], [0]]),
    id="two paths",
)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("base", ["zinc-100k", "zinc-500k", "pattern-100k", "pattern-500k", "mnist-100k", "tsp-100k",
                                  "tsp-500k", "pcqm4mv2-small"])  # fmt: skip
def test_a_baseline_has_as_many_parameters_as_the_egt_beside_it(base: str, layer: str) -> None:
    assert num_parameters(preset(f"{base}-{layer}")) == pytest.approx(num_parameters(preset(base)), rel=0.05)


@pytest.mark.parametrize("layer", [*LAYERS, "sage"])
def test_messages_travel_along_edges_one_step_a_layer(layer: str) -> None:
    base = "gcn" if layer == "sage" else layer  # there is no preset of it
    settings = ["model.num_layers=1", "model.readout.kind=node", f"model.layer.kind={layer}"]
    run = override(preset(f"zinc-100k-{base}"), settings)
    model, prepared = build_model(run).eval(), preparation(run)

    def answers(graph: Graph) -> torch.Tensor:
        with torch.inference_mode():
            return model(collate([prepared(graph)], "edge_list"))

    asked = replace(PATHS, query_index=[[3, 2], [0, 5]])  # no message passes between the nodes of a query pair
    categories = PATHS.node_categories.copy()
    categories[0] = 9
    changed = (answers(asked) != answers(replace(asked, node_categories=categories))).any(1)
    assert changed.tolist() == [True, layer != "mlp", False, False, False, False]
    torch.testing.assert_close(answers(asked), answers(PATHS))


def test_a_node_and_the_mean_of_its_neighbors_have_maps_of_their_own() -> None:
    run = override(preset("zinc-100k-gcn"), ["model.num_layers=1", "model.layer.kind=sage"])
    model = build_model(run).eval()
    x = model.embed(collate([preparation(run)(PATHS)], "edge_list"))
    layer = model.layers[0]
    with torch.inference_mode():
        h, _ = layer(x.h, x.e, x.context)
        normed = layer.norm(x.h)
        for i in range(PATHS.num_nodes):
            around = PATHS.edge_index[1][PATHS.edge_index[0] == i].tolist()
            mean = torch.stack([normed[j] for j in around]).mean(0)
            expected = x.h[i] + torch.relu(layer.A(normed[i]) + layer.B(mean))
            torch.testing.assert_close(h[i], expected)


def test_gcn_and_gin_need_the_edge_list() -> None:
    with pytest.raises(ConfigError, match=r"data\.layout.*edge_list"):
        override(preset("zinc-100k-gcn"), ["data.layout=packed"])


@pytest.mark.parametrize("layer", LAYERS)
def test_a_baseline_trains_in_the_same_loop(layer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGT_CACHE_DIR", fresh_cache(tmp_path))
    sizes = "data.options={split_sizes: {train: 6, val: 2, test: 2}}"
    base = "tsp-100k" if layer == "gatedgcn" else "pattern-100k"
    run = override(
        preset(f"{base}-{layer}"), [sizes, "trainer.max_epochs=2", "model.num_layers=2", "data.batch_size=3"]
    )
    outcome = train(run, tmp_path / "run", show_progress=False)
    assert len(outcome.history) == 2
    assert 0 <= outcome.artifact.metrics["test"][run.task.deciding_metric] <= 1
